"""Loggers beside TensorBoard: what they get, what is kept, and what happens when they fail."""

import json
from pathlib import Path

import pytest

from reconet.engine import (
    LOGGERS,
    Loggers,
    Writer,
    check_logger,
    open_loggers,
    read_log,
    read_records,
    run_training,
)
from reconet.errors import MissingExtraError, RecipeError, TrainingError
from reconet.recipes import Recipe
from reconet.types import Image
from tests.cli.run import run
from tests.engine.wandb_files import history
from tests.engine.wandb_files import read_records as wandb_records
from tests.factories import ProgressRecorder, tiny_recipe

CLASSES = ("sky", "sea")
LINES = [
    {"kind": "summary", "step": 0, "steps": 20},
    {"kind": "train", "step": 2, "loss": 0.5, "lr": 0.1},
    {"kind": "val", "step": 2, "miou": 0.25, "iou": [0.5, 0.0], "protocol": "whole"},
    {"kind": "train", "step": 4, "loss": 0.25, "lr": 0.05},
]


class Memory:
    """A logger that keeps everything in memory."""

    def __init__(self, directory: Path, recipe: Recipe, record: str | None) -> None:
        self.recipe, self.given, self.record = recipe, record, record or "new"
        self.values, self.ended = list[tuple[str, float, int]](), ""

    def add_scalar(self, name: str, value: float, step: int) -> None:
        if value < 0:
            raise ConnectionError("the server is gone\nsecond line")
        self.values.append((name, value, step))

    def add_image(self, number: int, image_hwc: Image, step: int) -> None:
        self.values.append((f"{number}", float(image_hwc.size), step))

    def close(self, *, failed: bool) -> None:
        self.ended = "failed" if failed else "finished"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Memory]:
    """Replace all loggers by ones in memory, and return those that were opened."""
    made: list[Memory] = []

    def open_memory(directory: Path, recipe: Recipe, record: str | None) -> Writer:
        made.append(Memory(directory, recipe, record))
        return made[-1]

    monkeypatch.setattr("reconet.engine.loggers.check_logger", lambda name: None)
    for name in LOGGERS:
        monkeypatch.setitem(LOGGERS, name, open_memory)
    return made


def test_a_resumed_run_goes_on_in_its_record_with_all_values(
    tmp_path: Path, opened: list[Memory]
) -> None:
    recipe, progress = tiny_recipe("train.init_from=/home/me/net"), ProgressRecorder()
    with open_loggers(tmp_path, 0, recipe, CLASSES, ["wandb"], progress) as loggers:
        loggers.add_values("train", 2, {"loss": 0.5, "name": "text", "steps": 3})
    assert opened[0].values == [("train/loss", 0.5, 2)]
    assert opened[0].ended == "finished"
    assert opened[0].recipe.train.init_from is None  # paths stay on this machine
    assert json.loads((tmp_path / "records.json").read_text()) == {"wandb": "new"}

    (tmp_path / "records.json").write_text('{"wandb": "abc", "unknown": "x"}')
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    with open_loggers(tmp_path, 2, recipe, CLASSES, [], progress):
        pass
    assert opened[1].record == "abc"
    assert opened[1].values == [
        ("train/loss", 0.5, 2),
        ("train/lr", 0.1, 2),
        ("val/miou", 0.25, 2),
        ("iou/sky", 0.5, 2),
        ("iou/sea", 0.0, 2),
    ]


def test_a_run_that_begins_anew_gets_a_new_record(tmp_path: Path, opened: list[Memory]) -> None:
    (tmp_path / "records.json").write_text('{"wandb": "of a start that failed"}')
    with open_loggers(tmp_path, 0, tiny_recipe(), CLASSES, ["wandb"], ProgressRecorder()):
        pass
    assert opened[0].given is None


def test_an_error_of_the_training_is_recorded(tmp_path: Path, opened: list[Memory]) -> None:
    progress = ProgressRecorder()
    with (
        pytest.raises(TrainingError),
        open_loggers(tmp_path, 0, tiny_recipe(), CLASSES, ["mlflow"], progress),
    ):
        raise TrainingError("it diverged")
    assert opened[0].ended == "failed"


def test_a_logger_that_fails_is_named_once_and_the_others_go_on() -> None:
    one, progress = Memory(Path("run"), tiny_recipe(), None), ProgressRecorder()
    loggers = Loggers({"wandb": one}, progress)
    loggers.add_values("train", 1, {"loss": 1.0})
    loggers.add_values("train", 2, {"loss": -1.0})
    loggers.add_values("train", 3, {"loss": 1.0})
    loggers.close(failed=False)
    assert one.values == [("train/loss", 1.0, 1)]
    assert progress.lines == [
        "--log wandb has failed, and the training goes on without it: the server is gone"
    ]


def test_a_logger_that_cannot_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[Memory]
) -> None:
    def refuse(*_: object) -> Writer:
        raise PermissionError("no entry\nmore")

    monkeypatch.setitem(LOGGERS, "wandb", refuse)
    with (
        pytest.raises(TrainingError, match="cannot start: no entry"),
        open_loggers(tmp_path, 0, tiny_recipe(), CLASSES, ["wandb"], ProgressRecorder()),
    ):
        pass


@pytest.mark.parametrize("text", ["", "[]", "3", '{"wandb": 7}', "[[["])
def test_broken_records_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "records.json").write_text(text)
    assert read_records(tmp_path) == {}


def test_an_unknown_logger_and_a_missing_package_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RecipeError, match="Did you mean 'wandb'"):
        check_logger("wandbb")
    monkeypatch.setattr("reconet.engine.loggers.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        check_logger("mlflow")
    arguments = ["train", "scenes/tiny", "--out", str(tmp_path / "run"), "--log", "wandb"]
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert (
        err
        == "reconet: --log wandb needs an extra: pip install '.[wandb]' in the clone of reconet.\n"
    )
    assert not (tmp_path / "run").exists()


def train_and_resume(directory: Path, logger: str) -> None:
    """Train four steps, and then four more. Only the first start names the logger."""
    small = ["data.options.train=8", "data.options.val=2", "train.log_every=1"]
    small += ["train.save_every=4", "train.eval_every=4"]
    first, longer = (tiny_recipe(*small, f"train.steps={steps}") for steps in (4, 8))
    run_training(first, directory, device="cpu", log=[logger])
    run_training(longer, directory, device="cpu", resume=True)


@pytest.mark.filterwarnings("ignore")  # of the package and those that it imports
def test_mlflow_has_one_record_of_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    train_and_resume(tmp_path / "run", "mlflow")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    record = read_records(tmp_path / "run")["mlflow"]
    points = [(m.step, m.value) for m in client.get_metric_history(record, "train/loss")]
    lines = [line for line in read_log(tmp_path / "run") if line["kind"] == "train"]
    assert points == [(line["step"], pytest.approx(line["loss"])) for line in lines]
    assert [m.step for m in client.get_metric_history(record, "val/miou")] == [4, 8]
    stored = client.get_run(record)
    assert (stored.info.status, stored.info.run_name) == ("FINISHED", "run")
    assert stored.data.params["optim.lr"] == "0.02"
    images = [item.path for item in client.list_artifacts(record, "images/0")]
    assert images == ["images/0/00000004.png", "images/0/00000008.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"run", "mlflow.db", "mlflow-artifacts"}


@pytest.mark.filterwarnings("ignore")  # of the package and those that it imports
def test_wandb_writes_the_whole_record_of_a_resumed_run_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    train_and_resume(tmp_path / "run", "wandb")
    files = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    record = read_records(tmp_path / "run")["wandb"]
    assert [path.stem for path in files] == [f"run-{record}"] * 2
    assert sorted(history(files[0])) == [1, 2, 3, 4]
    rows = history(files[1])
    assert sorted(rows) == list(range(1, 9))
    assert all("train/loss" in names for names in rows.values())
    assert {step for step, names in rows.items() if "val/miou" in names} == {4, 8}
    started = [r.run for r in wandb_records(files[1]) if r.WhichOneof("record_type") == "run"]
    assert {(one.host, one.project) for one in started} == {("hidden", "reconet")}
