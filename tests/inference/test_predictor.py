"""Predictor: what it takes and returns, alone, in batches, of a file and of a model in Python."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch import Tensor, nn

from reconet import BACKBONES, CONTEXTS, MODULES, Backbone, Features, Segmenter, create_model, save
from reconet.errors import CheckpointError, DataError, RecipeError
from reconet.inference import Prediction, Predictor, predict_labels
from reconet.types import Image
from tests.factories import smooth_image, tiny_model

CLASSES = ["dark", "bright"]


def same_part(one: Prediction, other: Prediction) -> float:
    return float((one.label_hw == other.label_hw).mean())


def test_labels_are_those_of_the_network_as_it_was_trained(predictor: Predictor) -> None:
    image_hwc = smooth_image(0)
    model = predictor.network.model
    assert model is not None
    expected_hw = predict_labels(
        model.eval().coarse,
        torch.from_numpy(image_hwc),
        predictor.protocol,
        len(predictor.classes),
    )
    prediction = predictor(image_hwc)
    assert prediction.label_hw.shape == (30, 44)
    assert (prediction.label_hw == expected_hw.numpy()).mean() > 0.998
    assert len(np.unique(prediction.label_hw)) > 1, "a network without an opinion tests nothing"


@pytest.mark.parametrize("flip", [False, True])
def test_a_batch_says_what_single_calls_say(predictor: Predictor, flip: bool) -> None:
    protocol = replace(predictor.protocol, base_size=32, scales=(1.0, 0.5), flip=flip, batch=8)
    together = Predictor(predictor.network, protocol=protocol, device="cpu")
    sizes = [(30, 44), (44, 30), (30, 44), (30, 44)]
    images = [smooth_image(seed, *size) for seed, size in enumerate(sizes)]
    shown: list[int] = []

    def watch(image_bchw: torch.Tensor) -> torch.Tensor:
        shown.append(len(image_bchw))
        return predictor.network.forward(image_bchw)

    watched = replace(predictor.network, forward=watch)
    batch = Predictor(watched, protocol=protocol, device="cpu")(images, with_probabilities=True)
    assert max(shown) > (2 if flip else 1), "images of one size were not shown together"
    for image_hwc, prediction in zip(images, batch, strict=True):
        alone = together(image_hwc, with_probabilities=True)
        assert alone.probability_khw is not None
        assert prediction.probability_khw is not None
        np.testing.assert_allclose(prediction.probability_khw, alone.probability_khw, atol=1e-4)
        assert same_part(prediction, alone) > 0.998


def test_best_is_the_class_and_its_probability_without_the_others(predictor: Predictor) -> None:
    image_hwc = smooth_image(1, 90, 61)
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
    images = [smooth_image(seed, 20 + seed, 40) for seed in range(6)]
    serial = [predictor(image_hwc) for image_hwc in images]
    with ThreadPoolExecutor(4) as threads:
        for prediction, alone in zip(threads.map(predictor, images * 2), serial * 2, strict=True):
            assert np.array_equal(prediction.label_hw, alone.label_hw)


@pytest.mark.parametrize("size", [(1, 1), (1, 20000), (20000, 1), (2, 3)])
@pytest.mark.parametrize("mode", ["slide", "whole"])
def test_any_size_works(predictor: Predictor, size: tuple[int, int], mode: str) -> None:
    protocol = replace(predictor.protocol, mode=mode)  # type: ignore[arg-type]
    prediction = Predictor(predictor.network, protocol=protocol)(np.full((*size, 3), 90, np.uint8))
    assert prediction.label_hw.shape == size
    assert prediction.label_hw.max() < len(predictor.classes)
    assert prediction.overlay().size == size[::-1]


def test_files_pillow_images_and_arrays_mean_the_same(predictor: Predictor, tmp_path: Path) -> None:
    image_hwc = smooth_image(4)
    path = tmp_path / "a.png"
    Pillow.fromarray(image_hwc).save(path)
    alpha_hwc = np.dstack([image_hwc, np.zeros((30, 44, 1), np.uint8)])
    others: list[Any] = [
        str(path),
        path,
        path.read_bytes(),
        BytesIO(path.read_bytes()),
        Pillow.open(path),
    ]
    for other in (*others, alpha_hwc, Pillow.fromarray(alpha_hwc)):
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


class Threshold(nn.Module):
    """Calls a pixel bright if its red is above one half. Has a weight, as networks do."""

    def __init__(self, num_classes: int, level: float = 0.5) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(level))
        self.extra = nn.Parameter(torch.zeros(num_classes))

    def forward(self, image_bchw: Tensor) -> Tensor:
        red_bhw = image_bchw[:, 0]
        return torch.stack([self.level - red_bhw, red_bhw - self.level], 1)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "threshold", Threshold)


@pytest.mark.usefixtures("known")
def test_mean_and_std_are_applied_and_kept_in_the_file(tmp_path: Path) -> None:
    image_hwc = smooth_image(1)
    normalised: dict[str, Any] = {"mean": (0.1, 0.0, 0.0), "std": (0.5, 1.0, 1.0)}
    bright_hw = (image_hwc[..., 0] / 255 - 0.1) / 0.5 > 0.5
    found = Predictor(Threshold(2), classes=CLASSES, **normalised, device="cpu")(image_hwc)
    np.testing.assert_array_equal(found.label_hw, bright_hw)
    path = save(Threshold(2), classes=CLASSES, path=tmp_path / "net.safetensors", **normalised)
    opened = Predictor.from_run(path, device="cpu", precision="fp32")
    np.testing.assert_array_equal(opened(image_hwc).label_hw, bright_hw)


def test_training_on_does_not_change_a_predictor() -> None:
    model, image_hwc = Threshold(2), smooth_image(1)
    segment = Predictor(model, classes=CLASSES, device="cpu")
    before_hw = segment(image_hwc).label_hw
    model.level.data.fill_(2.0)
    np.testing.assert_array_equal(segment(image_hwc).label_hw, before_hw)


def test_a_segmenter_is_saved_and_opened_with_the_same_logits(tmp_path: Path) -> None:
    model = tiny_model("fcn", num_classes=2).eval()
    path = save(model, classes=CLASSES, path=tmp_path / "net.safetensors", data="scenes")
    opened = Predictor.from_run(path, device="cpu").network
    assert opened.info.recipe.data.name == "scenes"
    image_hwc = smooth_image(2)
    from_model = Predictor(model, classes=CLASSES, device="cpu")(image_hwc)
    from_file = Predictor.from_run(path, device="cpu", precision="fp32")(image_hwc)
    np.testing.assert_array_equal(from_model.label_hw, from_file.label_hw)


@pytest.mark.usefixtures("known")
def test_options_of_a_module_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save(Threshold(2, level=0.25), classes=CLASSES, path=path, options={"level": 0.25})
    opened = Predictor.from_run(path, device="cpu").network
    assert opened.info.recipe.model.options == {"level": 0.25}
    with pytest.raises(RecipeError, match=r"unknown option of module 'threshold': 'size'"):
        save(Threshold(2), classes=CLASSES, path=path, options={"size": 1})


def test_a_model_that_its_file_would_build_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signed(Threshold):
        def __init__(self, num_classes: int, sign: float = 1.0) -> None:
            super().__init__(num_classes)
            self.sign = sign  # no weight, so the file knows it by its options alone

        def forward(self, image_bchw: Tensor) -> Tensor:
            return self.sign * super().forward(image_bchw)

    monkeypatch.setitem(MODULES, "signed", Signed)
    path = tmp_path / "net.safetensors"
    with pytest.raises(CheckpointError, match=r"computes something else: pass options"):
        save(Signed(2, sign=-1.0), classes=CLASSES, path=path)
    assert not path.exists()
    save(Signed(2, sign=-1.0), classes=CLASSES, path=path, options={"sign": -1.0})


def test_what_could_not_be_opened_again_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with pytest.raises(CheckpointError, match=r"put reconet\.MODULES\['Threshold'\] = Threshold"):
        save(Threshold(2), classes=CLASSES, path=path)
    parts = tiny_model("fcn", num_classes=2)
    by_hand = Segmenter(parts.backbone, parts.context, num_classes=2)
    with pytest.raises(CheckpointError, match=r"make it by reconet\.create_model"):
        save(by_hand, classes=CLASSES, path=path)
    assert not path.exists()
    assert Predictor(by_hand.eval(), classes=CLASSES, device="cpu")(smooth_image(1)) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": "road"}, "classes are a list of names"),
        ({"classes": ["a", "b", "c"]}, "the model has 2 classes, got 3 names"),
        ({"classes": CLASSES, "palette": ((0, 0, 0),)}, "1 colours for 2 classes"),
    ],
)
def test_wrong_classes_and_colours_are_errors(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Predictor(tiny_model("fcn", num_classes=2), device="cpu", **arguments)  # type: ignore[arg-type]


def test_a_model_without_classes_and_logits_of_another_shape_are_errors() -> None:
    with pytest.raises(RecipeError, match=r"pass classes=\[\.\.\.\]"):
        Predictor(Threshold(2), device="cpu")
    with pytest.raises(DataError, match=r"must return logits \(b, 3, h, w\).*returned \(1, 2,"):
        Predictor(Threshold(2), classes=["a", "b", "c"], device="cpu")


class Plain(Backbone):
    """The smallest backbone that keeps the contract."""

    channels, strides = (4, 4, 4, 8), (2, 2, 2, 2)

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 1, 1)

    def forward(self, image_bchw: Tensor) -> Features:
        c1 = self.one(image_bchw)
        return Features(c1, c1, c1, self.two(c1))


def test_a_backbone_of_ones_own_works_by_name_and_by_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(BACKBONES, "plain", lambda settings: Plain())
    model = create_model("fcn", backbone="plain", num_classes=2)
    assert model(torch.rand(2, 3, 33, 20)).main_bkhw.shape == (2, 2, 33, 20)
    save(model, classes=CLASSES, path=tmp_path / "net.safetensors")
    opened = Predictor.from_run(tmp_path / "net.safetensors", device="cpu").network.model
    assert opened is not None
    assert isinstance(opened.backbone, Plain)
    backbone = Plain()
    context = CONTEXTS["fcn"](backbone.stages((64, 64)), num_classes=2)
    by_hand = Segmenter(backbone, context, num_classes=2).eval()
    assert by_hand(torch.rand(1, 3, 20, 33)).main_bkhw.shape == (1, 2, 20, 33)
