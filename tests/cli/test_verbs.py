"""Verbs as a user types them: recipes, show, train, cost, bench, zoo, convert, cache."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from safetensors.torch import save_file

from reconet import BACKBONES, find_recipe
from reconet.cli import main
from reconet.inference import network as by_name
from reconet.models import save_compact
from reconet.recipes import RECIPES
from tests.cli.run import run
from tests.factories import smooth_image, tiny_network, tiny_recipe, write_run
from tests.launch import TINY_NETWORK
from tests.zoo.test_convert import CLASSES, mmseg_net, save

Captured = pytest.CaptureFixture[str]


def values(capsys: Captured, *words: str) -> dict[str, object]:
    """Run a verb that must succeed with --json."""
    code, out, err = run(capsys, *words, "--json")
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


def test_recipes_are_listed_with_what_they_are(capsys: Captured) -> None:
    assert len(run(capsys, "recipes")[1].splitlines()) == len(RECIPES)
    assert set(values(capsys, "recipes")) == set(RECIPES)


# -- show


def test_show_prints_every_setting_in_the_form_that_set_takes(capsys: Captured) -> None:
    code, out, _ = run(capsys, "show", "scenes/tiny", "--set", "optim.lr=0.5")
    assert code == 0
    assert "optim.lr=0.5 " in out
    settings = [line.split("  #")[0].strip() for line in out.splitlines()]
    again = run(capsys, "show", "scenes/tiny", *(f"--set={setting}" for setting in settings))
    assert again[1] == out


def test_show_writes_a_recipe_that_can_be_named_instead(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    run(capsys, "show", "scenes/tiny", "--set", "model.rank=7", "--out", str(path))
    assert find_recipe(str(path)).model.rank == 7
    assert json.loads(run(capsys, "show", str(path), "--json")[1])["model"]["rank"] == 7
    below = str(path / "recipe.json")  # below a file, where no folder can be
    code, _, err = run(capsys, "show", "scenes/tiny", "--out", below)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("name", "cut", "code"), [("18", 0, 0), ("34", 0, 2), ("18", 60, 2)])
def test_show_check_builds_the_network_and_loads_its_weights(
    name: str, cut: int, code: int, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    settings = tiny_recipe(f"model.backbone=resnet{name}").model
    save_file(BACKBONES[settings.backbone](settings).state_dict(), path)
    if cut:
        path.write_bytes(path.read_bytes()[:cut])
    words = ("show", "scenes/tiny", "--check", "--set", f"model.weights={path}")
    got, _, err = run(capsys, *words)
    assert (got, err.count("\n")) == (code, 1)
    assert str(path) in err


CLASSES_SET = '--set=data.options.classes=["road","roof"]'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenes/tiny", "--set=model.backbone=resnet19"], "Did you mean 'resnet18'?"),
        (["scenes/tiny", "--set=model.options.ranks=3"], "unknown option of context 'reconet':"),
        (["scenes/tiny", "--set=data.name=voc"], "unknown dataset 'voc'"),
        (["scenes/tiny", "--set=data.val_split=vall"], "unknown split of scenes 'vall'"),
        (["scenes/tiny", "--set=data.views=2"], "set model.frozen=true"),
        (["scenes/tiny", "--set=train.steps=5", "--set=train.epochs=5"], "exclude each other"),
        (["folder/reconet", "--set=data.options.classes=[road,roof]"], "Texts need double quotes"),
        (["folder/reconet", CLASSES_SET, "--set=loss.class_weights=[1]"], "1 values for 2 classes"),
    ],
)
@pytest.mark.parametrize("verb", ["show", "train"])
def test_show_and_train_refuse_the_same_recipes_before_anything_is_opened(
    capsys: Captured, tmp_path: Path, verb: str, arguments: list[str], message: str
) -> None:
    out = [f"--out={tmp_path / 'run'}"] if verb == "train" else []
    code, _, err = run(capsys, verb, *arguments, *out)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_still_lacks_its_classes_is_shown_with_a_note(capsys: Captured) -> None:
    code, out, err = run(capsys, "show", "folder/reconet")
    assert code == 0
    assert "data.name=folder" in out
    assert "note: not yet complete: data.options.classes: field required" in err


# -- train


def test_resuming_what_is_not_there_says_so(capsys: Captured, tmp_path: Path) -> None:
    for source, reason in (
        (str(tmp_path / "nope"), "nope does not exist."),
        (str(tmp_path), "has no recipe.json."),
        ("scenes/tiny", "--resume needs a run directory: name it as RECIPE or by --out."),
    ):
        code, _, err = run(capsys, "train", source, "--resume")
        assert (code, err.count("\n")) == (2, 1)
        assert err.endswith(f"{reason}\n")


def test_classes_of_a_file_and_splits_with_names_of_their_own_are_trained(
    tmp_path: Path, capsys: Captured
) -> None:
    for folder, shade in (("images", 90), ("masks", 1)):
        (tmp_path / "data" / folder).mkdir(parents=True)
        for number in range(6):
            array = np.full((64, 80) if folder == "masks" else (64, 80, 3), shade, np.uint8)
            Image.fromarray(array).save(tmp_path / "data" / folder / f"{number}.png")
    (tmp_path / "data" / "classes.txt").write_text("ground\nroof\n")
    for split, numbers in (("learning", range(4)), ("scoring", range(4, 6))):
        (tmp_path / "data" / f"{split}.txt").write_text("".join(f"{n}\n" for n in numbers))
    given = [
        f"--set=data.root={tmp_path / 'data'}",
        '--set=data.options.splits={"learning": "learning.txt", "scoring": "scoring.txt"}',
        "--set=data.train_split=learning",
        "--set=data.val_split=scoring",
        "--set=data.options.title=Roofs",
    ]
    out = f"--out={tmp_path / 'run'}"
    code, _, err = run(capsys, "train", "folder/reconet", *TINY_NETWORK, *given, out)
    assert code == 0, err
    assert "data: Roofs, 4 images to train, 2 to validate, 2 classes" in err


def test_short_flags_are_settings_and_a_training_says_what_is_next(
    tmp_path: Path, capsys: Captured
) -> None:
    directory = tmp_path / "a run"
    sizes = ("--set=data.options.train=8", "--set=data.options.val=2", "--device=cpu")
    flags = ("--epochs=1", "--batch=4", "--lr", "0.5")
    code, out, err = run(capsys, "train", "scenes/tiny", *sizes, *flags, f"--out={directory}")
    assert code == 0, err
    recipe = find_recipe(str(directory))
    assert (recipe.train.epochs, recipe.train.steps, recipe.train.batch) == (1, None, 4)
    assert recipe.optim.lr == 0.5
    assert f"reconet predict '{directory}' photo.jpg" in out
    code, _, err = run(capsys, "train", "scenes/tiny", "--lr=0")
    assert (code, "optim.lr" in err) == (2, True)


# -- cost and bench


def test_cost_takes_a_network_and_options_of_the_context_that_is_counted(
    capsys: Captured, tmp_path: Path
) -> None:
    save_compact(tmp_path / "mine.safetensors", tiny_network())
    mine = values(capsys, "cost", str(tmp_path / "mine.safetensors"))
    assert mine["classes"] == len(tiny_network().info.classes)
    words = ("cost", "scenes/tiny", "--context", "danet", "--set")
    few = values(capsys, *words, "model.options.dropout=0.5")
    assert list(few["models"]) == ["danet"]  # type: ignore[call-overload]


def test_cost_counts_a_recipe_at_any_size_and_compares_contexts(capsys: Captured) -> None:
    one = values(capsys, "cost", "scenes/tiny", "--size", "64x128")
    assert one["input"] == [64, 128]
    assert "of which core" in run(capsys, "cost", "scenes/tiny")[1]
    names = ["--context", "reconet", "--context", "fcn", "--context", "plain"]
    many = json.loads(run(capsys, "cost", "scenes/tiny", *names, "--json")[1])["models"]
    macs = [many[name]["total"]["macs"] for name in ("reconet", "fcn", "plain")]
    assert macs == sorted(macs, reverse=True)


def test_cost_paper_prints_both_countings_side_by_side(capsys: Captured) -> None:
    code, out, _ = run(capsys, "cost", "--paper")
    assert code == 0
    for digits in ("0.0173", "0.0215", "0.1515", "190.5779", "41.9061"):
        assert digits in out


def test_bench_module_measures_what_is_chosen_and_draws_it(
    capsys: Captured, tmp_path: Path
) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--rounds=1"]
    image = tmp_path / "cores.png"
    more = ["--context=danet", "--context=senet", f"--plot={image}"]
    result = json.loads(run(capsys, *arguments, *more, "--json")[1])
    names = [core["name"] for core in result["cores"]]
    assert names == ["reconet", "reconet, loop", "danet", "senet"]
    assert {"forward_speedup", "forward_backward_speedup"} <= result.keys()
    with Image.open(image) as drawn:
        assert drawn.size == (1200, 750)
    assert "reconet, loop" in run(capsys, *arguments, "--context=senet")[1]


def test_bench_module_judges_no_core_that_it_did_not_measure(capsys: Captured) -> None:
    arguments = ["bench", "module", "--rank=2", "--channels=8", "--size=6x5", "--rounds=1"]
    code, out, err = run(capsys, *arguments, "--context", "reconet")
    assert code == 0, err
    assert "faster or smaller" not in out


def test_bench_train_shows_the_losses_of_every_way(capsys: Captured) -> None:
    arguments = ["bench", "train", "--backbone=resnet18", "--size=64", "--device=cpu"]
    code, out, err = run(capsys, *arguments, "--steps=1", "--json")
    assert code == 0, err
    fp32, *others = json.loads(out)["modes"]
    assert (fp32["name"], fp32["over_fp32"]) == ("fp32", 1.0)
    for other in others:
        for one, loss in zip(fp32["losses"], other["losses"], strict=True):
            assert abs(one - loss) < 0.1 * one


# -- zoo and convert


def test_the_zoo_lists_its_own_networks_and_then_public_ones_by_words(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    save_compact(tmp_path / "mine.safetensors", tiny_network())
    (tmp_path / "mine.md").write_text('---\nlicense: "cc0-1.0"\n---\n')
    monkeypatch.setattr(by_name, "PRETRAINED", tmp_path)
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path))
    name = "danet_r50-d8_512x512_80k_ade20k"
    (tmp_path / "zoo" / name).mkdir(parents=True)
    (tmp_path / "zoo" / name / "best.safetensors").write_bytes(b"")
    first, second = json.loads(run(capsys, "zoo", "--json")[1])["networks"][:2]
    assert (first["name"], first["source"], first["licence"]) == ("mine", "reconet", "cc0-1.0")
    assert second["source"] == "torchvision"
    code, out, _ = run(capsys, "zoo", "danet", "ade20k")
    assert code == 0
    lines = [line for line in out.splitlines() if line.lstrip().startswith("danet_")]
    assert len(lines) == 4
    assert lines[0].split() == [
        *(name, "danet", "resnet50", "ade20k", "41.66", "200", "MB", "Apache-2.0", "yes")
    ]
    rows = json.loads(run(capsys, "zoo", "danet", "ade20k", "--json")[1])["networks"]
    assert [row["cached"] for row in rows] == [True, False, False, False]


def test_a_converted_network_predicts(capsys: Captured, tmp_path: Path) -> None:
    file, out = save(tmp_path / "a.pth", mmseg_net("ccnet")), tmp_path / "net"
    words = ["convert", str(file), "--from=mmseg", f"--out={out}", f"--classes={','.join(CLASSES)}"]
    code, text, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert text.splitlines()[0] == "ccnet on resnet50, 5 classes (leaky=False)"
    assert values(capsys, *words)["classes"] == list(CLASSES)  # again, over its own files
    Image.fromarray(smooth_image(1, 40, 60)).save(tmp_path / "street.png")
    labels = ["--out", str(tmp_path / "labels"), "--device", "cpu", "--precision", "fp32"]
    code, _, err = run(capsys, "predict", str(out), str(tmp_path / "street.png"), *labels)
    assert code == 0, err
    with Image.open(next((tmp_path / "labels").rglob("street*.png"))) as mask:
        assert mask.size == (60, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "mmseg"], "does not name them. Use --dataset or --classes"),
        (["--from", "mmsegm"], "unknown toolkit 'mmsegm'. Did you mean 'mmseg'?"),
        (["--from", "mmseg", "--classes", "a,a"], "--classes takes different names"),
        (["--from", "mmseg", "--classes", "a", "--dataset", "voc12"], "give one of them"),
        (["--from", "mmseg", "--dataset", "voc12"], "it has 5 classes, and voc12 has 21"),
        (["--from", "torchvision", "--dataset", "voc12"], "use --from mmseg"),
    ],
)
def test_a_conversion_that_cannot_be_is_one_line(
    arguments: list[str], message: str, capsys: Captured, tmp_path: Path
) -> None:
    file = save(tmp_path / "a.pth", mmseg_net("fcn"))
    out = tmp_path / "net"
    code, _, err = run(capsys, "convert", str(file), "--out", str(out), *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not out.exists()
    write_run(out, tiny_network())  # files of others are not overwritten
    assert run(capsys, "convert", str(file), "--out", str(out), *arguments)[0] == 2


# -- cache

FROZEN = (
    *("model.frozen=true", "model.project=8", "model.aux=false", "loss.stride=4", "data.views=2"),
    *("data.crop=64", "data.options.train=4", "data.options.val=2", "train.steps=2"),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once on cached features."""
    place = tmp_path_factory.mktemp("cached")
    words = ["train", "scenes/tiny", f"--out={place / 'run'}", *TINY_NETWORK[:2], "--device=cpu"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECONET_CACHE", str(place / "cache"))
        assert main([*words, *(f"--set={setting}" for setting in FROZEN)]) == 0
    return place / "cache"


@pytest.fixture
def root(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(filled, tmp_path / "cache")
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_names_to_copy_are_whole_on_a_narrow_terminal(
    root: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = Console(width=80, markup=False, highlight=False, emoji=False)
    monkeypatch.setattr("reconet.cli.output.console", lambda: narrow)
    monkeypatch.setattr("reconet.cli.zoo.console", lambda: narrow)
    listed = json.loads(run(capsys, "zoo", "--json")[1])["networks"]
    out = run(capsys, "zoo")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert {one["name"] for one in listed} <= {
        line.split()[0] for line in out.splitlines() if line.strip()
    }
    items = json.loads(run(capsys, "cache", "list", "--json")[1])["items"]
    lines = run(capsys, "cache", "list")[1].splitlines()
    assert {item["name"] for item in items} <= set(lines)
    assert f"Cache in {root}" in lines


def test_the_cache_is_listed_and_cleared(root: Path, capsys: Captured) -> None:
    out = run(capsys, "cache", "list")[1]
    for text in (str(root), "scenes train, 2 views of 64 x 64", "8 components"):
        assert text in out
    listed = json.loads(run(capsys, "cache", "list", "--json")[1])
    assert listed["bytes"] == sum(item["bytes"] for item in listed["items"])
    names = {item["name"] for item in listed["items"]}
    out = run(capsys, "cache", "clear", next(iter(names)))[1]
    assert out.startswith("freed ")
    assert out.endswith(f" of 1 item in {root}\n")
    assert values(capsys, "cache", "clear", "--all")["cleared"]
    assert "It is empty." in run(capsys, "cache", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to clear"),
        (["scens"], "Did you mean 'scenes'?"),
        (["scenes", "--all"], "leave out the names"),
        (["--older-than", "soon"], "--older-than"),
    ],
)
def test_an_unclear_wish_is_one_line_and_clears_nothing(
    root: Path, arguments: list[str], message: str, capsys: Captured
) -> None:
    before = values(capsys, "cache", "list")
    code, _, err = run(capsys, "cache", "clear", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert values(capsys, "cache", "list") == before
