"""`reconet train`: which run is resumed, and what is said if there is none."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.run import run
from tests.launch import TINY_NETWORK, run_main


def test_resuming_what_is_not_there_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nowhere = tmp_path / "nope"
    code, _, err = run(capsys, "train", str(nowhere), "--resume")
    assert (code, err) == (2, f"reconet: there is no run to resume: {nowhere} does not exist.\n")
    code, _, err = run(capsys, "train", str(tmp_path), "--resume")
    assert (code, err) == (
        2,
        f"reconet: there is no run to resume: {tmp_path} has no recipe.json.\n",
    )
    code, _, err = run(capsys, "train", "scenes/tiny", "--resume")
    assert "--resume needs a run directory: name it as RECIPE or by --out." in err


def test_what_the_check_calls_right_can_be_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Train with class names in a file of the root, and splits with names of their own."""
    for folder, shade in (("images", 90), ("masks", 1)):
        (tmp_path / "data" / folder).mkdir(parents=True)
        for number in range(6):
            array = np.full((64, 80) if folder == "masks" else (64, 80, 3), shade, np.uint8)
            Image.fromarray(array).save(tmp_path / "data" / folder / f"{number}.png")
    (tmp_path / "data" / "classes.txt").write_text("ground\nroof\n")
    for split, numbers in (("learning", range(4)), ("scoring", range(4, 6))):
        (tmp_path / "data" / f"{split}.txt").write_text("".join(f"{n}\n" for n in numbers))
    given = [
        f"--set=data.root={tmp_path / 'data'}",
        '--set=data.options.splits={"learning": "learning.txt", "scoring": "scoring.txt"}',
        "--set=data.train_split=learning",
        "--set=data.val_split=scoring",
        "--set=data.options.title=Roofs",
    ]
    out = f"--out={tmp_path / 'run'}"
    code, _, err = run_main(capsys, "train", "folder/reconet", *TINY_NETWORK, *given, out)
    assert code == 0, err
    assert "data: Roofs, 4 images to train, 2 to validate, 2 classes" in err
