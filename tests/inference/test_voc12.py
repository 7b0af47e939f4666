"""The network of the package segments a photograph, offline, by its name."""

from pathlib import Path

import matplotlib as mpl
import pytest

from reconet import Predictor
from reconet.inference.by_name import PRETRAINED, find_network

PHOTO = Path(mpl.get_data_path()) / "sample_data" / "grace_hopper.jpg"


@pytest.mark.skipif(not PHOTO.is_file(), reason="this matplotlib comes without its photograph")
def test_the_network_of_the_package_finds_the_person_in_a_portrait() -> None:
    result = Predictor.from_pretrained("voc12")(PHOTO)
    height, width = result.label_hw.shape
    assert result.classes[result.label_hw[height // 2, width // 2]] == "person"
    assert result.shares()["person"] > 0.3
    assert result.classes[result.label_hw[5, width // 2]] == "background"


def test_its_file_is_small_and_its_card_says_what_people_ask() -> None:
    path = find_network("voc12").path
    assert path.parent == PRETRAINED
    assert path.stat().st_size <= 40e6
    card = path.with_suffix(".md").read_text()
    for heading in ("## Scores", "## Known weaknesses", "## Training", "## Licence", "## Recipe"):
        assert heading in card
    assert path.with_suffix(".jpg").is_file()
