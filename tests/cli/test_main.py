"""The entry point: errors in one line, closed pipes, and quick help."""

import os
import subprocess
import sys
import tomllib
from inspect import signature
from pathlib import Path

import pytest

from reconet.__main__ import main as entry_point
from reconet.cli import GROUPS, VERBS
from tests.cli.run import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shw"], "Did you mean 'show'"),
        (["show"], "Missing argument 'RECIPE'"),
        (["show", "voc12/reconet_101"], "Did you mean 'voc12/reconet_r101'?"),
        (["show", "lost.json"], "no recipe file lost.json"),
        (["show", "scenes/tiny", "--set", "optim.lrr=1"], "Did you mean 'optim.lr'?"),
        (["show", "scenes/tiny", "--set", "optim.lr"], "a setting is key=value"),
        (["cost", "--set", "model.rank=0"], "model.rank"),
        (["cost", "--set", "model.options.rank=0"], "reconet.rank"),
        (["cost", "--context", "fcn", "--set", "model.options.rank=8"], "option of context 'fcn'"),
        (["predict", "photo.jpg", "voc12"], "network comes first: reconet predict voc12 photo.jpg"),
        (["predict", "tests", "voc12"], "network comes first: reconet predict voc12 tests"),
        (["cost", "--context", "recnet"], "Did you mean 'reconet'?"),
        (["cost", "--set", "model.backbone=resnet5"], "Did you mean 'resnet50'?"),
        (["cost", "--size", "12xx"], "--size takes"),
        (["cost", "--classes", "0"], "--classes"),
        (["cost", "--size", "8"], "at least 33 x 33"),
        (["cost", "--paper", "--size", "64"], "--paper prints fixed tables"),
        (["cost", "voc12/reconet_r50", "--paper"], "--paper prints fixed tables"),
        (["study", "rank", "--variants", " , ", "--list"], "--variants takes names"),
        (["export", "runs/a", "--images", "8"], "only with --int8: --images."),
        (["export", "runs/a", "--max-loss", "0"], "only with --int8: --max-loss."),
        (["cost", "--set", "model.options.num_classes=3"], "unknown option of context"),
        (["cost", "--nonsense"], "--nonsense"),
        (["bench", "module", "--rank", "0"], "--rank"),
        (["bench", "module", "--context", "pspnet"], "pspnet has no core"),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("reconet: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("prune runs/a --rank 4 --pictures 3", "--pictures is now called --images."),
        ("export runs/a --pictures=3", "--pictures is now called --images."),
        ("report runs/a --pictures 3", "--pictures is now called --images."),
        ("cost --model fcn", "--model is now called --context."),
        ("bench module --core fcn", "--core is now called --context."),
        ("bench module --repeats=3", "--repeats is now called --rounds."),
        ("bench train --frozen", "`python -m benchmarks.frozen`"),
        ("bench evaluate --classes 21", "`python -m benchmarks.evaluate`"),
        ("bench all --runs 1", "`make bench`"),
    ],
)
def test_what_was_renamed_or_moved_names_the_new_one(
    capsys: pytest.CaptureFixture[str], words: str, now: str
) -> None:
    code, _, err = run(capsys, *words.split())
    assert (code, err.count("\n")) == (2, 1)
    assert now in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *((f"cost --size {size}", "--size takes") for size in ("x", "0", "64x", "1x2x3", "64.5")),
        *(
            (f"predict a b --scales={s}", "--scales takes")
            for s in ("", "a", "0", "nan", "inf", "1,")
        ),
        ("predict a b --mode=slid", "Did you mean 'slide'?"),
        ("predict a b --relative-to=side", "Choose from: base_size, original, short_side"),
        *((f"predict a b --memory={m}", "--memory takes") for m in ("many", "-3", "3TB")),
        ("predict a b --memory=1MB", "--memory must be at least 64MiB, got '1MB'"),
        ("serve a --max-upload=0", "--max-upload must be at least 1, got '0'"),
        ("evaluate a --set optim.lr=1", "--set takes settings of data and eval here"),
    ],
)
def test_a_value_that_cannot_be_read_says_what_is_taken(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    code, _, err = run(capsys, *words.split())
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


@pytest.mark.parametrize(
    ("buffered", "target", "code"),
    [(True, "| head -1", 0), (False, "| head -1", 0), (True, "> /dev/full", 2)],
)
def test_a_closed_pipe_is_no_error_and_a_full_disk_is_one_line(
    buffered: bool, target: str, code: int
) -> None:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if not buffered:
        env["PYTHONUNBUFFERED"] = "1"
    command = f"{sys.executable} -m reconet recipes {target}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (1 if code else 0)


def test_ctrl_c_during_imports_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupt:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "reconet.cli":
                raise KeyboardInterrupt

    for name in [one for one in sys.modules if one.split(".")[:2] == ["reconet", "cli"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    assert entry_point() == 130
    assert capsys.readouterr().err == "reconet: interrupted\n"


def test_every_verb_that_may_meet_parts_of_a_user_imports_them() -> None:
    groups = {name: verbs for name, (_, verbs) in GROUPS.items() if name != "cache"}
    verbs = VERBS | {f"{group} {n}": v for group, some in groups.items() for n, v in some.items()}
    without = [name for name, verb in verbs.items() if "imports" not in signature(verb).parameters]
    assert without == ["recipes", "zoo"]


def test_no_verb_at_all_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 2
    assert "Start here" in out
    assert out == run(capsys, "--help")[1]


def test_no_help_imports_torch_and_neither_does_the_list_of_recipes() -> None:
    code = (
        "import sys; from reconet.cli import GROUPS, VERBS, main; main(['--help']);"
        "[main([verb, '--help']) for verb in VERBS];"
        "[main([group, verb, '--help']) for group in GROUPS for verb in GROUPS[group][1]];"
        "main(['recipes']);"
        "sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(capsys, "--version")[1] == f"reconet {project['version']}\n"
