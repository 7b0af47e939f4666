"""Explanations: the files that are written, and what users get wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from reconet.cli import main
from reconet.errors import OutputError
from reconet.explain import explain_image
from tests.factories import tiny_network, tiny_recipe, write_run
from tests.pages import Page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), tiny_network())


def test_the_verb_writes_figures_and_a_page_that_asks_nobody(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), "val:1", "--ranks", "3", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    directory = Path(values["directory"])
    assert directory.parent == run / "explain"
    names = {"figure.png", "fragments.png", "contributions.png", "explain.html"}
    assert {path.name for path in directory.iterdir()} == names
    for name in names - {"explain.html"}:
        with Pillow.open(directory / name) as figure:
            assert figure.width > 300
    page = Page((directory / "explain.html").read_text())
    assert sum(kind == "img" for kind, _ in page.tags) == 3
    asked = [v for _, given in page.tags for k, v in given.items() if k in {"src", "href"}]
    assert asked
    assert all(source is not None and source.startswith("data:") for source in asked)
    assert values["rank"] == 4
    assert sum(values["lambda"]) == pytest.approx(1)
    assert len(values["shown"]) == 3


def test_reconet_plus_shows_where_each_rank_looked_what_it_said_and_where_it_put_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tiny_network(tiny_recipe("model.context=reconet_plus"))
    core: Any = trained.model.context.core
    with torch.no_grad():
        core.masks.get_parameter("conv.weight").normal_(std=30)
        core.bias_rc[3] = -1e6  # this rank says nothing
        core.weight_r[1] *= -3  # the strongest, and negative
    run = write_run(tmp_path / "run", trained)
    assert main(["explain", str(run), "val:1", "--ranks", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["shown"][0]["rank"] == 1
    assert values["norm"][3] == 0
    for one in values["shown"]:
        assert 0 < one["looks_at"] < 1
        assert len(one["strongest_channels"]) == 3
    assert values["shown"][0]["heat_range"][1] <= 0
    assert values["liveness"]["effective_rank"] >= 1
    text = (Path(values["directory"]) / "explain.html").read_text()
    for words in ("rank 1", "of the image", "against"):
        assert words in text


def test_a_folder_that_is_no_explanation_is_left_as_it_is(run: Path, tmp_path: Path) -> None:
    (tmp_path / "figure.png").write_text("mine")
    with pytest.raises(OutputError, match="exists and holds other files"):
        explain_image(run, "val:1", out=tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_network_of_few_ranks_shows_all_of_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network(tiny_recipe("model.rank=2")))
    assert len(explain_image(run, "val:1").values["shown"]) == 2


@pytest.mark.parametrize("name", ["explain", "explain/val-000001"])
def test_a_link_out_of_the_run_is_not_followed(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    own = write_run(tmp_path / "run", tiny_network())
    (own / name).parent.mkdir(exist_ok=True)
    (own / name).symlink_to(outside)
    with pytest.raises(OutputError, match=r"leads out of its folder\. Name another place by --out"):
        explain_image(own, "val:1")
    assert not list(outside.iterdir())


def test_the_snippet_of_the_page_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    Pillow.fromarray(np.full((40, 50, 3), 90, np.uint8)).save("street.jpg")
    names: dict[str, Any] = {}
    exec(code.replace("7", "2").replace("runs/first", str(run)), names)  # it has four ranks
    assert names["parts"].rank == 4


def test_titles_do_not_overlap_on_a_narrow_image(run: Path, tmp_path: Path) -> None:
    Pillow.fromarray(np.full((80, 20, 3), 90, np.uint8)).save(tmp_path / "narrow.png")
    explain_image(run, str(tmp_path / "narrow.png"), ranks="2", out=tmp_path / "out")
    with Pillow.open(tmp_path / "out" / "figure.png") as figure:
        assert figure.width >= 4 * 2 * 130, "two inches for each of four titles"


def test_an_image_of_the_dataset_is_found_by_name_and_slashes_make_no_folders(
    run: Path, tmp_path: Path
) -> None:
    by_name = explain_image(run, "val:val-000003", out=tmp_path / "a").values
    assert by_name == explain_image(run, "val:3", out=tmp_path / "b").values
    (tmp_path / "a b:c.1.png").write_bytes((tmp_path / "a" / "figure.png").read_bytes())
    result = explain_image(run, str(tmp_path / "a b:c.1.png"))
    assert result.directory == run / "explain" / "a_b_c.1"


def test_another_context_shows_the_attention_that_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, tiny_network(tiny_recipe("model.context=cbam")))
    assert main(["explain", str(run), "val:0", "--out", str(tmp_path / "out"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in values["maps"]] == ["positions", "channels"]
    assert (tmp_path / "out" / "gates.png").is_file()
    for option, value in (("--ranks", "2"), ("--point", "0.5,1")):
        assert main(["explain", str(run), "val:0", option, value]) == 2
        assert f"{option}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["val:99"], "has no image '99': they are 0 to 7"),
        (["val:nothing"], "has no image 'nothing'"),
        (["vale:1"], "unknown split of scenes 'vale'"),
        (["no-such-file.jpg"], "no-such-file.jpg"),
        (["val:1", "--ranks", "9"], "from 1 to the network's rank 4, got 9"),
        (["val:1", "--ranks", "1,9"], "there is no rank 9"),
        (["val:1", "--point", "7"], "--point takes x,y"),
        (["val:1", "--point", "7,1"], "0 to 1"),
        (["val:1", "--point", "0.5,1"], "has ranks (--ranks)"),
        (["val:1", "--out", __file__], "--out names a folder; "),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
