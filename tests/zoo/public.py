"""Public networks, written out: names and shapes of their layers, and their forward passes.

Everything is plain torch.nn.functional on a state dict, in the order of the public files. Widths
are an eighth of the real ones or less. `Net` makes the weights, the functions below compute.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

BASE = 4  # 64 in the public files
C1, C2, C3, C4 = 4 * BASE, 8 * BASE, 16 * BASE, 32 * BASE
HEAD = C4 // 4
DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
MEAN = torch.tensor([123.675, 116.28, 103.53]).double().view(3, 1, 1)
STD = torch.tensor([58.395, 57.12, 57.375]).double().view(3, 1, 1)


class Net(dict[str, Tensor]):
    """A state dict that grows layer by layer, and computes with them."""

    def conv(self, name: str, out: int, in_: int, kernel: int = 1, *, bias: bool = True) -> None:
        fan = in_ * kernel**2
        self[f"{name}.weight"] = torch.randn(out, in_, kernel, kernel) * (2 / fan) ** 0.5
        if bias:
            self[f"{name}.bias"] = torch.randn(out) * 0.1

    def norm(self, name: str, channels: int) -> None:
        self[f"{name}.weight"] = torch.rand(channels) + 0.5
        self[f"{name}.bias"] = torch.randn(channels) * 0.1
        self[f"{name}.running_mean"] = torch.randn(channels) * 0.1
        self[f"{name}.running_var"] = torch.rand(channels) + 0.5
        self[f"{name}.num_batches_tracked"] = torch.tensor(1000)

    def unit(self, name: str, out: int, in_: int, kernel: int = 1) -> None:
        """Add mmcv's ConvModule: a convolution without bias, then a norm."""
        self.conv(f"{name}.conv", out, in_, kernel, bias=False)
        self.norm(f"{name}.bn", out)

    def run_conv(self, x: Tensor, name: str, *, stride: int = 1, dilation: int = 1) -> Tensor:
        weight = self[f"{name}.weight"]
        groups = x.shape[1] // weight.shape[1]
        padding = dilation * (weight.shape[2] // 2)
        bias = self.get(f"{name}.bias")
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    def run_norm(self, x: Tensor, name: str) -> Tensor:
        mean, var = self[f"{name}.running_mean"], self[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, self[f"{name}.weight"], self[f"{name}.bias"])

    def run(self, x: Tensor, name: str, *, dilation: int = 1, relu: bool = True) -> Tensor:
        """Compute a ConvModule."""
        x = self.run_norm(self.run_conv(x, f"{name}.conv", dilation=dilation), f"{name}.bn")
        return x.relu() if relu else x


def add_backbone(net: Net, *, deep: bool, depth: str = "resnet50") -> None:
    if deep:
        for layer, out, in_ in ((0, BASE // 2, 3), (3, BASE // 2, BASE // 2), (6, BASE, BASE // 2)):
            net.conv(f"backbone.stem.{layer}", out, in_, 3, bias=False)
            net.norm(f"backbone.stem.{layer + 1}", out)
    else:
        net.conv("backbone.conv1", BASE, 3, 7, bias=False)
        net.norm("backbone.bn1", BASE)
    before = BASE
    for stage, blocks in enumerate(DEPTHS[depth]):
        inner, outer = BASE * 2**stage, 4 * BASE * 2**stage
        for block in range(blocks):
            name = f"backbone.layer{stage + 1}.{block}"
            net.conv(f"{name}.conv1", inner, before, bias=False)
            net.conv(f"{name}.conv2", inner, inner, 3, bias=False)
            net.conv(f"{name}.conv3", outer, inner, bias=False)
            for index, channels in enumerate((inner, inner, outer), 1):
                net.norm(f"{name}.bn{index}", channels)
            net[f"{name}.bn3.weight"] *= 0.3  # or 16 blocks in a row would grow beyond measure
            if block == 0:
                net.conv(f"{name}.downsample.0", outer, before, bias=False)
                net.norm(f"{name}.downsample.1", outer)
            before = outer


def run_backbone(net: Net, x: Tensor) -> list[Tensor]:
    """Compute the four stages at output stride 8, the first block at half the dilation."""
    if "backbone.stem.0.weight" in net:
        for layer, stride in ((0, 2), (3, 1), (6, 1)):
            x = net.run_conv(x, f"backbone.stem.{layer}", stride=stride)
            x = net.run_norm(x, f"backbone.stem.{layer + 1}").relu()
    else:
        x = net.run_norm(net.run_conv(x, "backbone.conv1", stride=2), "backbone.bn1").relu()
    x = F.max_pool2d(x, 3, 2, 1)
    maps = []
    for stage, (stride, dilation) in enumerate(((1, 1), (2, 1), (1, 2), (1, 4)), 1):
        block = 0
        while f"backbone.layer{stage}.{block}.conv1.weight" in net:
            name = f"backbone.layer{stage}.{block}"
            first = block == 0
            steps = stride if first else 1
            spread = max(1, dilation // 2) if first else dilation
            y = net.run_norm(net.run_conv(x, f"{name}.conv1"), f"{name}.bn1").relu()
            y = net.run_conv(y, f"{name}.conv2", stride=steps, dilation=spread)
            y = net.run_norm(y, f"{name}.bn2").relu()
            y = net.run_norm(net.run_conv(y, f"{name}.conv3"), f"{name}.bn3")
            if first:
                x = net.run_conv(x, f"{name}.downsample.0", stride=steps)
                x = net.run_norm(x, f"{name}.downsample.1")
            x = (x + y).relu()
            block += 1
        maps.append(x)
    return maps


def exact(net: Net, dtype: torch.dtype = torch.float64) -> Net:
    """Return the network with twice the digits, in which rounding does not show."""
    return Net({key: value.to(dtype) for key, value in net.items()})


def normalise(image: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    return ((image.double() - MEAN) / STD).to(dtype)


def resize(x: Tensor, size: tuple[int, int], *, corners: bool = False) -> Tensor:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=corners)


def size_of(x: Tensor) -> tuple[int, int]:
    return x.shape[2], x.shape[3]
