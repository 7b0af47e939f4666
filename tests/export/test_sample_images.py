"""Sample images: where they come from, and which windows of them a network sees."""

from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.data import open_dataset
from reconet.data.images.write import write_mask
from reconet.errors import AbsentError, DataError, ReconetError
from reconet.export.int8 import calibration_windows
from reconet.export.sample_images import (
    images_in_folder,
    images_of_dataset,
    load_samples,
    readable_images,
    windows_of,
)
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.recipes import find_recipe
from reconet.system.progress import Silent
from tests.data.trees import make_tree
from tests.factories import tiny_recipe


class Notes(Silent):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_a_dataset_that_is_here_but_wrong_is_not_taken_for_absent(tmp_path: Path) -> None:
    # Otherwise int8 would not be scored, and nobody would know why.
    recipe = tiny_recipe("data.options.trees=1")
    with pytest.raises(ReconetError, match="trees"):
        load_samples(recipe, "val", None, 4)
    make_tree("camvid", tmp_path / "camvid")
    wrong = ["data.name=camvid", f"data.root={tmp_path / 'camvid'}", "data.options.trees=1"]
    damaged = tiny_recipe(*wrong)
    with pytest.raises(ReconetError, match=r"data\.options"):
        load_samples(damaged, "val", None, 4)


@pytest.mark.parametrize("root", [None, "/no/such/place"])
def test_where_the_dataset_is_not_here_images_are_generated(
    root: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    recipe = find_recipe("voc12/reconet_r50")
    data = recipe.data.model_copy(update={"root": root and Path(root), "crop": (64, 64)})
    elsewhere = recipe.model_copy(update={"data": data})
    images = load_samples(elsewhere, "val", None, 2)
    assert images.description == "2 images of generated scenes (voc12 is not here)"
    with pytest.raises(AbsentError):
        load_samples(elsewhere, "val", Path("/no/such/place"), 2)


def test_calibration_shows_what_the_protocol_shows() -> None:
    dataset = open_dataset("scenes", "val", None, {"size": [40, 100], "val": 3})
    protocol = Protocol(base_size=100, crop=(48, 48))
    batches: list[torch.Tensor] = []

    def record(image_bchw: torch.Tensor) -> torch.Tensor:
        batches.append(image_bchw)
        return torch.zeros(len(image_bchw), 2, 1, 1)

    image_hwc = dataset[0].image_hwc
    predict_labels(record, torch.from_numpy(image_hwc), protocol, 2)
    expected = torch.cat(batches).numpy()
    assert expected.shape == (3, 3, 48, 48)
    np.testing.assert_array_equal(windows_of(image_hwc, protocol), expected)
    windows = list(calibration_windows(images_of_dataset(dataset, 3), protocol))
    assert [one.shape for one in windows] == [(1, 3, 48, 48)] * 3
    np.testing.assert_array_equal(windows[0], expected[:1])
    np.testing.assert_array_equal(windows[1], windows_of(dataset[1].image_hwc, protocol)[1:2])


def test_a_photo_that_cannot_be_read_is_left_out_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    progress = Notes()
    with pytest.raises(DataError, match="none of 1 image of"):
        readable_images(images_in_folder(tmp_path, 9), progress)
    write_mask(tmp_path / "b.png", np.zeros((20, 30), np.uint8), ((1, 2, 3),))
    images = readable_images(images_in_folder(tmp_path, 9), progress)
    assert images.description == f"1 image of {tmp_path}"
    assert [image_hwc.shape for image_hwc in images] == [(20, 30, 3)]
    assert len(progress.texts) == 2
    assert all("a.png" in note for note in progress.texts)
