"""Files of trained networks: what was saved is loaded, compact or not. What is none is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from reconet.errors import CheckpointError
from reconet.inference import Predictor
from reconet.models import (
    TrainedNetwork,
    find_weights,
    load_trained,
    save_compact,
    save_trained,
)
from reconet.models.trained import SCALE, decode_weights, encode_weights, quantise_channels
from reconet.recipes import find_recipe
from tests.factories import smooth_image, tiny_network, tiny_recipe, write_run

BEST = "best.safetensors"
FILE = Path("net.safetensors")


@pytest.fixture
def _tiny_layers_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconet.models.trained.SMALL", 0)


large = pytest.mark.usefixtures("_tiny_layers_are_large")


def test_a_network_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    trained = tiny_network(step=9, score={"miou": 0.25})
    run = write_run(tmp_path / "run", trained)
    for source in (run, run / BEST):
        loaded = load_trained(source)
        assert loaded.info == trained.info
        assert not loaded.model.training
        state = loaded.model.state_dict()
        for key, value in trained.model.state_dict().items():
            assert torch.equal(state[key], value), key


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "model.xml", "last.pt", "notes.txt"])
def test_other_files_are_refused_with_what_to_name_instead(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"anything")
    message = "is not a trained network: name the run directory or its best.safetensors"
    with pytest.raises(CheckpointError, match=message):
        find_weights(tmp_path / name)


@pytest.mark.parametrize("save", [save_trained, save_compact])
def test_equal_networks_give_equal_files(
    tmp_path: Path, save: Callable[[Path, TrainedNetwork], None]
) -> None:
    """Write eight files: the library orders metadata by chance, so they would hardly agree."""
    files = [tmp_path / f"{number}.safetensors" for number in range(8)]
    for file in files:
        save(file, tiny_network())
    assert len({file.read_bytes() for file in files}) == 1


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"at .*none: it does not exist"):
        find_weights(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"at its validations\.$"):
        find_weights(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "best.safetensors").touch()
    with pytest.raises(CheckpointError, match=rf"holds runs; .*{tmp_path}/a, {tmp_path}/b\.$"):
        find_weights(tmp_path)


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


@large
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


@large
@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_what_has_no_compact_form_is_refused(name: str, value: float) -> None:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        getattr(layer, name)[0] = value
    with pytest.raises(CheckpointError, match=rf"^{name} holds values that are too large"):
        encode_weights(layer)


@large
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


@large
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
def test_a_resnet50_with_its_head_has_less_than_40_mb(tmp_path: Path) -> None:
    recipe = find_recipe("voc12/frozen_r50")
    classes = tuple(f"class {n}" for n in range(21))
    palette = tuple((n, n, n) for n in range(21))
    path = tmp_path / "net.safetensors"
    save_compact(path, tiny_network(recipe, classes=classes, palette=palette))
    assert 20e6 < path.stat().st_size < 40e6
