from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from reconet.errors import RecipeError
from reconet.models.backbone import MobileNetV2
from reconet.models.backbone.mobilenet import _timm_names
from reconet.models.context import CONTEXTS
from reconet.models.losses import segmentation_loss
from reconet.models.segmenter import create_model
from reconet.models.weights import load_backbone

PARAMETERS = 3_504_872 - 1_281_000  # torchvision's published total less its classifier


def test_it_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        net = MobileNetV2()
    assert sum(p.numel() for p in net.parameters()) == PARAMETERS
    assert net.channels == [24, 32, 96, 1280]


@pytest.mark.parametrize("output_stride", [8, 16, 32])
@pytest.mark.parametrize("size", [(64, 96), (65, 97), (33, 57)])
def test_stages_promise_the_shapes_that_come(output_stride: int, size: tuple[int, int]) -> None:
    net = MobileNetV2(output_stride=output_stride, width=0.25).eval()
    for feature, spec in zip(net(torch.randn(1, 3, *size)), net.stages(size), strict=True):
        assert feature.shape[1:] == (spec.channels, spec.height, spec.width)


@pytest.mark.parametrize("output_stride", [8, 16])
def test_dilation_instead_of_stride_keeps_what_the_coarse_grid_sees(output_stride: int) -> None:
    dense, coarse = MobileNetV2(output_stride=output_stride, width=0.25), MobileNetV2(width=0.25)
    coarse.load_state_dict(dense.state_dict())
    x_bchw, step = torch.randn(1, 3, 512, 512), 32 // output_stride
    c4_dense = dense.eval()(x_bchw).c4[..., ::step, ::step]
    inner = slice(6, 10)  # padding differs, so the border does too
    torch.testing.assert_close(
        c4_dense[..., inner, inner],
        coarse.eval()(x_bchw).c4[..., inner, inner],
        atol=1e-4,
        rtol=1e-4,
    )


@pytest.mark.parametrize("context", sorted(CONTEXTS))
def test_every_context_learns_on_it(context: str) -> None:
    torch.manual_seed(0)
    model = create_model(
        context, num_classes=3, backbone="mobilenet_v2", crop=(64, 96), width=0.25
    ).train()
    label_bhw = torch.randint(0, 3, (2, 64, 96))
    logits = model(torch.rand(2, 3, 64, 96))
    loss = segmentation_loss(logits, label_bhw) + model.context.loss(logits.extra, label_bhw)
    loss.backward()
    assert loss.isfinite()
    assert not [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]


def test_files_of_torchvision_load_with_their_classifier_left_out(tmp_path: Path) -> None:
    theirs = MobileNetV2()
    state = theirs.state_dict() | {"classifier.1.weight": torch.zeros(1000, 1280)}
    save_file(state, tmp_path / "weights.safetensors")
    ours = MobileNetV2(output_stride=16)
    report = load_backbone(ours, str(tmp_path / "weights.safetensors"))
    assert report.ignored == ("classifier.1.weight",)
    assert all(torch.equal(value, state[name]) for name, value in ours.state_dict().items())


def test_every_layer_has_a_name_of_timm() -> None:
    names = [ours for _, ours in _timm_names()]
    with torch.device("meta"):
        own = {name.rpartition(".")[0] for name in MobileNetV2().state_dict()}
    assert set(names) == own
    assert len(names) == len(own)


def test_stages_are_layers_for_the_layer_decay() -> None:
    depths = MobileNetV2(width=0.25).parameter_depths()
    first = {depth: name for name, depth in reversed(depths.items())}
    assert first[0] == "features.0.0.weight"
    assert [first[n].split(".")[1] for n in range(1, 5)] == ["1", "4", "7", "14"]


def test_too_small_widths_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"width 0\.01 is too small"):
        MobileNetV2(width=0.01)
