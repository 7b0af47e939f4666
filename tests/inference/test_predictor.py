"""Predictor: what it takes, what it says, alone, in batches, in bands, from several threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.data.images.read import read_upright
from reconet.errors import DataError, RecipeError
from reconet.inference import network as runtime
from reconet.inference.network import Network, faster_of, open_fast, open_network, precision_of
from reconet.inference.predictor import Prediction, Predictor
from reconet.inference.windows import labels
from reconet.system import hardware as cpu
from reconet.types import Image
from tests.evaluation.test_evaluate import trained_on

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return trained_on("scenes", tmp_path_factory.mktemp("run"))[0]


@pytest.fixture(scope="module")
def predictor(run: Path) -> Predictor:
    return Predictor.from_run(run, device="cpu", precision="fp32")


def random_image(seed: int, height: int = 30, width: int = 44) -> Image:
    """Smooth, so that few pixels are near a tie."""
    rng = np.random.default_rng(seed)
    small = Pillow.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8))
    return np.array(small.resize((width, height), Pillow.Resampling.BICUBIC))


def same_part(one: Prediction, other: Prediction) -> float:
    return float((one.label_hw == other.label_hw).mean())


def test_labels_are_those_of_the_network_as_it_was_trained(predictor: Predictor) -> None:
    image_hwc = random_image(0)
    model = predictor.network.model
    assert model is not None
    expected_hw = labels(
        model.eval().coarse,
        torch.from_numpy(image_hwc),
        predictor.protocol,
        len(predictor.classes),
    )
    said = predictor(image_hwc)
    assert said.label_hw.shape == (30, 44)
    assert (said.label_hw == expected_hw.numpy()).mean() > 0.998
    assert len(np.unique(said.label_hw)) > 1, "a network without an opinion tests nothing"


@pytest.mark.parametrize("flip", [False, True])
def test_a_batch_says_what_single_calls_say(predictor: Predictor, flip: bool) -> None:
    protocol = replace(predictor.protocol, base_size=32, scales=(1.0, 0.5), flip=flip, batch=8)
    together = Predictor(predictor.network, protocol=protocol, device="cpu")
    sizes = [(30, 44), (44, 30), (30, 44), (30, 44)]
    images = [random_image(seed, *size) for seed, size in enumerate(sizes)]
    shown: list[int] = []

    def watch(image_bchw: torch.Tensor) -> torch.Tensor:
        shown.append(len(image_bchw))
        return predictor.network.forward(image_bchw)

    watched = replace(predictor.network, forward=watch)
    batch = Predictor(watched, protocol=protocol, device="cpu")(images, with_probabilities=True)
    assert max(shown) > (2 if flip else 1), "images of one size were not shown together"
    for image_hwc, said in zip(images, batch, strict=True):
        alone = together(image_hwc, with_probabilities=True)
        assert alone.probability_khw is not None
        assert said.probability_khw is not None
        np.testing.assert_allclose(said.probability_khw, alone.probability_khw, atol=1e-4)
        assert same_part(said, alone) > 0.998


def test_bands_say_what_the_whole_says(predictor: Predictor) -> None:
    image_hwc = random_image(3, 90, 61)
    few = 4 * len(predictor.classes) * 61 * 8 * 7  # seven rows at a time
    protocol = replace(predictor.protocol, budget_bytes=few, batch=1)
    in_bands = Predictor(predictor.network, protocol=protocol, device="cpu")(image_hwc)
    alone = replace(predictor.protocol, batch=1)
    assert same_part(in_bands, Predictor(predictor.network, protocol=alone)(image_hwc)) > 0.998


def test_probabilities_add_up_and_do_not_change_the_labels(predictor: Predictor) -> None:
    said = predictor(random_image(1), with_probabilities=True)
    assert said.probability_khw is not None
    np.testing.assert_allclose(said.probability_khw.sum(0), 1, rtol=1e-5)
    assert np.array_equal(said.label_hw, predictor(random_image(1)).label_hw)
    assert np.array_equal(said.label_hw, said.probability_khw.argmax(0))


def test_best_is_the_class_and_its_probability_without_the_others(predictor: Predictor) -> None:
    image_hwc = random_image(1, 90, 61)
    few = 4 * len(predictor.classes) * 61 * 8 * 7  # bands of seven rows
    in_bands = replace(predictor.protocol, budget_bytes=few)
    for protocol in (predictor.protocol, in_bands):
        fresh = Predictor(predictor.network, protocol=protocol, device="cpu")
        label_hw, probability_hw = fresh.best(image_hwc)
        expected = fresh(image_hwc, with_probabilities=True)
        assert expected.probability_khw is not None
        assert np.array_equal(label_hw, expected.label_hw)
        assert label_hw.dtype == probability_hw.dtype == np.uint8
        byte_hw = np.rint(255 * expected.probability_khw.max(0))
        assert np.array_equal(probability_hw, byte_hw.clip(0, 255))


def test_threads_that_share_a_predictor_get_what_one_gets(predictor: Predictor) -> None:
    images = [random_image(seed, 20 + seed, 40) for seed in range(6)]
    serial = [predictor(image_hwc) for image_hwc in images]
    with ThreadPoolExecutor(4) as threads:
        for said, alone in zip(threads.map(predictor, images * 2), serial * 2, strict=True):
            assert np.array_equal(said.label_hw, alone.label_hw)


@pytest.mark.parametrize("size", [(1, 1), (1, 20000), (20000, 1), (2, 3)])
@pytest.mark.parametrize("mode", ["slide", "whole"])
def test_any_size_works(predictor: Predictor, size: tuple[int, int], mode: str) -> None:
    protocol = replace(predictor.protocol, mode=mode)  # type: ignore[arg-type]
    said = Predictor(predictor.network, protocol=protocol)(np.full((*size, 3), 90, np.uint8))
    assert said.label_hw.shape == size
    assert said.label_hw.max() < len(predictor.classes)
    assert said.overlay().size == size[::-1]


def test_an_overlay_in_strips_is_the_overlay() -> None:
    image_hwc, palette = random_image(5, 600, 3), ((255, 0, 0), (0, 255, 0))
    label_hw = (image_hwc[..., 0] > 128).astype(np.uint8)
    said = Prediction(image_hwc=image_hwc, label_hw=label_hw, classes=("a", "b"), palette=palette)
    expected = (image_hwc / 2 + np.array(palette)[label_hw] / 2).round()
    assert np.abs(np.asarray(said.overlay()) - expected).max() <= 1


def test_shares_are_parts_of_the_image(predictor: Predictor) -> None:
    said = replace(predictor(random_image(2)), label_hw=np.array([[3, 3, 0, 3]], np.uint8))
    assert said.shares() == {said.classes[3]: 0.75, said.classes[0]: 0.25}


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_images_stand_upright_as_pillow_would_turn_them(
    tmp_path: Path, turn: int, suffix: str
) -> None:
    from PIL import ImageOps

    exif = Pillow.Exif()
    exif[0x0112] = turn
    path = tmp_path / f"turned{suffix}"
    Pillow.fromarray(random_image(1)).save(path, exif=exif)
    with Pillow.open(path) as image:
        expected_hwc = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    got_hwc = read_upright(path).image_hwc
    assert got_hwc.shape == ((44, 30, 3) if turn > 4 else (30, 44, 3))
    assert np.abs(got_hwc.astype(int) - expected_hwc).max() <= 2


def test_files_pillow_images_and_arrays_mean_the_same(predictor: Predictor, tmp_path: Path) -> None:
    image_hwc = random_image(4)
    path = tmp_path / "a.png"
    Pillow.fromarray(image_hwc).save(path)
    alpha_hwc = np.dstack([image_hwc, np.zeros((30, 44, 1), np.uint8)])
    for other in (str(path), path, Pillow.open(path), alpha_hwc, Pillow.fromarray(alpha_hwc)):
        assert np.array_equal(predictor(other).label_hw, predictor(image_hwc).label_hw)
    grey_hw = image_hwc[..., 0]
    expected = predictor(np.repeat(grey_hw[..., None], 3, axis=2))
    for other in (grey_hw, Pillow.fromarray(grey_hw.astype(np.uint16) << 8)):
        assert np.array_equal(predictor(other).label_hw, expected.label_hw)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((4, 4, 3)), "got float64"),
        (np.zeros((3, 4, 5), np.uint8), r"got uint8 \(3, 4, 5\)"),
        (np.zeros((0, 5, 3), np.uint8), "needs pixels"),
        (7, "got int"),
        (torch.zeros(3, 4, 5), r"got a tensor \(3, 4, 5\); .*permute\(1, 2, 0\)"),
    ],
)
def test_what_is_no_image_is_explained(predictor: Predictor, wrong: Image, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predictor(wrong)


def test_what_is_printed_of_them_is_short_and_says_what_they_are(predictor: Predictor) -> None:
    said = replace(predictor(random_image(2)), label_hw=np.array([[3, 3, 0, 3]], np.uint8))
    names = said.classes
    assert repr(said) == f"Prediction(4 x 1: {names[3]} 75.0 %, {names[0]} 25.0 %)"
    assert repr(predictor).startswith("Predictor(reconet on resnet18, ")
    assert len(repr(predictor)) < 300


def test_a_device_that_is_not_here_is_named_without_an_option_of_the_verbs(run: Path) -> None:
    with pytest.raises(RecipeError, match=r"no device 'gpu' here; try cpu\.$"):
        Predictor.from_run(run, device="gpu")


def fake(network: Network, how: str, seconds: float, shift: float) -> Network:
    """The same network, slower, and with another opinion on a part of the places."""
    clock.append(0.0)

    def forward(image_bchw: torch.Tensor) -> torch.Tensor:
        clock[-1] += seconds
        logits_bkij = network.forward(image_bchw)
        rows = round(shift * logits_bkij.shape[2])
        logits_bkij = logits_bkij.clone()
        logits_bkij[:, :, :rows] = -logits_bkij[:, :, :rows]
        return logits_bkij

    return replace(network, forward=forward, how=how)


clock: list[float] = []


@pytest.mark.parametrize(
    ("seconds", "shift", "chosen"),
    [(0.5, 0.0, "rough"), (0.95, 0.0, "exact"), (2.0, 0.0, "exact"), (0.5, 0.5, "exact")],
)
def test_another_precision_must_be_faster_and_agree(
    run: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, shift: float, chosen: str
) -> None:
    network = open_network(run, CPU)
    monkeypatch.setattr("reconet.inference.network.time.perf_counter", lambda: clock[-1])
    exact, rough = fake(network, "exact", 1.0, 0.0), fake(network, "rough", seconds, shift)
    assert faster_of(exact, rough).how == chosen


def test_auto_is_fp32_where_the_cpu_has_no_bf16(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "bf16_works", lambda: False)
    network = open_fast(run, CPU)
    assert network.how == "torch fp32, batch norm folded, channels last"
    assert precision_of(network) == "fp32"


def test_bf16_can_be_asked_for_and_nearly_agrees(predictor: Predictor, run: Path) -> None:
    rough = Predictor.from_run(run, device="cpu", precision="bf16")
    assert rough.network.how.startswith("torch bf16")
    assert precision_of(rough.network) == "bf16"
    assert same_part(rough(random_image(0)), predictor(random_image(0))) > 0.9


def test_an_exported_network_keeps_its_precision(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = tmp_path / "a.fake"
    exported.touch()

    def opened(source: Path, device: torch.device) -> Network:
        return replace(open_network(run, device), model=None, how="onnx")

    monkeypatch.setitem(runtime.OPENERS, ".fake", opened)
    monkeypatch.setattr(runtime, "bf16_works", lambda: False)
    assert open_fast(exported, CPU).how == "onnx"
    with pytest.raises(RecipeError, match="exported"):
        open_fast(exported, CPU, "fp32")
    with pytest.raises(RecipeError, match="Did you mean 'bf16'"):
        open_fast(run, CPU, "bf15")


@pytest.mark.parametrize(
    ("flags", "survives", "expected"),
    [
        ("fma avx2", True, False),
        ("avx512_bf16", False, True),  # nobody needs to try
        ("avx512_bf16 amx_bf16", False, False),
        ("avx512_bf16 amx_bf16", True, True),
    ],
)
def test_bf16_is_trusted_only_after_another_process_survived_it(
    monkeypatch: pytest.MonkeyPatch, flags: str, survives: bool, expected: bool
) -> None:
    monkeypatch.delenv(cpu.ISA_VARIABLE, raising=False)
    monkeypatch.setattr("reconet.system.hardware.Path.read_text", lambda self: f"flags : {flags}\n")
    works: Callable[[dict[str, str]], bool] = lambda environment: survives  # noqa: E731
    monkeypatch.setattr(cpu, "_works", works)
    assert cpu.bf16_works.__wrapped__() is expected
    assert cpu.ISA_VARIABLE not in os.environ
