"""Cost figures are exact. Most are checked by hand here."""

from typing import Any

import pytest
import torch
from torch import nn

from reconet.cost import PeakMemory, model_cost, module_cost
from reconet.errors import RecipeError
from reconet.models import create_model
from tests.factories import tiny_model


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_the_head_are_those_of_its_layers() -> None:
    with torch.device("meta"):
        model = create_model("reconet", num_classes=21, backbone="resnet101")
    reduce, fuse = 2048 * 512 * 9 + 2 * 512, 1536 * 512 + 2 * 512
    expected = reduce + 17_301_568 + (512 * 512 + 512) + fuse + (512 * 21 + 21)
    assert (
        count_parameters(model.context) + count_parameters(model.classify) == expected == 27_800_661
    )


def test_model_cost_counts_every_convolution_once() -> None:
    model = tiny_model("fcn", crop=(64, 64))
    by_hand = 0
    hooks = []

    def on_call(layer: nn.Module, args: object, result: torch.Tensor) -> None:
        nonlocal by_hand
        assert isinstance(layer, nn.Conv2d)
        by_hand += result.numel() * layer.weight[0].numel()

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            hooks.append(layer.register_forward_hook(on_call))
    model.eval()(torch.rand(1, 3, 48, 80))
    for hook in hooks:
        hook.remove()
    cost = model_cost(model, (48, 80))
    assert cost.total.macs == by_hand
    in_use = count_parameters(model) - count_parameters(model.aux)  # type: ignore[arg-type]
    assert cost.total.params == in_use


def test_training_keeps_more_than_its_parts_the_loss_included() -> None:
    model = tiny_model("fcn", crop=(64, 64))
    cost = model_cost(model, (64, 64))
    parts = {part.name: part.saved_bytes for part in cost.parts}
    logits_bytes = 4 * 3 * 64 * 64
    assert cost.training_bytes >= sum(parts.values()) + 2 * logits_bytes
    assert cost.total.saved_bytes == sum(parts.values()) - parts["aux"]


def test_too_small_an_input_is_refused() -> None:
    model = tiny_model("fcn", crop=(64, 64))
    with pytest.raises(RecipeError, match="at least 33 x 33"):
        model_cost(model, (8, 64))


def test_saved_bytes_are_what_the_backward_pass_needs() -> None:
    # Two multiplications by a constant save nothing, a square saves its input once.
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            return y * y * 3

    x = torch.empty(10, 10, device="meta", requires_grad=True)
    assert module_cost(Square(), x).saved_bytes == 400


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_fused_attention_counts_its_two_products(device: str) -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v)

    query, key, value = (torch.empty(1, 1, n, 8, device=device) for n in (30, 20, 20))
    assert module_cost(Attention(), query, key, value).macs == 2 * 30 * 20 * 8


def test_peak_memory_is_the_most_alive_at_once() -> None:
    x = torch.zeros(1000)
    with PeakMemory() as memory:
        y = x + 1  # 4000 bytes
        y = y + 1  # two alive
        z = torch.cat([y, y])  # y and 8000
        del y
        z = z[:10] + 1  # a view of z, and 40
    assert memory.peak_bytes() == 12_000
    assert z.shape == (10,)


def test_no_intermediate_of_the_core_is_larger_than_a_few_maps() -> None:
    with torch.device("meta"):
        core = create_model("reconet", num_classes=2).context.core
        x_bchw = torch.empty(1, 512, 64, 64)
    assert core is not None
    with torch.no_grad(), PeakMemory() as memory:
        core(x_bchw)
    assert memory.peak_bytes() < 3 * 4 * x_bchw.numel()


@pytest.mark.parametrize("backbone", ["resnet18", "mobilenet_v2"])
@pytest.mark.parametrize("part", [{}, {"project": 8}, {"decoder": "light"}])
def test_every_part_has_its_parameters_and_products(backbone: str, part: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"backbone": backbone, "width": 0.25, "crop": (64, 96)}
    model = create_model("fcn", num_classes=3, aux=False, **settings, **part).eval()
    cost = model_cost(model, (64, 96))
    assert cost.total.params == count_parameters(model)
    assert cost.total.macs == module_cost(model, torch.empty(1, 3, 64, 96)).macs
    own = {"project", "decoder"} & {one.name for one in cost.parts}
    assert own == part.keys()
    # What has weights computes something with them.
    assert all(one.macs for one in cost.parts if one.params)
    stages = [one for one in cost.parts if one.name.startswith(("stem", "c1", "layer"))]
    assert stages
    backbone_macs = module_cost(model.backbone, torch.empty(1, 3, 64, 96)).macs
    parts = {one.name: one.macs for one in cost.parts}
    heads = sum(parts.get(name, 0) for name in ("project", "context", "classify", "decoder"))
    assert cost.total.macs == backbone_macs + heads
