"""Explanations: the numbers against slow versions, the files, and what users get wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch import Tensor

from reconet.cli import main
from reconet.errors import DataError, OutputError, RecipeError
from reconet.explain import explain_image, parse_point, ranks, side_by_side
from reconet.explain.other import LOOKS, look
from reconet.explain.page import nearly_constant
from reconet.explain.source import find, folder_name
from reconet.inference.predictor import Predictor
from reconet.inference.windows import whole_image
from reconet.models.context.reconet import Factors
from reconet.models.decompose import look_inside, reconstruction
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import Segmenter, build_model, create_model
from reconet.models.trained import TrainedNetwork, load_trained, save_trained
from reconet.recipes import find_recipe as find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.system.run_files import BEST
from tests.pages import Page

CLASSES = tuple(f"class {number}" for number in range(3))
EVIL = '<script>alert("1")</script>'


def small(context: str, **options: Any) -> Segmenter:
    """A network in use whose attention is not at its start, where many are switched off."""
    model = create_model(
        context, backbone="resnet18", width=0.125, crop=(64, 96), num_classes=3, **options
    )
    with torch.no_grad():
        for name, value in model.context.named_parameters():
            if name.endswith("gamma") or "out" in name or "restore" in name or "query" in name:
                value.normal_(std=0.5)
    return model.eval()


def make_run(directory: Path, *settings: str, name: str = "class") -> Path:
    recipe: Recipe = apply_overrides(find_recipe("scenes/tiny"), settings)
    from reconet.data import open_dataset

    info = open_dataset("scenes", "val", None, recipe.data.options).info
    model = build_model(recipe, len(info.classes), pretrained=False)
    classes = info.classes if name == "class" else tuple(name for _ in info.classes)
    save_trained(
        directory / BEST,
        TrainedNetwork(
            model=model,
            info=NetworkInfo(
                recipe=recipe, classes=classes, palette=info.palette, step=7, score={}
            ),
        ),
    )
    return directory


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return make_run(tmp_path_factory.mktemp("run"))


def outer(factors: Factors, rank: int) -> Tensor:
    weight_r, c, h, w = factors
    return weight_r[rank] * torch.einsum("c,h,w->chw", c[0, rank], h[0, rank], w[0, rank])


def test_the_norm_of_a_rank_is_that_of_its_tensor() -> None:
    factors = Factors(torch.rand(3), torch.rand(1, 3, 4), torch.rand(1, 3, 5), torch.rand(1, 3, 6))
    slow_r = torch.stack([outer(factors, rank).double().norm() for rank in range(3)])
    torch.testing.assert_close(ranks.norms(factors), slow_r, rtol=1e-6, atol=0)


def test_fewest_counts_the_largest_until_the_share_is_reached() -> None:
    size_n = torch.tensor([1.0, 5.0, 3.0, 1.0])
    assert [ranks.fewest(size_n, share) for share in (0.4, 0.5, 0.8, 0.81, 1.0)] == [1, 1, 2, 3, 4]
    assert ranks.fewest(torch.ones(10), 0.9) == 9  # reached exactly, whatever rounding says


def test_contributions_are_what_a_network_without_the_rank_says_otherwise() -> None:
    model = small("reconet", rank=3)
    core = reconstruction(model)
    with torch.no_grad():
        core.rank_logits_r.copy_(torch.tensor([0.0, 3.0, 1.0]))
        model.classify.weight.normal_()
    image = torch.randint(0, 256, (1, 3, 64, 80), dtype=torch.uint8)
    given = ranks.contributions(look_inside(model, image))
    with torch.no_grad():
        whole = model.coarse(image)[0]
        plain = core.forward
        factors = core.factors
        for rank in range(3):
            part = lambda x, rank=rank: plain(x) - x * outer(factors(x), rank)  # noqa: E731
            core.forward = part  # type: ignore[method-assign]
            off = model.coarse(image)[0]
            change = whole - off
            logit = (change - change.mean(0)).mean((1, 2))
            torch.testing.assert_close(given.logit_rk[rank], logit, rtol=1e-3, atol=1e-5)
            probability = (whole.softmax(0) - off.softmax(0)).mean((1, 2))
            torch.testing.assert_close(
                given.probability_rk[rank], probability, rtol=1e-3, atol=1e-5
            )
            said, other = whole.argmax(0), off.argmax(0)
            for number in range(3):
                had = said == number
                lost = (had & (other != number)).sum() / had.sum().clamp(min=1)
                torch.testing.assert_close(given.changed_rk[rank, number], lost)
    assert given.logit_rk.abs().max() > 1e-3


@pytest.mark.parametrize(
    ("text", "expected"), [("2", (3, 1)), ("4", (3, 1, 0, 2)), ("2,0", (2, 0)), ("1,", (1,))]
)
def test_ranks_are_chosen_by_number_or_by_name(text: str, expected: tuple[int, ...]) -> None:
    assert ranks.chosen(torch.tensor([0.2, 0.3, 0.1, 0.4]), text) == expected


@pytest.mark.parametrize("text", ["0", "5", "x", "1,9", "", "-1", "1,x", "1,1,2"])
def test_ranks_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"rank"):
        ranks.chosen(torch.ones(4) / 4, text)


def test_likeness_is_one_for_the_same_pattern_and_zero_for_a_constant() -> None:
    map_hw = torch.rand(5, 7)
    assert ranks.likeness(map_hw, 3 * map_hw + 1) == pytest.approx(1)
    assert ranks.likeness(map_hw, torch.ones(5, 7)) == 0


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_every_look_is_finite_and_what_it_says_of_its_sums_is_true(name: str) -> None:
    model = small(name)
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    before = model.coarse(image)
    seen = look(model, name, image, (0.9, 0.2), CLASSES)
    assert torch.equal(model.coarse(image), before)  # hooks are gone, nothing was changed
    values = [value for _, value in (*seen.maps, *seen.gates)]
    assert values
    assert all(v.isfinite().all() and v.min() >= 0 for v in values)
    if seen.from_point and name != "apcnet":
        together = name in {"asymmetric"}
        sums = (
            [sum(v.sum().item() for v in values)] if together else [v.sum().item() for v in values]
        )
        assert sums == pytest.approx([1.0] * len(sums), rel=1e-4)
    assert all(v.max() <= 1 for v in values) or name == "latentgnn"


@pytest.mark.parametrize("name", ["nonlocal", "danet", "ccnet"])
def test_what_a_point_sees_is_the_mean_of_values_by_its_weights(name: str) -> None:
    model = small(name, **({"recurrence": 1} if name == "ccnet" else {}))
    core: Any = model.context.core
    caught: list[tuple[Tensor, Tensor]] = []
    hook = core.register_forward_hook(lambda part, given, result: caught.append((given[0], result)))
    image = torch.randint(0, 256, (1, 3, 80, 64), dtype=torch.uint8)
    map_hw = look(model, name, image, (0.9, 0.2), CLASSES).maps[0][1]
    hook.remove()
    x_bchw, y_bchw = caught[0]
    row, column = int(0.2 * y_bchw.shape[2]), int(0.9 * y_bchw.shape[3])
    mean_c = (core.value(x_bchw) * map_hw).sum((2, 3))[:, :, None, None]
    added = core.out(mean_c) if name == "nonlocal" else core.gamma * mean_c
    expected_c = x_bchw[0, :, row, column] + added[0, :, 0, 0]
    torch.testing.assert_close(y_bchw[0, :, row, column], expected_c, rtol=1e-4, atol=1e-5)
    assert added.abs().max() > 1e-3


def test_a_context_without_attention_says_which_have_one() -> None:
    image = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(RecipeError, match="'fcn' has no attention to explain; these have: reconet"):
        look(small("fcn"), "fcn", image, (0.5, 0.5), CLASSES)


def test_the_verb_writes_figures_and_a_page_that_asks_nobody(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), "val:1", "--ranks", "3", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    directory = Path(values["directory"])
    assert directory.parent == run / "explain"
    names = {"figure.png", "fragments.png", "spectrum.png", "contributions.png", "explain.html"}
    assert {path.name for path in directory.iterdir()} == names
    for name in names - {"explain.html"}:
        with Pillow.open(directory / name) as figure:
            assert figure.width > 300
    page = Page((directory / "explain.html").read_text())
    assert sum(kind == "img" for kind, _ in page.tags) == 4
    asked = [v for _, given in page.tags for k, v in given.items() if k in {"src", "href"}]
    assert asked
    assert all(source is not None and source.startswith("data:") for source in asked)
    assert values["rank"] == 4
    assert sum(values["lambda"]) == pytest.approx(1)
    assert len(values["shown"]) == 3
    assert values["ranks_that_carry_percent"]["norm"]["99"] == 4


def test_a_folder_that_is_no_explanation_is_left_as_it_is(run: Path, tmp_path: Path) -> None:
    (tmp_path / "figure.png").write_text("mine")
    with pytest.raises(OutputError, match="is there and holds other things"):
        explain_image(run, "val:1", out=tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_the_verb_says_in_two_lines_what_it_found(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = explain_image(run, "val:1", out=tmp_path)
    assert main(["explain", str(run), "val:1", "--out", str(tmp_path)]) == 0
    said, alive, path = capsys.readouterr().out.splitlines()
    assert f"{100 * result.values['right']:.1f} % of the labelled pixels are right" in said
    spread = result.values["liveness"]["attention_spread"]
    assert alive.startswith(f"attention varies by {100 * spread:.1f} % ")
    assert path == str(tmp_path / "explain.html")


@pytest.mark.parametrize(
    ("count", "band"), [(1, 1), (4, 4), (5, 5), (6, 3), (7, 4), (8, 4), (9, 3), (10, 5)]
)
def test_bands_of_ranks_leave_few_gaps(count: int, band: int) -> None:
    assert side_by_side(count) == band


def test_the_snippet_of_the_page_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    Pillow.fromarray(np.full((40, 50, 3), 90, np.uint8)).save("street.jpg")
    names: dict[str, Any] = {}
    exec(code.replace("7", "2").replace("runs/first", str(run)), names)  # it has four ranks
    assert names["inside"].rank == 4


def test_what_cannot_be_looked_into_is_explained(run: Path) -> None:
    segment = Predictor.from_run(run, device="cpu", precision="fp32")
    image = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(RecipeError, match=r"got Predictor; its network\.model is one"):
        look_inside(segment, image)  # type: ignore[arg-type]
    model = segment.network.model
    assert model is not None
    for wrong in (np.zeros((64, 64, 3), np.uint8), image[0], "street.jpg"):
        with pytest.raises(DataError, match=r"tensor \(1, 3, h, w\), got"):
            look_inside(model, wrong)  # type: ignore[arg-type]


def test_a_nearly_constant_attention_is_called_so_and_a_lively_one_is_not(run: Path) -> None:
    trained = load_trained(run)
    image_hwc = np.random.default_rng(0).integers(0, 256, (64, 80, 3), np.uint8)
    inside = look_inside(trained.model, whole_image(image_hwc, trained.info.recipe))
    anatomy = ranks.anatomy(inside, (0,))
    for spread, said in [(0.01, True), (0.5, False)]:
        liveness = anatomy.liveness._replace(attention_spread=spread, lambda_spread=1.0)
        notes = nearly_constant(replace(anatomy, liveness=liveness))
        assert ["nearly constant" in note for note in notes] == [True] * said


def test_names_from_elsewhere_cannot_become_markup(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", name=f"{EVIL} $x")
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
    run = make_run(tmp_path, "model.context=cbam")
    assert main(["explain", str(run), "val:0", "--out", str(tmp_path / "out"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in values["maps"]] == ["positions", "channels"]
    assert (tmp_path / "out" / "gates.png").is_file()
    for option, value in (("--ranks", "2"), ("--point", "0.5,1")):
        assert main(["explain", str(run), "val:0", option, value]) == 2
        assert f"{option}" in capsys.readouterr().err


def test_a_image_is_shown_whole_at_base_size() -> None:
    recipe = find_recipe("scenes/tiny")  # base_size 64
    image = np.random.default_rng(0).integers(0, 256, (30, 128, 3), np.uint8)
    assert whole_image(image, recipe).shape == (1, 3, 15, 64)


def test_images_of_the_dataset_are_found_by_number_and_by_name() -> None:
    recipe = find_recipe("scenes/tiny")
    from reconet.data import open_dataset

    dataset = open_dataset("scenes", "val", None, recipe.data.options)
    classes = dataset.info.classes
    by_number = find("val:3", recipe, classes, None)
    assert by_number.truth_hw is not None
    assert np.array_equal(by_number.truth_hw, dataset[3].label_hw)
    assert find(f"val:{dataset.name(3)}", recipe, classes, None).name == by_number.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["val:99"], "has images 0 to 7, got 99"),
        (["val:nothing"], "has no image 'nothing'"),
        (["vale:1"], "unknown split of scenes 'vale'"),
        (["no-such-file.jpg"], "no-such-file.jpg"),
        (["val:1", "--ranks", "9"], "from 1 to the network's rank 4, got 9"),
        (["val:1", "--ranks", "1,9"], "there is no rank 9"),
        (["val:1", "--point", "7"], "--point takes x,y"),
        (["val:1", "--point", "7,1"], "0 to 1"),
        (["val:1", "--point", "0.5,1"], "reconet has ranks (--ranks)"),
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


def test_a_name_with_slashes_becomes_one_folder() -> None:
    assert folder_name("city/a b:c.1") == "city_a_b_c.1"
    assert folder_name("../..") == "image"
