"""Compact files: at most half a step of error, a quarter of the bytes, and the same labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from reconet.engine import run_training
from reconet.engine.checkpoint import run_weights
from reconet.errors import CheckpointError
from reconet.evaluation import evaluate
from reconet.inference import Predictor
from reconet.models import compact
from reconet.models.compact import SCALE, decode_weights, encode_weights, quantise_channels
from reconet.models.trained import load_trained, put_weights, save_compact, save_trained
from reconet.recipes import find_recipe
from tests.factories import smooth_image, tiny_model, tiny_network, tiny_recipe

FILE = Path("net.safetensors")


@pytest.fixture(autouse=True)
def _tiny_layers_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "SMALL", 0)


def slow_decode(weight: Tensor, step_o: Tensor) -> Tensor:
    """Multiply each weight by the step of its channel, one by one."""
    return torch.stack(
        [
            torch.tensor([w * step_o[o].item() for w in row.flatten().tolist()]).view(row.shape)
            for o, row in enumerate(weight)
        ]
    )


@pytest.mark.parametrize(
    "shape", [(5, 3, 3, 3), (7, 4, 1, 1), (3, 11), (1, 1), (6, 1, 5, 3), (4, 2, 3)]
)
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 1.0, 1e4])
def test_every_weight_is_within_half_a_step_of_its_value(
    shape: tuple[int, ...], size: float
) -> None:
    generator = torch.Generator().manual_seed(len(shape))
    weight = size * torch.randn(shape, generator=generator)
    rounded, step_o = quantise_channels(weight)
    assert (rounded.dtype, step_o.dtype) == (torch.int8, torch.float16)
    assert step_o.shape == shape[:1]
    error = (slow_decode(rounded, step_o).double() - weight.double()).abs().flatten(1).amax(1)
    assert (error <= 0.5 * step_o.double() * (1 + 1e-6)).all()
    # Half precision has no steps below 6e-8. Above, one step is the largest weight over 127.
    largest_o = weight.double().abs().flatten(1).amax(1)
    assert (step_o.double() <= largest_o / 127 * 1.001 + 6e-8).all()


def test_a_channel_of_zeros_stays_zero() -> None:
    weight = torch.randn(3, 2, 3, 3)
    weight[1] = 0
    rounded, step_o = quantise_channels(weight)
    assert step_o[1] == 0
    decoded = decode_weights({"w": rounded, "w" + SCALE: step_o}, FILE)["w"]
    assert not decoded[1].any()
    assert decoded[0].any()


def test_layers_are_int8_other_parameters_fp16_and_buffers_as_they_are() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(20, 4))
    assert isinstance(net[1], nn.BatchNorm2d)
    running_mean, running_var = net[1].running_mean, net[1].running_var
    assert running_mean is not None
    assert running_var is not None
    running_mean.fill_(1000.123)  # fp16 would be off by 0.1, which is ten deviations
    running_var.fill_(1e-4)
    running_var[0] = 83_615  # a public ResNet-50 has such a variance. fp16 ends at 65,504
    encoded = encode_weights(net)
    kinds = {key: value.dtype for key, value in encoded.items()}
    assert kinds == {
        "0.weight": torch.int8,
        "0.weight:scale": torch.float16,
        "0.bias": torch.float16,
        "1.weight": torch.float16,
        "1.bias": torch.float16,
        "1.running_mean": torch.float32,
        "1.running_var": torch.float32,
        "1.num_batches_tracked": torch.int64,
        "3.weight": torch.int8,
        "3.weight:scale": torch.float16,
        "3.bias": torch.float16,
    }
    decoded = decode_weights(encoded, FILE)
    assert decoded.keys() == net.state_dict().keys()
    assert torch.equal(decoded["1.running_mean"], running_mean)
    assert torch.equal(decoded["1.running_var"], running_var)
    assert torch.equal(
        decoded["0.weight"], slow_decode(encoded["0.weight"], encoded["0.weight:scale"])
    )
    torch.testing.assert_close(decoded["3.bias"], net.state_dict()["3.bias"], rtol=1e-3, atol=1e-7)


def test_small_layers_are_fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "SMALL", 12)
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 5, bias=False))
    kinds = {key: value.dtype for key, value in encode_weights(net).items()}
    assert kinds["0.weight"] == torch.float16
    assert kinds["1.weight"] == torch.int8


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_what_has_no_compact_form_is_refused(name: str, value: float) -> None:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        getattr(layer, name)[0] = value
    with pytest.raises(CheckpointError, match=rf"^{name} holds values that are too large"):
        encode_weights(layer)


def test_a_compact_network_is_small_and_predicts_the_same(tmp_path: Path) -> None:
    trained = tiny_network(tiny_recipe("model.aux=true"), decided=True)
    full, small = tmp_path / "full.safetensors", tmp_path / "small.safetensors"
    save_trained(full, trained)
    save_compact(small, trained)
    loaded = load_trained(small)
    assert loaded.model.aux is None
    assert not loaded.info.recipe.model.aux
    assert loaded.info.classes == trained.info.classes
    assert all(value.dtype != torch.half for value in loaded.model.state_dict().values())
    weights = sum(value.numel() for value in trained.model.state_dict().values())
    tensors = load_file(small)
    assert sum(value.nbytes for value in tensors.values()) < 1.3 * weights
    images = [smooth_image(seed, 60, 80) for seed in range(4)]
    ours, theirs = (
        Predictor.from_run(path, device="cpu", precision="fp32")(images) for path in (full, small)
    )
    agree = np.mean([a.label_hw == b.label_hw for a, b in zip(ours, theirs, strict=True)])
    assert agree > 0.97


@pytest.mark.parametrize("context", ["reconet", "reconet_plus", "emanet", "encnet"])
def test_every_weight_of_a_context_comes_back(context: str, tmp_path: Path) -> None:
    model = tiny_model(context)
    decoded = decode_weights(encode_weights(model), FILE)
    state = model.state_dict()
    assert decoded.keys() == state.keys()
    for key, value in state.items():
        if value.is_floating_point():
            assert (decoded[key] - value).abs().max() <= value.abs().max() / 127, key


def test_a_training_may_start_from_a_compact_network(tmp_path: Path) -> None:
    trained = tiny_network(tiny_recipe("model.aux=true"))
    save_compact(tmp_path / "net.safetensors", trained)
    model = tiny_network(tiny_recipe("model.aux=true")).model
    assert model.aux is not None
    before = model.aux.state_dict()
    put_weights(model, run_weights(tmp_path / "net.safetensors"), FILE, other_classes=True)
    assert all(torch.equal(value, before[key]) for key, value in model.aux.state_dict().items())
    with pytest.raises(CheckpointError, match="weights missing"):
        put_weights(model, run_weights(tmp_path / "net.safetensors"), FILE)


def damaged(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Return tensors of a compact file, each with one mistake."""
    key = next(key for key in tensors if key.endswith(SCALE))
    weight, step_o = tensors[key.removesuffix(SCALE)], tensors[key]
    bias = next(k for k, v in tensors.items() if v.dtype == torch.half and not k.endswith(SCALE))
    return {
        "no scale": {k: v for k, v in tensors.items() if k != key},
        "no weights": {k: v for k, v in tensors.items() if k != key.removesuffix(SCALE)},
        "one scale too few": tensors | {key: step_o[1:].clone()},
        "a scale in fp32": tensors | {key: step_o.float()},
        "a scale that is no number": tensors | {key: step_o * torch.nan},
        "an infinite bias": tensors | {bias: tensors[bias] + torch.inf},
        "int8 without channels": tensors | {key.removesuffix(SCALE): weight.flatten()[0].clone()},
        "another type": tensors | {bias: tensors[bias].bfloat16()},
        "complex": tensors | {bias: tensors[bias].to(torch.complex64)},
    }


KINDS = tuple(
    damaged({"a" + SCALE: torch.ones(2).half(), "a": torch.ones(2, 2), "b": torch.ones(1).half()})
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_compact_file_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    trained = tiny_network()
    save_compact(path, trained)
    texts = trained.info.texts() | {"compact": "1"}
    save_file(damaged(load_file(path))[kind], path, texts)
    with pytest.raises(CheckpointError, match=r"net\.safetensors is damaged: .*\.$") as raised:
        load_trained(path)
    assert "\n" not in str(raised.value)


def test_a_compact_format_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    trained = tiny_network()
    save_compact(path, trained)
    save_file(load_file(path), path, trained.info.texts() | {"compact": "2"})
    with pytest.raises(CheckpointError, match="needs a newer reconet"):
        load_trained(path)


@pytest.mark.slow
def test_the_score_of_a_trained_network_stays(tmp_path: Path) -> None:
    settings = ["train.steps=100", "train.eval_every=100", "data.options.val=16"]
    recipe = tiny_recipe(*settings, "data.options.train=100", "train.save_every=100")
    run_training(recipe, tmp_path / "run", device="cpu")
    save_compact(tmp_path / "small.safetensors", load_trained(tmp_path / "run"))
    before, after = (
        evaluate(tmp_path / name, device="cpu") for name in ("run", "small.safetensors")
    )
    assert before is not None
    assert after is not None
    assert before.figures["miou"] > 0.06, "it has learned nothing, and the test proves nothing"
    assert abs(before.figures["miou"] - after.figures["miou"]) < 0.01


@pytest.mark.slow
def test_a_resnet50_with_its_head_has_less_than_40_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the true bound of small layers
    recipe = find_recipe("voc12/frozen_r50")
    classes = tuple(f"class {n}" for n in range(21))
    palette = tuple((n, n, n) for n in range(21))
    path = tmp_path / "net.safetensors"
    save_compact(path, tiny_network(recipe, classes=classes, palette=palette))
    assert 20e6 < path.stat().st_size < 40e6
