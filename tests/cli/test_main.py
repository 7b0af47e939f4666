"""The entry point: errors in one line, closed pipes, and quick help."""

import os
import subprocess
import sys
import time
import tomllib
from inspect import signature
from pathlib import Path

import pytest

from reconet.__main__ import main as entry_point
from reconet.cli.main import GROUPS, OLD_OPTIONS, VERBS
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
    ("verb", "option"),
    [
        ("prune runs/a --rank 4", "--pictures"),
        ("export runs/a", "--pictures"),
        ("report runs/a", "--pictures"),
        ("cost", "--model"),
        ("bench module", "--core"),
        ("bench module", "--repeats"),
    ],
)
def test_an_option_that_was_renamed_names_the_new_one(
    capsys: pytest.CaptureFixture[str], verb: str, option: str
) -> None:
    new = OLD_OPTIONS[option].removeprefix("called ")
    for arguments in ([option, "3"], [f"{option}=3"]):
        code, _, err = run(capsys, *verb.split(), *arguments)
        assert code == 2
        assert err == f"reconet: {option} is now called {new}.\n"
    assert new in run(capsys, *verb.split(), "--help")[1]


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(("target", "code"), [("| head -1", 0), ("> /dev/full", 2)])
def test_a_closed_pipe_is_no_error_and_a_full_disk_is_one_line(
    buffered: bool, target: str, code: int
) -> None:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if not buffered:
        env["PYTHONUNBUFFERED"] = "1"
    command = f"{sys.executable} -m reconet show scenes/tiny {target}; exit ${{PIPESTATUS[0]}}"
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
        "import sys; from reconet.cli.main import GROUPS, VERBS, main; main(['--help']);"
        "[main([verb, '--help']) for verb in VERBS];"
        "[main([group, verb, '--help']) for group in GROUPS for verb in GROUPS[group][1]];"
        "main(['recipes']);"
        "sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_help_is_much_quicker_than_importing_torch() -> None:
    """Compare times, since absolute times mean nothing on a busy machine."""

    def seconds(*command: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        return time.perf_counter() - start

    help_seconds = min(seconds("-m", "reconet", "--help") for _ in range(3))
    torch_seconds = min(seconds("-c", "import torch") for _ in range(2))
    assert help_seconds < torch_seconds / 2


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(capsys, "--version")[1] == f"reconet {project['version']}\n"
