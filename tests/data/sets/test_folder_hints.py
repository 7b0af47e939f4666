"""Common layouts of images and masks are recognised, and the error says how to read them."""

from pathlib import Path

import pytest

from reconet.errors import DataError
from tests.data.sets.helpers import opened


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (
            ("train/images/a.jpg", "train/masks/a.png"),
            'images="{split}/images", masks="{split}/masks"',
        ),
        (
            ("JPEGImages/a.jpg", "SegmentationClass/a.png"),
            "masks=SegmentationClass (by --set 'data.options.images=JPEGImages' and so on",
        ),
        (
            (
                "JPEGImages/a.jpg",
                "SegmentationClass/a.png",
                "ImageSets/Segmentation/train.txt",
                "ImageSets/Segmentation/val.txt",
            ),
            'splits={"train": "ImageSets/Segmentation/train.txt", "val": ',
        ),
        (("Imgs/a.jpg", "labels/a.png"), "images=Imgs, masks=labels"),
        (("a.jpg", "a_mask.png"), "images=., masks=., mask_suffix=_mask"),
        (("images/a.jpg", "images/a_gt.png"), "images=images, masks=images, mask_suffix=_gt"),
        (("images/a.jpg", "labels/a.png"), "images=images, masks=labels"),
    ],
)
def test_a_common_layout_is_recognised(tmp_path: Path, files: tuple[str, ...], hint: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    with pytest.raises(DataError) as caught:
        opened(tmp_path)
    assert f"set the options {hint}" in str(caught.value) or hint in str(caught.value)
    assert "It looks like another layout" in str(caught.value)


def test_a_folder_that_looks_like_nothing_gets_no_hint(tmp_path: Path) -> None:
    (tmp_path / "stuff").mkdir()
    with pytest.raises(DataError, match=r"found stuff\.$"):
        opened(tmp_path)
