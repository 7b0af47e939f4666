"""A whole study on tiny networks: cells, the grid, kills, failures, the report."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconet.cli import main
from reconet.cli.tables.results import variants_table
from reconet.engine.rundir import read_log
from reconet.errors import TrainingError
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.study.run_trial import RESULT, read_result, run_cell
from reconet.study.scheduler import Cell, entered, make_cells
from reconet.study.variants import STUDIES, choose
from reconet.study.page import html, markdown
from reconet.study.plots import figures
from reconet.study.result import StudyResult, as_dict, gather, table_rows
from reconet.study.study import make_plan, open_study

SETTINGS = [
    "data.options.train=8",
    "data.options.val=3",
    "train.steps=4",
    "train.save_every=1",
    "train.eval_every=2",
    "train.log_every=1",
    "train.batch=2",
    "train.deterministic=true",
]
COMPONENTS = STUDIES["components"]


def tiny() -> Recipe:
    return apply_overrides(find_recipe("scenes/tiny"), SETTINGS)


def cells_in(out: Path, names: str, seeds: int = 2) -> list[Cell]:
    variants = choose(COMPONENTS, names.split(","), quick=False)
    return make_cells(variants, tiny(), range(seeds), out)


def run_here(cells: list[Cell], out: Path) -> StudyResult:
    """The grid without processes."""
    with entered(out, COMPONENTS, tiny()):
        for cell in cells:
            run_cell(
                cell.recipe,
                cell.directory,
                variant=cell.variant.name,
                network=cell.network,
                device="cpu",
            )
    return gather(COMPONENTS, tiny(), cells, out)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    out = tmp_path_factory.mktemp("study")
    return run_here([*cells_in(out, "fcn,tgm_trm"), *cells_in(out, "ms_flip", seeds=1)], out)


def command(out: Path, *more: str, seeds: int = 1) -> list[str]:
    sets = [f"--set={setting}" for setting in SETTINGS]
    words = ["study", "components", "--recipe=scenes/tiny", "--variants=fcn,tgm_trm"]
    words += [f"--seeds={seeds}", f"--out={out}", "--device=cpu", "--jobs=1"]
    return [*words, *sets, *more]


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reconet", *command(out, *more)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_study_that_was_killed_goes_on_to_the_same_table(
    tmp_path: Path, finished: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """One cell is finished, the next is in the middle of its training."""
    out = tmp_path / "killed"
    first, second = out / "fcn" / "seed0", out / "tgm_trm" / "seed0"
    shutil.copytree(finished.out / "fcn" / "seed0", first)
    shutil.copy(finished.out / "study.json", out)
    made = (first / RESULT).stat().st_mtime_ns

    process = start(out)
    while process.poll() is None and not (second / "last.pt").exists():
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (second / RESULT).exists()

    assert main(command(out, "--json")) == 0
    rows = {row["variant"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (first / RESULT).stat().st_mtime_ns == made, "a finished cell was run again"
    for name in ("fcn", "tgm_trm"):
        [undisturbed] = [row.cells[0].figures for row in finished.rows if row.variant == name]
        [again] = rows[name]["cells"]
        assert again["figures"] == undisturbed
    assert len(open_study(out).rows) == 2
    assert (out / "report.html").is_file()


@pytest.mark.slow
def test_a_stop_saves_what_was_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = start(out, "--set=train.steps=4000", "--set=train.save_every=4000")
    inside = out / "fcn" / "seed0"
    while process.poll() is None and not any(line["step"] > 1 for line in read_log(inside)):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    assert (inside / "last.pt").is_file()  # nothing else would have saved so early
    assert not (inside / "failure.json").exists()


def test_scoring_again_trains_nothing_and_looks_at_the_same_network(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    again = rows["ms_flip"].cells[0]
    assert again.images_per_second is None
    assert again.params == rows["aux"].cells[0].params
    assert "with mirror images" in again.protocol
    assert not (finished.out / "ms_flip" / "seed0" / "log.jsonl").exists()


@pytest.mark.parametrize("relative_to", ["base_size", "original"])
def test_the_score_is_that_of_the_last_step_by_the_protocol_of_the_recipe(
    tmp_path: Path, relative_to: str
) -> None:
    cell = cells_in(tmp_path, "fcn", seeds=1)[0]
    changes = ["eval.mode=whole", f"eval.relative_to={relative_to}", "data.base_size=48"]
    recipe = apply_overrides(cell.recipe, changes)
    result = run_cell(recipe, cell.directory, variant="fcn", network=None, device="cpu")
    assert result is not None
    last = [line for line in read_log(cell.directory) if line["kind"] == "val"][-1]
    assert last["step"] == 4
    # A training looks at images of base_size, and these are larger.
    assert (result.figures["miou"] == last["miou"]) == (relative_to == "base_size")
    assert ("long side of 48" in result.protocol) == (relative_to == "base_size")
    assert result == read_result(cell.directory)


def test_liveness_and_ranks_of_the_attention_are_there(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    cell = rows["tgm_trm"].cells[0]
    assert [line["step"] for line in cell.trajectory] == [2, 4]
    assert all(line["attention_spread"] > 0 for line in cell.trajectory)
    assert cell.spectrum is not None
    assert cell.spectrum.rank == 4
    assert rows["fcn"].cells[0].spectrum is None


def test_a_failing_cell_is_reported_and_the_others_are_there(
    tmp_path: Path, finished: StudyResult, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    os.makedirs(out)
    for name in ("study.json", "fcn"):
        os.symlink(finished.out / name, out / name)
    (out / "tgm_trm").mkdir()
    (out / "tgm_trm" / "seed1").mkdir()
    (out / "tgm_trm" / "seed1" / "strange.txt").touch()  # not empty, and no run
    os.symlink(finished.out / "tgm_trm" / "seed0", out / "tgm_trm" / "seed0")
    assert main(command(out, seeds=2)) == 1
    said = capsys.readouterr()
    assert "tgm_trm seed 1: " in said.err
    assert "holds no run" in said.err
    assert "tgm_trm" in said.out  # the table has its other seed
    assert "Not everything is there" in (out / "report.html").read_text()


def test_another_recipe_in_the_same_directory_is_an_error(tmp_path: Path) -> None:
    with entered(tmp_path, COMPONENTS, tiny()):
        pass
    changed = apply_overrides(tiny(), ["optim.lr=0.5", "data.workers=1"])
    with (
        pytest.raises(TrainingError, match=r"optim.lr is 0.02 there and 0.5 here"),
        entered(tmp_path, COMPONENTS, changed),
    ):
        pass
    with (
        pytest.raises(TrainingError, match="holds the study components"),
        entered(tmp_path, STUDIES["rank"], tiny()),
    ):
        pass
    with entered(tmp_path, COMPONENTS, apply_overrides(tiny(), ["data.workers=1"])):
        pass  # who reads the images changes nothing


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").touch()
    with (
        pytest.raises(TrainingError, match="holds no study"),
        entered(tmp_path, COMPONENTS, tiny()),
    ):
        pass


def test_a_damaged_result_is_explained(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text('{"format": 1}')
    with pytest.raises(TrainingError, match="damaged"):
        read_result(tmp_path)


def test_tables_page_and_markdown_say_the_same(finished: StudyResult) -> None:
    values = as_dict(finished)
    json.dumps(values, allow_nan=False)
    row = next(row for row in table_rows(finished) if row[0] == "tgm_trm")
    score = next(r for r in finished.rows if r.variant == "tgm_trm").score
    assert score is not None
    assert score.half_width is not None
    assert row[1:4] == [f"{100 * score.mean:.2f}", f"± {100 * score.half_width:.2f}", "2"]
    assert row[-1] == "78.6"
    assert f"<td>{row[1]}</td>" in html(finished)
    assert f"| tgm_trm | {row[1]} |" in markdown(finished)
    assert set(figures(finished)) == {"scores", "training"}


def test_names_and_settings_are_escaped(finished: StudyResult) -> None:
    evil = apply_overrides(finished.recipe, ['data.options.classes="<script>alert(1)</script>"'])
    page = html(StudyResult(**{**vars(finished), "recipe": evil, "missing": ("<b>x</b>",)}))
    assert "<script>" not in page
    assert "<b>x</b>" not in page


def test_the_list_names_every_variant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "components", "--list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [v["name"] for v in told["variants"]] == [v.name for v in COMPONENTS.variants()]


def test_a_list_without_a_name_is_that_of_the_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--list"]) == 0
    shown = capsys.readouterr().out
    for name, study in STUDIES.items():
        assert name in shown
        assert study.question in shown
    assert main(["study", "--list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["studies"]
    assert [study["name"] for study in told] == list(STUDIES)
    assert told[1]["variants"] == [v.name for v in STUDIES["rank"].variants()]
    assert main(["study"]) == 2
    assert "name a study: components, rank, contexts, attention" in capsys.readouterr().err


def test_listed_settings_can_be_pasted_into_a_shell() -> None:
    plan = make_plan("components", tiny(), seeds=1, variants=["ms_flip"], quick=False)
    shown = list(variants_table(plan).columns[2].cells)[-1]
    words = shlex.split(str(shown))
    settings = plan.variants[-1].settings
    assert [x for s in settings for x in ("--set", s)] == words
    assert any("[" in setting for setting in settings)  # what a shell would else take for its own


def test_an_unknown_study_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "rnk"]) == 2
    assert "Did you mean 'rank'?" in capsys.readouterr().err
