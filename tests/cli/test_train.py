"""`reconet train`: which run is resumed, and what is said if there is none."""

from pathlib import Path

import pytest

from tests.cli.run import run


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
