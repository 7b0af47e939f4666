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
from reconet.explain import explain_image, parse_point
from reconet.explain.compute import gathered_part
from reconet.inference.windows import whole_image
from reconet.models.context.low_rank import outer_planes
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.decompose import low_rank_core
from tests.factories import paper_core, tiny_network, tiny_recipe, write_run
from tests.pages import Page

EVIL = '<script>alert("1")</script>'


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
    assert values["ranks_that_carry_percent"]["norm"]["99"] == 4


def test_reconet_plus_shows_where_each_rank_looked_what_it_said_and_where_it_put_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tiny_network(tiny_recipe("model.context=reconet_plus"))
    core = low_rank_core(trained.model)
    assert isinstance(core, FragmentReconstruction)
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


def test_the_part_that_a_mask_covers_is_that_of_a_flat_one() -> None:
    row_brh = torch.tensor([[[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]])
    column_brw = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    part_r = gathered_part(outer_planes(row_brh, column_brw))
    torch.testing.assert_close(part_r, torch.tensor([0.25, 1.0]).double())


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


def test_the_verb_says_in_two_lines_what_it_found(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = explain_image(run, "val:1", out=tmp_path)
    assert main(["explain", str(run), "val:1", "--out", str(tmp_path)]) == 0
    predicted, alive, path = capsys.readouterr().out.splitlines()
    assert f"{100 * result.values['right']:.1f} % of the labelled pixels are right" in predicted
    spread = result.values["liveness"]["attention_spread"]
    assert alive.startswith(f"attention varies by {100 * spread:.1f} % ")
    assert path == str(tmp_path / "explain.html")


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


def test_a_nearly_constant_attention_is_called_so(tmp_path: Path) -> None:
    for constant in (True, False):
        trained = tiny_network()
        core = paper_core(trained.model)
        with torch.no_grad():
            for generator in (core.channel, core.row, core.column):
                generator.linear.weight.mul_(0 if constant else 30)
        run = write_run(tmp_path / str(constant), trained)
        text = (explain_image(run, "val:1").directory / "explain.html").read_text()
        assert ("nearly the same everywhere" in text) is constant


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


def test_names_from_elsewhere_cannot_become_markup(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network(classes=(f"{EVIL} $x",) * 14))
    file = tmp_path / "<b>image.png"
    Pillow.fromarray(np.full((40, 50, 3), 90, np.uint8)).save(file)
    result = explain_image(run, str(file), out=tmp_path / "out")
    text = (result.directory / "explain.html").read_text()
    assert "<script>" not in text
    assert "<b>image" not in text
    assert "&lt;script&gt;" in text


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


def test_an_image_is_shown_whole_at_base_size() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 128, 3), np.uint8)
    assert whole_image(image, base_size=64).shape == (1, 3, 15, 64)


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


def test_points_are_parts_of_width_and_height() -> None:
    assert parse_point("0.25,1") == (0.25, 1.0)
