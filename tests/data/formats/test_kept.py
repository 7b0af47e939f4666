"""Pre-labels never replace what a person made or changed."""

from pathlib import Path

import numpy as np
import pytest

from reconet.data.formats import WRITTEN, PredictedImage, WrittenLabels, write_files
from reconet.data.images.write import write_mask
from reconet.errors import OutputError

PALETTE = ((0, 0, 0), (255, 0, 0))


def write(out: Path, *names: str, format_name: str = "labelme", label: int = 1) -> WrittenLabels:
    """Write the labels of small images."""
    mask = out / f"mask{label}.png"
    write_mask(mask, np.full((3, 4), label, np.uint8), ())
    images = [PredictedImage(n, out / n, n.rpartition(".")[0], mask) for n in names]
    return write_files(
        format_name, WRITTEN[format_name], out, images, ("background", "cell"), PALETTE
    )


def test_a_file_that_was_not_changed_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "a.png")
    before = (tmp_path / "labelme/a.json").read_text()
    result = write(tmp_path, "a.png", label=0)
    assert (result.files, result.notes) == (1, ())
    assert (tmp_path / "labelme/a.json").read_text() != before


def test_a_file_that_was_corrected_is_kept_and_named(tmp_path: Path) -> None:
    write(tmp_path, "a.png", "b.png")
    path = tmp_path / "labelme/a.json"
    path.write_text("corrected")
    result = write(tmp_path, "a.png", "b.png", label=0)
    assert path.read_text() == "corrected"
    assert result.files == 1
    assert "labelme/a.json was changed since" in result.notes[0]


def test_a_file_of_a_stranger_is_kept(tmp_path: Path) -> None:
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco/annotations.json").write_text("{}")
    result = write(tmp_path, "a.png", format_name="coco")
    assert result.files == 0
    assert (tmp_path / "coco/annotations.json").read_text() == "{}"


def test_images_that_would_share_a_file_are_named(tmp_path: Path) -> None:
    result = write(tmp_path, "a.png", "A.jpg", "c.png", format_name="yolo")
    assert result.files == 3
    assert "another image has" in result.notes[0]


def test_names_that_no_format_can_hold_are_left_out(tmp_path: Path) -> None:
    result = write(tmp_path, "a\n.png", "b\udcff.png", "c.png", format_name="cvat")
    assert [note.startswith("left out: ") for note in result.notes] == [True, True]
    assert 'name="c.png"' in (tmp_path / "cvat/annotations.xml").read_text()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/labelme").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="no ordinary folder"):
        write(tmp_path / "out", "a.png")
    (tmp_path / "out/yolo").mkdir()
    (tmp_path / "out/yolo/labels").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="leads out of"):
        write(tmp_path / "out", "a.png", format_name="yolo")
    assert not list((tmp_path / "elsewhere").iterdir())
