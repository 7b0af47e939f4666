"""`reconet cache …` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest

from reconet.cache import Part, Store
from reconet.cache.cache import FEATURES
from reconet.system.user_cache import ROOT_VARIABLE
from tests.cli.run import run


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "cache"))
    parts = {"c4": Part(dtype="float16", shape=(2, 3, 5))}
    for number, dataset in enumerate(("voc12", "folder")):
        store = Store(tmp_path / "cache" / FEATURES / ("ab" * 10) / (f"{number}" * 20), 3, parts)
        about = {"kind": "views", "dataset": dataset, "split": "train", "root": "/data/mine"}
        store.create({**about, "views": 4, "crop": [304, 300], "backbone": "resnet50"})
        store.write(0, {"c4": np.ones((2, 3, 5), np.float16)})
    return tmp_path / "cache"


def test_list_shows_what_each_store_holds(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cache", "list")
    assert code == 0
    assert str(root) in out
    assert "voc12 train, 4 views of 304 x 300" in out
    assert "folder train in /data/mine" in out
    assert "1 of 3" in out
    values = json.loads(run(capsys, "cache", "list", "--json")[1])
    assert values["folder"] == str(root)
    assert values["bytes"] == sum(item["bytes"] for item in values["items"])
    assert {item["name"] for item in values["items"]} == {"abababab-00000000", "abababab-11111111"}
    assert {item["backbone"] for item in values["items"]} == {"resnet50"}


def test_clear_says_what_it_freed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cache", "clear", "voc12")
    assert code == 0
    assert out.startswith("freed ")
    assert out.endswith(f" of 1 item in {root}\n")
    cleared = json.loads(run(capsys, "cache", "clear", "--all", "--json")[1])
    assert cleared["cleared"] == ["abababab-11111111"]
    assert cleared["freed_bytes"] > 0
    assert "It is empty." in run(capsys, "cache", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to clear"),
        (["voc21"], "Did you mean 'voc12'?"),
        (["voc12", "--all"], "leave out the names"),
        (["--older-than", "soon"], "--older-than"),
    ],
)
def test_an_unclear_wish_is_one_line_and_clears_nothing(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "cache", "clear", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert len(json.loads(run(capsys, "cache", "list", "--json")[1])["items"]) == 2
