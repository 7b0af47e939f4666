"""Converted networks compute what the public ones do, and files that do not fit are refused."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.errors import CheckpointError, RecipeError
from reconet.models import load_trained
from reconet.zoo.convert import convert_file, write_network
from tests.zoo.mmseg_public import MMSEG
from tests.zoo.public import (
    BASE,
    C3,
    C4,
    HEAD,
    Net,
    add_backbone,
    exact,
    normalise,
    resize,
    run_backbone,
    size_of,
)

CLASSES = ("sky", "road", "house", "tree", "water")
K = len(CLASSES)


def mmseg_net(context: str, *, k: int = K, deep: bool = True, depth: str = "resnet50") -> Net:
    torch.manual_seed(0)
    net = Net()
    add_backbone(net, deep=deep, depth=depth)
    MMSEG[context].add(net, k)
    net.conv("decode_head.conv_seg", k, HEAD // 2 if context == "emanet" else HEAD)
    net.unit("auxiliary_head.convs.0", C3 // 4, C3, 3)
    net.conv("auxiliary_head.conv_seg", k, C3 // 4)
    return net


def torchvision_net(context: str, k: int = K) -> Net:
    torch.manual_seed(0)
    net = Net()
    add_backbone(net, deep=False)
    if context == "fcn":
        net.conv("classifier.0", HEAD, C4, 3, bias=False)
        net.norm("classifier.1", HEAD)
    else:
        for branch, kernel in enumerate((1, 3, 3, 3)):
            net.conv(f"classifier.0.convs.{branch}.0", C4 // 8, C4, kernel, bias=False)
            net.norm(f"classifier.0.convs.{branch}.1", C4 // 8)
        net.conv("classifier.0.convs.4.1", C4 // 8, C4, bias=False)
        net.norm("classifier.0.convs.4.2", C4 // 8)
        net.conv("classifier.0.project.0", C4 // 8, 5 * C4 // 8, bias=False)
        net.norm("classifier.0.project.1", C4 // 8)
        net.conv("classifier.1", C4 // 8, C4 // 8, 3, bias=False)
        net.norm("classifier.2", C4 // 8)
    net.conv("classifier.4", k, HEAD if context == "fcn" else C4 // 8)
    net.conv("aux_classifier.0", C3 // 4, C3, 3, bias=False)
    net.norm("aux_classifier.1", C3 // 4)
    net.conv("aux_classifier.4", k, C3 // 4)
    return net


def run_torchvision(net: Net, context: str, x: Tensor) -> Tensor:
    def layer(x: Tensor, name: str, norm: str, rate: int = 1) -> Tensor:
        return net.run_norm(net.run_conv(x, name, dilation=rate), norm).relu()

    c4 = run_backbone(net, x)[3]
    if context == "fcn":
        return net.run_conv(layer(c4, "classifier.0", "classifier.1"), "classifier.4")
    parts = [
        layer(c4, f"classifier.0.convs.{i}.0", f"classifier.0.convs.{i}.1", rate)
        for i, rate in enumerate((1, 12, 24, 36))
    ]
    pooled = F.adaptive_avg_pool2d(c4, 1)
    pooled = layer(pooled, "classifier.0.convs.4.1", "classifier.0.convs.4.2")
    parts.append(resize(pooled, size_of(c4)))
    y = layer(torch.cat(parts, 1), "classifier.0.project.0", "classifier.0.project.1")
    return net.run_conv(layer(y, "classifier.1", "classifier.2"), "classifier.4")


def save(path: Path, state: dict[str, Tensor], **meta: object) -> Path:
    torch.save({"meta": meta, "state_dict": dict(state)}, path)
    return path


def assert_same(here: Tensor, expected: Tensor) -> None:
    """Compare maps. Our constants of normalisation and EMANet's epsilon have 7 digits."""
    assert expected.std() > 1e-3
    share = 2e-5 if expected.dtype == torch.float64 else 2e-4
    torch.testing.assert_close(here, expected, rtol=0, atol=share * float(expected.abs().max()))


def image(height: int, width: int) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(0, 256, (2, 3, height, width), dtype=torch.uint8)


@torch.no_grad()
@pytest.mark.parametrize("size", [(64, 88), (65, 121)])  # c4 of even sides, and of odd ones
@pytest.mark.parametrize("context", MMSEG)
def test_a_network_of_mmsegmentation_computes_the_same_here(
    context: str, size: tuple[int, int], tmp_path: Path
) -> None:
    net = mmseg_net(context)
    converted = convert_file(save(tmp_path / "a.pth", net), "mmseg", classes=CLASSES).network
    assert converted.info.recipe.model.context == context
    # EncNet's encoding is in single precision, whatever the rest is.
    dtype = torch.float32 if context == "encnet" else torch.float64
    net, model, pixels = exact(net, dtype), converted.model.to(dtype), image(*size)
    maps = run_backbone(net, normalise(pixels, dtype))
    logits = net.run_conv(MMSEG[context].run(net, maps), "decode_head.conv_seg")
    assert_same(model(pixels).main_bkhw, resize(logits, size))
    aux = net.run_conv(net.run(maps[2], "auxiliary_head.convs.0"), "auxiliary_head.conv_seg")
    assert model.aux is not None
    assert_same(model.aux(maps[2]), aux)


@torch.no_grad()
@pytest.mark.parametrize("context", ["fcn", "deeplabv3"])
def test_a_network_of_torchvision_computes_the_same_here(context: str, tmp_path: Path) -> None:
    net = torchvision_net(context)
    torch.save(dict(net), tmp_path / "a.pth")
    converted = convert_file(tmp_path / "a.pth", "torchvision", classes=CLASSES).network
    pixels = image(64, 88)
    expected = resize(run_torchvision(exact(net), context, normalise(pixels)), (64, 88))
    assert_same(converted.model.double()(pixels).main_bkhw, expected)


@torch.no_grad()
def test_a_deeper_backbone_with_a_plain_stem_computes_the_same_here(tmp_path: Path) -> None:
    net = mmseg_net("fcn", deep=False, depth="resnet101")
    converted = convert_file(save(tmp_path / "a.pth", net), "mmseg", classes=CLASSES).network
    model = converted.info.recipe.model
    assert (model.backbone, model.stem) == ("resnet101", "plain")
    net, pixels = exact(net), image(33, 40)
    logits = MMSEG["fcn"].run(net, run_backbone(net, normalise(pixels)))
    expected = resize(net.run_conv(logits, "decode_head.conv_seg"), (33, 40))
    assert_same(converted.model.double()(pixels).main_bkhw, expected)


def test_a_converted_network_is_written_and_opened_like_any_other(tmp_path: Path) -> None:
    net = mmseg_net("pspnet", k=21)
    conversion = convert_file(save(tmp_path / "a.pth", net), "mmseg", dataset="voc12")
    write_network(tmp_path / "out", conversion.network)
    opened = load_trained(tmp_path / "out")
    assert opened.info == conversion.network.info
    assert opened.info.classes[1] == "aeroplane"
    assert opened.info.origin == {"source": "mmsegmentation", "file": "a.pth"}
    evaluation = opened.info.recipe.eval
    assert (evaluation.mode, evaluation.relative_to) == ("whole", "short_side")
    assert opened.info.recipe.data.base_size == 512
    pixels = image(33, 40)
    expected = conversion.network.model(pixels).main_bkhw
    assert torch.equal(opened.model(pixels).main_bkhw, expected)


def test_a_file_that_names_its_classes_needs_no_option(tmp_path: Path) -> None:
    own = save(tmp_path / "own.pth", mmseg_net("fcn"), CLASSES=CLASSES)
    info = convert_file(own, "mmseg").network.info
    assert info.classes == CLASSES
    assert info.recipe.data.name == "folder"
    from reconet.data import DATASETS

    names = [*DATASETS["voc12"].info.classes[:-1], "tv/monitor"]
    voc = save(tmp_path / "voc.pth", mmseg_net("fcn", k=21), CLASSES=names)
    assert convert_file(voc, "mmseg").network.info.recipe.data.name == "voc12"


def test_an_auxiliary_classifier_of_other_classes_is_left_out(tmp_path: Path) -> None:
    net = mmseg_net("fcn")
    net.conv("auxiliary_head.conv_seg", 19, C3 // 4)
    conversion = convert_file(save(tmp_path / "a.pth", net), "mmseg", classes=CLASSES)
    assert conversion.network.model.aux is None
    assert "19 classes" in conversion.notes[0]


def without(beginning: str) -> Callable[[Net], None]:
    def remove(net: Net) -> None:
        for key in [key for key in net if key.startswith(beginning)]:
            del net[key]

    return remove


def add_mask(net: Net) -> None:
    net.conv("decode_head.nl_block.conv_mask", 1, HEAD)


def make_basic(net: Net) -> None:
    for key in [key for key in net if ".conv3." in key or ".bn3." in key]:
        del net[key]


def widen(net: Net) -> None:
    net.conv("backbone.layer2.1.conv2", 2 * BASE, BASE, 3, bias=False)  # grouped, as in ResNeXt


def break_number(net: Net) -> None:
    net["decode_head.conv_seg.bias"][1] = float("nan")


@pytest.mark.parametrize(
    ("context", "change", "message"),
    [
        (
            "pspnet",
            without("decode_head.bottleneck."),
            r"5 missing \(decode_head.bottleneck.conv.weight, ",
        ),
        (
            "fcn",
            without("decode_head.convs.0."),
            r"missing \(decode_head.convs.0.conv.weight, .*\), 6 unexpected",
        ),
        ("nonlocal", add_mask, "2 unexpected .*nl_block.conv_mask.bias"),
        ("fcn", without("decode_head."), "no head that is known here"),
        ("fcn", without("decode_head.conv_seg"), "no classifier decode_head.conv_seg.weight"),
        ("psanet", without("decode_head.attention.1"), "lacks decode_head.attention.1.weight"),
        ("fcn", without("backbone.layer3.5"), r"blocks of its stages: \(3, 4, 5, 3\)"),
        ("fcn", without("backbone."), "no stages of a ResNet"),
        ("fcn", make_basic, "its backbone is none that is converted"),
        ("fcn", widen, "1 of another shape .*layer2.1.conv2.weight"),
        ("fcn", break_number, "decode_head.conv_seg.bias holds values that are no numbers"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    context: str, change: Callable[[Net], None], message: str, tmp_path: Path
) -> None:
    net = mmseg_net(context)
    change(net)
    with pytest.raises(CheckpointError, match=message) as caught:
        convert_file(save(tmp_path / "a.pth", net), "mmseg", classes=CLASSES)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "a.pth") in str(caught.value)


def test_queries_and_keys_that_should_be_one_must_be_equal(tmp_path: Path) -> None:
    net = mmseg_net("asymmetric")
    key = "decode_head.context.stages.0.key_project.conv.weight"
    net[key] = net[key] + 1
    with pytest.raises(CheckpointError, match=r"1 unexpected \(.*key_project.conv.weight"):
        convert_file(save(tmp_path / "a.pth", net), "mmseg", classes=CLASSES)


def test_classes_have_to_be_as_many_as_in_the_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pth", mmseg_net("fcn"))
    with pytest.raises(CheckpointError, match="it has 5 classes, and voc12 has 21"):
        convert_file(path, "mmseg", dataset="voc12")
    with pytest.raises(CheckpointError, match="it has 5 classes, and 2 are named"):
        convert_file(path, "mmseg", classes=("a", "b"))
    with pytest.raises(CheckpointError, match=r"does not name them\. Use --dataset or --classes"):
        convert_file(path, "mmseg")
    with pytest.raises(RecipeError, match="Did you mean 'voc12'"):
        convert_file(path, "mmseg", dataset="voc2")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("decode_head=dict(align_corners=True)", "align_corners=True"),
        ("backbone=dict(multi_grid=(1, 2, 4))", "multi-grid"),
        ("backbone=dict(strides=(1, 2, 2, 1))", r"strides=\(1, 2, 2, 1\). Only output stride 8"),
        ("backbone=dict(dilations=(1, 1, 1, 2))", "Only output stride 8"),
    ],
)
def test_settings_that_weights_do_not_show_are_read_from_the_file(
    config: str, message: str, tmp_path: Path
) -> None:
    good = "strides=(1, 2, 1, 1), dilations=(1, 1, 2, 4), align_corners=False\n"
    net = mmseg_net("fcn")
    assert convert_file(save(tmp_path / "a.pth", net, config=good), "mmseg", classes=CLASSES)
    path = save(tmp_path / "b.pth", net, config=good + config)
    with pytest.raises(CheckpointError, match=message):
        convert_file(path, "mmseg", classes=CLASSES)


class RunsCode:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch ran",)


def test_code_in_a_file_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.pth", mmseg_net("fcn"), hook=RunsCode())
    (tmp_path / "b.pth").write_bytes(pickle.dumps(RunsCode(), protocol=2))
    for name in ("a.pth", "b.pth"):
        with pytest.raises(CheckpointError, match="never run") as caught:
            convert_file(tmp_path / name, "mmseg", classes=CLASSES)
        assert "\n" not in str(caught.value)
    assert "posix.system" in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pth", mmseg_net("fcn"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    torch.save({"state_dict": {"a": torch.zeros(1).expand(2**40)}}, tmp_path / "b.pth")
    torch.save({"state_dict": {"a": "text"}}, tmp_path / "c.pth")
    torch.save([1], tmp_path / "d.pth")
    for name in ("a.pth", "b.pth", "c.pth", "d.pth", "e.pth"):
        with pytest.raises(CheckpointError) as caught:
            convert_file(tmp_path / name, "mmseg", classes=CLASSES)
        assert "\n" not in str(caught.value)
