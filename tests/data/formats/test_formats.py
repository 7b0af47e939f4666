"""Each format gives the labels that were exported in it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data import DATASETS, Dataset, formats, open_dataset
from reconet.errors import DataError
from reconet.types import Label
from tests.data.formats.exports import EXPORTS, Scene

ORIENTATION = 0x0112
METHODS = dict(
    zip(
        range(2, 9),
        (
            Image.Transpose.FLIP_LEFT_RIGHT,
            Image.Transpose.ROTATE_180,
            Image.Transpose.FLIP_TOP_BOTTOM,
            Image.Transpose.TRANSPOSE,
            Image.Transpose.ROTATE_270,
            Image.Transpose.TRANSVERSE,
            Image.Transpose.ROTATE_90,
        ),
        strict=True,
    )
)


def turn_upright(array: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    image = Image.fromarray(array)
    return np.asarray(image.transpose(METHODS[turn]) if turn > 1 else image)


def drawn_scenes() -> tuple[list[Scene], tuple[str, ...]]:
    """Return six generated scenes of one size and another, with their classes."""
    scenes = []
    classes: tuple[str, ...] = ()
    for split, count in (("train", 4), ("val", 2)):
        dataset = open_dataset("scenes", split, None, {"size": [40, 56], "train": 4, "val": 2})
        classes = dataset.info.classes
        scenes += [Scene(f"{split} {i}", split, *dataset[i][1:]) for i in range(count)]
    odd = scenes[0]
    scenes[0] = odd._replace(image_hwc=odd.image_hwc[:, :33], label_hw=odd.label_hw[:, :33])
    return scenes, classes


SCENES, CLASSES = drawn_scenes()
MASKS = ("voc", "colour-masks", "index-masks")
UPRIGHT = "turned upright, and labels are taken as drawn upright"


def exported(root: Path, name: str) -> formats.Recognised:
    EXPORTS[name](root, SCENES, CLASSES)
    return formats.read_folder(root)


def opened(found: formats.Recognised, note: str = "") -> list[Dataset]:
    """Open a folder without writing anything."""
    data, options = found.data, formats.folder_options(found.data)
    assert any(note in one for one in (*data.notes, "")), data.notes
    if data.images:
        kind = DATASETS["folder"].options
        assert kind is not None
        return formats.open_drawn(data, kind.model_validate(options))  # type: ignore[arg-type]
    return [open_dataset("folder", split, data.folder, options) for split in ("train", "val")]


def check_labels(splits: list[Dataset], turns: Mapping[str, int] | None = None) -> None:
    """Compare labels by the names of their classes with those that were exported, or turned."""
    wanted = {scene.name: scene for scene in SCENES}
    seen = []
    for dataset in splits:
        for name, image_hwc, label_hw in dataset:  # type: ignore[attr-defined]
            scene = wanted[name.rpartition("/")[2]]
            assert scene.split == dataset.split
            turn = (turns or {}).get(scene.name, 1)
            assert np.array_equal(image_hwc, turn_upright(scene.image_hwc, turn))
            wanted_hw = _names(turn_upright(scene.label_hw, turn))
            assert np.array_equal(_names(label_hw, dataset.info.classes), wanted_hw)
            seen.append(scene.name)
    assert sorted(seen) == sorted(wanted)


def _names(label_hw: Label, classes: tuple[str, ...] = CLASSES) -> NDArray[np.str_]:
    table = np.array([*classes, *["?"] * (255 - len(classes)), "void"])
    return table[label_hw]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_folder_is_recognised_and_gives_the_labels_that_were_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    found = exported(tmp_path / "mine", name)
    assert found.format == name
    check_labels(opened(found))
    assert not (tmp_path / "cache").exists()
    formats.keep(found.data, workers=0)
    options = formats.folder_options(found.data)
    check_labels([open_dataset("folder", s, tmp_path / "mine", options) for s in ("train", "val")])


def turned(root: Path, turn: int, scenes: Sequence[Scene], *, upright: bool) -> None:
    """Store images of an export with an EXIF orientation.

    With `upright` they look as before. Otherwise their pixels are stored as before.
    """
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    back = {6: 8, 8: 6}.get(turn, turn)  # all others are their own opposite
    for scene in scenes:
        for path in root.rglob(f"{scene.name}.png"):
            if np.array_equal(np.asarray(Image.open(path)), scene.image_hwc):
                image_hwc = turn_upright(scene.image_hwc, back) if upright else scene.image_hwc
                Image.fromarray(image_hwc).save(path, exif=exif)


@pytest.mark.parametrize("turn", range(2, 9))
@pytest.mark.parametrize("name", EXPORTS)
def test_photographs_are_turned_as_exif_says_and_labels_fit_them(
    tmp_path: Path, name: str, turn: int
) -> None:
    EXPORTS[name](tmp_path, SCENES, CLASSES)
    turned(tmp_path, turn, SCENES, upright=True)
    why = "as sizes tell" if turn > 4 else "for sizes do not tell"
    check_labels(
        opened(
            formats.read_folder(tmp_path),
            f"6 photographs have an EXIF orientation: {UPRIGHT}, {why}",
        )
    )


@pytest.mark.parametrize("turn", range(5, 9))
@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in ("via", "yolo")])
def test_labels_of_photographs_as_they_are_stored_fit_them_too(
    tmp_path: Path, name: str, turn: int
) -> None:
    EXPORTS[name](tmp_path, SCENES, CLASSES)
    turned(tmp_path, turn, SCENES[1:], upright=False)
    turned(tmp_path, 3, SCENES[:1], upright=False)  # no size tells, but those of the others do
    if name in MASKS:
        check_labels(opened(formats.read_folder(tmp_path), "not turned, for the masks fit"))
    else:
        turns = dict.fromkeys([scene.name for scene in SCENES], turn) | {SCENES[0].name: 3}
        check_labels(
            opened(formats.read_folder(tmp_path), "turned upright, and so are the labels"), turns
        )


@pytest.mark.parametrize("name", ["coco", "cvat", "labelme"])
def test_upright_regions_beside_stored_sizes_are_those_of_upright_photographs(
    tmp_path: Path, name: str
) -> None:
    """Label Studio exports COCO like this."""
    label_hw = np.zeros((56, 40), np.uint8)
    label_hw[30:50, 5:30], label_hw[2:9, 3:9] = 1, 2
    image_hwc = np.random.default_rng(0).integers(0, 256, (56, 40, 3), np.uint8)
    scenes = [Scene(split, split, image_hwc, label_hw) for split in ("train", "val")]
    EXPORTS[name](tmp_path, scenes, CLASSES)
    turned(tmp_path, 6, scenes, upright=True)
    for file in [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.xml")]:
        text = file.read_text()
        for old, new in (("56", "x"), ("40", "56"), ("x", "40")):
            text = re.sub(rf'(?i)(height"?[:=] ?"?|width"?[:=] ?"?){old}\b', rf"\g<1>{new}", text)
        file.write_text(text)
    for dataset in opened(formats.read_folder(tmp_path), "as drawn upright, as regions tell"):
        for _, got_hwc, got_hw in dataset:  # type: ignore[attr-defined]
            assert np.array_equal(got_hwc, image_hwc)
            assert np.array_equal(_names(got_hw, dataset.info.classes), _names(label_hw))


@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in ("via", "yolo")])
def test_labels_of_both_kinds_are_refused(tmp_path: Path, name: str) -> None:
    EXPORTS[name](tmp_path, SCENES, CLASSES)
    turned(tmp_path, 6, SCENES[:3], upright=False)
    turned(tmp_path, 6, SCENES[3:], upright=True)
    with pytest.raises(DataError, match="keep the two kinds in different folders"):
        formats.read_folder(tmp_path)


def test_every_format_has_an_export_to_test_it_by() -> None:
    assert set(formats.FORMATS) - set(EXPORTS) == {"black-white-masks"}
