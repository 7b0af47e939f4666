"""The contract of backbones, checked for each family that transformers has, in whole networks."""

import importlib
import io
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F

from reconet.export.formats import to_onnx, trace
from reconet.models import CONTEXTS, Segmenter, segmentation_loss
from reconet.models.backbone.families import smooth_bicubic
from tests.launch import command, run
from tests.models.backbone.tiny import CONFIGS, PLAIN, hub_model, write_folder

pytest.importorskip("transformers")
SIZES = [(64, 96), (65, 97), (33, 57)]
FAMILIES = sorted(CONFIGS)
# The other pairs are swept by `make test-all`.
QUICK = {("dinov2", "deeplabv3plus"), ("swin", "asymmetric"), ("convnext", "reconet_plus")}
PAIRS = [
    pytest.param(family, context, marks=() if (family, context) in QUICK else pytest.mark.slow)
    for family in FAMILIES
    for context in sorted(CONTEXTS)
]


def train_step(model: Segmenter, *size: int, batch: int = 2) -> None:
    label_bhw = torch.randint(0, 3, (batch, *size))
    logits = model.train()(torch.rand(batch, 3, *size))
    loss = segmentation_loss(logits, label_bhw) + model.context.loss(logits.extra, label_bhw)
    loss.backward()
    assert loss.isfinite()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_what_it_declares(family: str) -> None:
    torch.manual_seed(0)
    model = hub_model(family).eval()
    for size in SIZES:
        for x_bchw, spec in zip(
            model.trunk(torch.rand(1, 3, *size)), model.backbone.stages(size), strict=True
        ):
            assert x_bchw.shape == (1, spec.channels, spec.height, spec.width)
    strides = list(model.backbone.strides)
    assert (len(set(strides)) == 1) == (family in PLAIN)
    train_step(model, 33, 57, batch=1)
    starved = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert all("hidden_states_norms" in name for name in starved)  # of maps that fcn does not read
    assert bool(starved) == model.backbone.has_side_layers
    depths = model.backbone.parameter_depths()
    assert depths.keys() == {name for name, _ in model.backbone.named_parameters()}
    assert 4 <= max(depths.values()) <= 16
    assert min(depths.values()) == 0 or family == "dinov3_convnext"  # whose stem is a stage


@pytest.mark.parametrize(("family", "context"), PAIRS)
def test_every_context_stands_on_every_family(family: str, context: str) -> None:
    torch.manual_seed(0)
    model = hub_model(family, context)
    for size in SIZES[1:]:
        assert model.eval()(torch.rand(2, 3, *size)).main_bkhw.shape == (2, 3, *size)
    train_step(model, *SIZES[0])
    starved = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert all("hidden_states_norms" in name for name in starved)
    twin, file = hub_model(family, context), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=True))
    image_bchw = torch.rand(1, 3, 50, 70)
    assert torch.equal(twin.eval()(image_bchw).main_bkhw, model.eval()(image_bchw).main_bkhw)
    frozen = hub_model(family, context, frozen=True)
    train_step(frozen, 64, 96)
    assert all(parameter.grad is None for parameter in frozen.trunk_parameters())


@pytest.mark.parametrize("family", ["convnext", "dinov2"])
def test_a_network_goes_to_another_process_and_is_copied(family: str) -> None:
    # Features are computed by several processes.
    model = hub_model(family, frozen=True).eval()
    image_bchw = torch.rand(1, 3, 50, 70)
    expected_bkhw = model(image_bchw).main_bkhw
    for twin in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert torch.equal(twin(image_bchw).main_bkhw, expected_bkhw)
        assert not any(parameter.requires_grad for parameter in twin.trunk_parameters())
        assert next(twin.parameters()) is not next(model.parameters())


def test_padding_is_not_seen_outside() -> None:
    # An image of the right size gives the same as the library alone does.
    model = hub_model("swin").eval()
    image_bchw = torch.rand(1, 3, 64, 96)
    direct = model.backbone.net(model.normalise(image_bchw)).feature_maps  # type: ignore[operator]
    for ours, theirs in zip(model.trunk(image_bchw), direct, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", ["dinov2", "dinov2_with_registers"])
def test_position_embeddings_are_resized_as_the_library_does(family: str) -> None:
    embeddings: Any = hub_model(family).backbone.get_submodule("net.embeddings")
    own = embeddings.interpolate_pos_encoding
    for height, width in [(28, 28), (14, 70), (98, 42)]:
        tokens_bnc = torch.zeros(1, 1 + height * width // 14**2, 64)
        theirs = type(embeddings).interpolate_pos_encoding(embeddings, tokens_bnc, height, width)
        torch.testing.assert_close(own(tokens_bnc, height, width), theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [(5, 3), (2, 9), (4, 4)])
def test_a_smooth_bicubic_resize_is_that_of_torch(size: tuple[int, int]) -> None:
    x_bchw = torch.randn(1, 3, 4, 7)
    expected = F.interpolate(x_bchw, size=size, mode="bicubic", antialias=True)
    torch.testing.assert_close(smooth_bicubic(x_bchw, size), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["convnext", "dinov3_convnext"])
def test_a_dilated_convnext_computes_the_strided_one_on_the_coarse_grid(family: str) -> None:
    torch.manual_seed(0)
    coarse, *dense = (hub_model(family, output_stride=stride) for stride in (32, 16, 8))
    image_bchw = torch.rand(1, 3, 64, 96)
    c4_bchw = coarse.eval().trunk(image_bchw).c4
    for model, step in zip(dense, (2, 4), strict=True):
        model.load_state_dict(coarse.state_dict())
        assert model.output_stride == 32 // step
        on_grid = model.eval().trunk(image_bchw).c4[:, :, ::step, ::step]
        torch.testing.assert_close(on_grid, c4_bchw, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_two_processes_train_every_family(family: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "backbone", family)
    settings = [f"--set=model.backbone=hf:{folder}", "--set=model.weights=pretrained"]
    more = ["--set=train.steps=2", "--set=optim.kind=adamw", "--set=optim.layer_decay=0.9"]
    run(command(tmp_path / "run", *settings, *more), processes=2)
    assert (tmp_path / "run" / "best.safetensors").is_file()


@pytest.mark.parametrize("family", ["swin", "swinv2"])
def test_windows_that_are_looked_up_are_those_of_the_library(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = hub_model(family).eval()
    for parameter in model.backbone.parameters():  # biases of positions start as zeros
        torch.nn.init.normal_(parameter, std=0.3)
    for size in [(64, 96), (97, 131), (40, 200)]:
        image_bchw = torch.rand(2, 3, *size)
        expected = model.trunk(image_bchw)
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(torch.compiler, "is_exporting", lambda: True)
            patch.setattr(swin_module(family), "window_partition", None)  # of the library
            got = model.trunk(image_bchw)
        for ours, theirs in zip(got, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def swin_module(family: str) -> object:
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_exported_for_any_size(family: str) -> None:
    model = hub_model(family, aux=False).eval()
    session = onnxruntime.InferenceSession(to_onnx(trace(model)).SerializeToString())
    for size in [(97, 131), (129, 77)]:
        image_bchw = torch.randint(0, 256, (1, 3, *size), dtype=torch.uint8)
        with torch.no_grad():
            expected_bkij = model.coarse(image_bchw)
        got_bkij = torch.from_numpy(session.run(None, {"image": image_bchw.numpy()})[1])
        torch.testing.assert_close(got_bkij, expected_bkij, atol=1e-5, rtol=1e-3)
