"""Pruning a run writes run directories that all other commands take."""

import json
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.models import load_trained
from tests.factories import paper_core, tiny_network, tiny_recipe, write_run


def write_tiny_run(directory: Path, *settings: str) -> Path:
    return write_run(directory, tiny_network(tiny_recipe(*settings)))


def test_all_folders_are_looked_at_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = write_tiny_run(tmp_path / "run"), tmp_path / "cut"
    for name in ("rank1", "rank2"):
        (out / name).mkdir(parents=True)
        (out / name / "mine.txt").touch()
    monkeypatch.setattr(
        "reconet.prune.prune.rank_importance", lambda *given: pytest.fail("computed")
    )
    assert main(["prune", str(run), "--rank", "3,2,1", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert f"{out / 'rank2'} and {out / 'rank1'} exist and are not empty. Leave out" in error
    (tmp_path / "file").touch()
    assert main(["prune", str(run), "--rank", "3", "--out", str(tmp_path / "file")]) == 2
    assert "--out names a folder; " in capsys.readouterr().err


def test_a_folder_of_a_former_pruning_is_written_again_unless_trained_in(tmp_path: Path) -> None:
    run, out = write_tiny_run(tmp_path / "run"), tmp_path / "cut"
    options = ["--images", "1", "--out", str(out)]
    assert main(["prune", str(run), "--rank", "2,1", *options]) == 0
    (out / "rank2" / "best.safetensors").unlink()
    assert main(["prune", str(run), "--rank", "3,2", *options]) == 0
    assert load_trained(out / "rank2").info.recipe.model.rank == 2
    (out / "rank2" / "log.jsonl").touch()
    assert main(["prune", str(run), "--rank", "3,2", *options]) == 2


def test_the_verb_writes_a_network_that_other_verbs_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = write_tiny_run(tmp_path / "run"), tmp_path / "small"
    options = ["--rank", "2", "--images", "3", "--out", str(out), "--json"]
    assert main(["prune", str(run), *options]) == 0
    values = json.loads(capsys.readouterr().out)
    before, after = values["networks"]
    assert (before["rank"], after["rank"]) == (4, 2)
    assert after["params"] < before["params"]
    assert after["core_params"] * 2 == before["core_params"]
    assert after["core_macs"] < before["core_macs"]
    assert after["file_bytes"] == (out / "best.safetensors").stat().st_size < before["file_bytes"]
    assert before["time"] == 1.0
    low, high = after["time_range"]
    assert low <= after["time"] <= high
    assert len(values["kept"]["2"]) == 2
    assert main(["evaluate", str(out), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)["figures"]["miou"]
    assert scored == pytest.approx(after["figures"]["miou"])
    assert load_trained(out).info.score["miou"] == pytest.approx(scored)
    assert main(["explain", str(out), "val:0", "--ranks", "2"]) == 0


def test_a_pruned_network_can_be_trained_further(tmp_path: Path) -> None:
    run = write_tiny_run(tmp_path / "run")
    options = ["--rank", "3,2", "--images", "1", "--out", str(tmp_path / "cut")]
    assert main(["prune", str(run), *options]) == 0
    recipe = str(tmp_path / "cut" / "rank2" / "recipe.json")
    tuned = tmp_path / "tuned"
    settings = ["--set", "train.steps=1", "--set", "train.eval_every=1"]
    assert main(["train", recipe, "--out", str(tuned), *settings, "--device", "cpu"]) == 0
    start, end = (load_trained(path) for path in (tmp_path / "cut" / "rank2", tuned))
    sums = [paper_core(one.model).weight_sum for one in (start, end)]
    assert torch.equal(*sums)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ([], ["--rank", "4"], "at least 1 and below 4"),
        ([], ["--rank", "0"], "--rank takes numbers above 0"),
        ([], ["--rank", "many"], "--rank takes numbers above 0"),
        (["model.context=fcn"], ["--rank", "2"], "has no ranks"),
        ([], ["--rank", "2", "--split", "vale"], "unknown split of scenes 'vale'"),
        ([], ["--rank", "2", "--out", "."], "not empty"),
    ],
)
def test_mistakes_are_one_line(
    settings: list[str],
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = write_tiny_run(tmp_path / "run", *settings)
    monkeypatch.chdir(tmp_path)
    assert main(["prune", str(run), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
