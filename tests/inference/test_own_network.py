"""A model that was built in Python becomes a Predictor, or a file that opens again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reconet.data.classes import distinct_colours
from reconet.errors import CheckpointError, DataError, RecipeError
from reconet.inference.own_network import save
from reconet.inference.predictor import Predictor
from reconet.models.backbone import BACKBONES, Backbone
from reconet.models.context.fcn import FCN
from reconet.models.features import Features
from reconet.models.segmenter import MODULES, Segmenter, create_model
from reconet.models.trained import load_trained
from reconet.recipes import Data
from tests.factories import smooth_image, tiny_model

CLASSES = ["dark", "bright"]


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


def test_a_module_sees_rgb_between_0_and_1_at_the_images_own_size() -> None:
    image_hwc = smooth_image(1)
    found = Predictor(Threshold(2), classes=CLASSES, device="cpu")(image_hwc)
    np.testing.assert_array_equal(found.label_hw, image_hwc[..., 0] > 127.5)
    assert found.classes == ("dark", "bright")


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


def test_without_colours_classes_get_ones_that_can_be_told_apart() -> None:
    names = [str(number) for number in range(10)]
    palette = Predictor(tiny_model(num_classes=10), classes=names).network.info.palette
    assert palette == distinct_colours(10)
    names[0] = "background"
    palette = Predictor(tiny_model(num_classes=10), classes=names).network.info.palette
    assert palette[0] == (0, 0, 0)


def test_a_file_keeps_the_root_of_its_data_whatever_the_working_directory_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(MODULES, "threshold", Threshold)
    data = Data(name="voc12", root=Path("mine"))
    save(Threshold(2), classes=CLASSES, path="a.safetensors", data=data)
    assert load_trained(Path("a.safetensors")).info.recipe.data.root == tmp_path / "mine"


def test_training_on_does_not_change_a_predictor() -> None:
    model, image_hwc = Threshold(2), smooth_image(1)
    segment = Predictor(model, classes=CLASSES, device="cpu")
    before_hw = segment(image_hwc).label_hw
    model.level.data.fill_(2.0)
    np.testing.assert_array_equal(segment(image_hwc).label_hw, before_hw)


def test_a_segmenter_is_saved_and_opened_with_the_same_logits(tmp_path: Path) -> None:
    model = tiny_model("fcn", num_classes=2).eval()
    path = save(model, classes=CLASSES, path=tmp_path / "net.safetensors", data=Data(name="scenes"))
    opened = load_trained(path)
    assert opened.info.recipe.data.name == "scenes"
    image_bchw = torch.rand(1, 3, 40, 56)
    torch.testing.assert_close(opened.model(image_bchw), model(image_bchw))
    image_hwc = smooth_image(2)
    from_model = Predictor(model, classes=CLASSES, device="cpu")(image_hwc)
    from_file = Predictor.from_run(path, device="cpu", precision="fp32")(image_hwc)
    np.testing.assert_array_equal(from_model.label_hw, from_file.label_hw)


@pytest.mark.usefixtures("known")
def test_options_of_a_module_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save(Threshold(2, level=0.25), classes=CLASSES, path=path, options={"level": 0.25})
    assert load_trained(path).info.recipe.model.options == {"level": 0.25}
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


def test_weights_alone_are_called_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save(Threshold(2).state_dict(), path)
    with pytest.raises(CheckpointError, match=r"weights at most.*reconet\.save\(model, classes"):
        Predictor.from_run(path)


class TwoMaps(Backbone):
    """A backbone that breaks the contract: it has two maps."""

    channels, strides = (4, 8), (4, 8)


class Plain(Backbone):
    """The smallest backbone that keeps the contract."""

    channels, strides = (4, 4, 4, 8), (2, 2, 2, 2)

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 1, 1)

    def forward(self, image_bchw: Tensor) -> Features:
        c1 = self.one(image_bchw)
        return Features(c1, c1, c1, self.two(c1))


def test_more_classes_than_labels_can_hold_are_refused(tmp_path: Path) -> None:
    names = [f"class {k}" for k in range(280)]
    with pytest.raises(RecipeError, match="num_classes must be from 1 to 254"):
        save(Threshold(280), classes=names, path=tmp_path / "net.safetensors")
    assert not (tmp_path / "net.safetensors").exists()


def test_a_backbone_of_ones_own_works_by_name_and_by_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(BACKBONES, "plain", lambda settings: Plain())
    model = create_model("fcn", backbone="plain", num_classes=2)
    assert model(torch.rand(2, 3, 33, 20)).main_bkhw.shape == (2, 2, 33, 20)
    save(model, classes=CLASSES, path=tmp_path / "net.safetensors")
    assert isinstance(load_trained(tmp_path / "net.safetensors").model.backbone, Plain)
    backbone = Plain()
    context = FCN(backbone.stages((64, 64)), num_classes=2)
    by_hand = Segmenter(backbone, context, num_classes=2).eval()
    assert by_hand(torch.rand(1, 3, 20, 33)).main_bkhw.shape == (1, 2, 20, 33)


def test_what_is_no_backbone_is_told_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    context = FCN(Plain().stages((64, 64)), num_classes=2)
    with pytest.raises(RecipeError, match=r"Conv2d is no backbone: subclass reconet\.Backbone"):
        Segmenter(nn.Conv2d(3, 3, 1), context, num_classes=2)  # type: ignore[arg-type]
    monkeypatch.setitem(BACKBONES, "two", lambda settings: TwoMaps())
    with pytest.raises(RecipeError, match="set `channels` and `strides` to four numbers each"):
        create_model("fcn", backbone="two", num_classes=2)
