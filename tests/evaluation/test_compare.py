"""`reconet compare`: which of two networks is better, and whether that is more than chance."""

import json
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.evaluation import evaluate
from tests.cli.run import run as ask
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.pages import EVIL, Page

IMAGES = 40


def make_run(directory: Path, *, noise: float, steps: int = 7) -> Path:
    """Write a run. Noise on the weights of its classifier makes another network of it."""
    small = ["data.options.size=[32, 48]", f"data.options.val={IMAGES}", "data.crop=32x48"]
    trained = tiny_network(tiny_recipe(*small, "data.base_size=48"), step=steps, decided=True)
    with torch.no_grad():
        weight = trained.model.classify.weight
        weight += noise * torch.randn_like(weight)
    return write_run(directory, trained)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return (
        make_run(folder / EVIL.replace("/", ""), noise=0),
        make_run(folder / "same", noise=0),
        make_run(folder / "other", noise=1),
    )


def test_compare_tells_networks_apart_and_equal_ones_not(
    runs: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "compared.html"
    words = ["compare", *map(str, runs), "--device=cpu"]
    code, out, err = ask(capsys, *words, "--json", f"--out={page}")
    assert (code, err) == (0, f"reconet: note: the page is {page}\n")
    values = json.loads(out)
    first, same, other = values["networks"]
    assert first["figures"] == same["figures"]
    equal, different = values["differences"]
    assert "cannot be told apart" in equal["verdict"]
    assert equal["miou"] == {"value": 0, "low": 0, "high": 0}
    assert equal["images"] == []
    gap = different["miou"]
    assert gap["value"] == pytest.approx(other["figures"]["miou"] - first["figures"]["miou"])
    assert gap["low"] < gap["value"] < gap["high"]
    better = runs[2] if gap["low"] > 0 else runs[0] if gap["high"] < 0 else "cannot be told apart"
    assert str(better) in different["verdict"]
    for name, one in different["iou"].items():
        assert one["value"] == pytest.approx(other["iou"][name] - first["iou"][name])
    gaps = [abs(one["after"] - one["before"]) for one in different["images"]]
    assert len(gaps) == 10
    assert gaps == sorted(gaps, reverse=True)
    assert "<script" not in page.read_text()
    assert EVIL.replace("/", "") in Page(page.read_text()).text
    code, out, err = ask(capsys, *words)
    assert code == 0
    assert err.count("uses the counts in") == 3, "they were kept by the first comparison"
    assert "Images that differ most" in out
    assert f"{different['verdict']}." in out


def test_what_cannot_be_compared_is_one_line(
    runs: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = tiny_network(tiny_recipe(), classes=("a", "b"))
    fewer = write_run(tmp_path / "fewer", two)
    (tmp_path / "mine.html").write_text("mine")
    mistakes: list[tuple[list[Path | str], str]] = [
        ([runs[0]], "compare takes two networks or more"),
        ([runs[0], fewer], f"{fewer} knows 2 classes and scenes has"),
        ([*runs, f"--out={tmp_path / 'mine.html'}"], "exists and is another kind of file"),
    ]
    for words, message in mistakes:
        code, out, err = ask(capsys, "compare", *map(str, words), "--device=cpu")
        assert (code, out) == (2, "")
        assert message in err.splitlines()[-1]


def test_a_network_is_scored_on_the_images_of_the_first(
    runs: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tiny_recipe("data.options.val=3", "data.crop=32x48", "data.workers=0")
    elsewhere = write_run(tmp_path / "run", tiny_network(small))
    assert main(["compare", str(runs[0]), str(elsewhere), "--device=cpu", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [one["images"] for one in values["networks"]] == [IMAGES, IMAGES]
    alone = evaluate(elsewhere, device="cpu")
    assert alone is not None
    assert alone.images == 3
