import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from reconet.cli import main
from reconet.models.backbone import ResNet
from reconet.recipes import RECIPES, find_recipe


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_show_prints_every_setting_in_the_form_that_set_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "show", "scenes/tiny", "--set", "optim.lr=0.5")
    assert code == 0
    assert "optim.lr=0.5 " in out
    settings = [line.split("  #")[0].strip() for line in out.splitlines()]
    again = run(capsys, "show", "scenes/tiny", *(f"--set={setting}" for setting in settings))
    assert again[1] == out


def test_show_writes_a_recipe_that_can_be_named_instead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    run(capsys, "show", "scenes/tiny", "--set", "model.rank=7", "--out", str(path))
    assert find_recipe(str(path)).model.rank == 7
    code, out, _ = run(capsys, "show", str(path), "--json")
    assert code == 0
    assert json.loads(out)["model"]["rank"] == 7


def test_show_check_builds_the_network_and_loads_its_weights(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    save_file(ResNet("resnet18", width=0.125).state_dict(), path)
    code, _, err = run(capsys, "show", "scenes/tiny", "--check", "--set", f"model.weights={path}")
    assert code == 0
    assert str(path) in err


def test_recipes_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recipes")
    assert code == 0
    assert len(out.splitlines()) == len(RECIPES)
    assert set(json.loads(run(capsys, "recipes", "--json")[1])) == set(RECIPES)


def test_cost_counts_a_recipe_at_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", "scenes/tiny", "--size", "64x128", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["input"] == [64, 128]
    assert result["models"]["reconet"]["total"]["macs"] > 0
    _, table, _ = run(capsys, "cost", "scenes/tiny")
    assert "of which core" in table


def test_cost_compares_contexts_on_one_backbone(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["--model", "reconet", "--model", "fcn", "--model", "plain"]
    _, out, _ = run(capsys, "cost", "scenes/tiny", *names, "--json")
    macs = {n: c["total"]["macs"] for n, c in json.loads(out)["models"].items()}
    assert macs["reconet"] > macs["fcn"] > macs["plain"]


def test_cost_paper_prints_both_countings_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", "--paper")
    assert code == 0
    for digits in ("0.0173", "0.0215", "0.1515", "190.5779", "41.9061"):
        assert digits in out
    assert "assumes one BatchNorm2d(512)" in out


def test_bench_module_reports_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--repeats=2"]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    result = json.loads(out)
    assert {"forward_speedup", "forward_backward_speedup"} <= result.keys()
    assert {"reconet", "reconet, loop", "emanet"} <= {core["name"] for core in result["cores"]}
    assert "reconet, loop" in run(capsys, *arguments)[1]


def test_bench_module_measures_what_is_chosen_and_draws_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--repeats=1"]
    image = tmp_path / "cores.png"
    more = ["--core=danet", "--core=senet", f"--plot={image}", "--json"]
    code, out, _ = run(capsys, *arguments, *more)
    assert code == 0
    names = [core["name"] for core in json.loads(out)["cores"]]
    assert names == ["reconet", "reconet, loop", "danet", "senet"]
    assert image.stat().st_size > 1000


def truncated(tmp_path: Path) -> str:
    path = tmp_path / "w.safetensors"
    save_file({"x": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:60])
    return str(path)


def other_network(tmp_path: Path) -> str:
    path = tmp_path / "w.safetensors"
    save_file(ResNet("resnet34", width=0.125).state_dict(), path)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shw"], "Did you mean 'show'"),
        (["show"], "Missing argument 'RECIPE'"),
        (["show", "voc12/reconet_101"], "Did you mean 'voc12/reconet_r101'?"),
        (["show", "lost.json"], "no recipe file lost.json"),
        (["show", "scenes/tiny", "--set", "optim.lrr=1"], "Did you mean 'optim.lr'?"),
        (["show", "scenes/tiny", "--set", "optim.lr"], "--set takes key=value"),
        (["cost", "--set", "model.rank=0"], "model.rank"),
        (["cost", "--set", "model.options.rank=0"], "reconet.rank"),
        (["cost", "--model", "recnet"], "Did you mean 'reconet'?"),
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
        (["bench", "module", "--core", "pspnet"], "pspnet has no core"),
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


@pytest.mark.parametrize("make", [truncated, other_network])
def test_a_weight_file_that_does_not_fit_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, make: object
) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    code, _, err = run(capsys, "show", "scenes/tiny", "--check", "--set", f"model.weights={path}")
    assert code == 2
    assert err.count("\n") == 1
    assert path in err


def test_an_unwritable_file_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "recipe.json"  # below a file, where no folder can be
    code, _, err = run(capsys, "show", "scenes/tiny", "--out", str(target))
    assert code == 2
    assert err.count("\n") == 1


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


def test_no_verb_at_all_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 2
    assert "Start here" in out


def test_help_and_recipes_do_not_import_torch() -> None:
    """torch takes seconds to import; help must not wait for it."""
    code = (
        "import sys; from reconet.cli import main; main(['--help']); main(['recipes']);"
        "sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_help_is_much_quicker_than_importing_torch() -> None:
    """A ratio, since absolute times mean nothing on a busy machine."""

    def seconds(*command: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        return time.perf_counter() - start

    help_seconds = min(seconds("-m", "reconet", "--help") for _ in range(3))
    torch_seconds = min(seconds("-c", "import torch") for _ in range(2))
    assert help_seconds < torch_seconds / 2


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert run(capsys, "--version")[1] == f"reconet {version('reconet')}\n"
