"""Settings that are changed by name: accepted, or refused in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconet.errors import RecipeError
from reconet.recipes import (
    Data,
    Recipe,
    Train,
    apply_overrides,
    list_settings,
    override,
    with_context,
)

RECIPE = Recipe(data=Data(name="scenes"), train=Train(epochs=3))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("data.crop", "64", (64, 64)),
        ("data.crop", "64x96", (64, 96)),
        ("data.crop", "[64, 96]", (64, 96)),
        ("data.root", "2012", Path("2012")),
        ("model.weights", "imagenet", "imagenet"),
        ("model.rank", "null", None),
        ("eval.scales", "[0.75, 1]", (0.75, 1.0)),
        ("eval.flip", "true", True),
    ],
)
def test_a_text_is_read_as_the_setting_needs_it(key: str, text: str, value: object) -> None:
    group, name = key.split(".")
    assert getattr(getattr(override(RECIPE, key, text), group), name) == value


def test_setting_steps_clears_epochs_and_back() -> None:
    changed = override(RECIPE, "train.steps", "10")
    assert (changed.train.steps, changed.train.epochs) == (10, None)
    assert override(changed, "train.epochs", "2").train.steps is None


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("optim.lrr", "0.02", r"unknown setting 'optim\.lrr'\. Did you mean 'optim\.lr'\?"),
        ("lr", "0.02", r"unknown setting 'lr'\. Did you mean optim\.lr\?"),
        ("optm.lr", "0.02", r"unknown group of settings 'optm'\. Did you mean 'optim'\?"),
        ("train.steps", "many", r"train\.steps: .*valid integer.*got 'many'"),
        ("optim.lr", "-1", r"optim\.lr: .*greater than 0, got -1"),
        ("optim.lr", "nan", r"optim\.lr: .*finite"),
        ("model.rank", "0", r"model\.rank: .*greater than 0, got 0"),
        ("train.epochs", "null", r"exactly one of train\.epochs and train\.steps"),
        ("model.output_stride", "9", r"8, 16 or 32, got 9"),
        ("model.options.", "1", r"unknown setting"),
        ("train.steps", "true", r"train\.steps: .*valid integer"),
        ("data.scale", "[2, 0.5]", r"data\.scale: the first number must not be larger"),
        ("eval.scales", "[99]", r"^eval\.scales\.0: [^;]* 16, got 99\.$"),
        ("eval.scales", "[]", r"eval\.scales: .*at least 1 item"),
        ("loss.class_weights", "[]", r"loss\.class_weights: .*at least 1 item"),
        ("model.width", "1e308", r"model\.width: .*less than or equal to 16"),
        ("data.crop", "1000000", r"data\.crop\.0: .*less than or equal to 32768"),
        ("optim.lr", "true", r"optim\.lr: takes a number, got True"),
        ("optim.lr", "1e39", r"optim\.lr: .*less than or equal to 1000000, got 1e\+39"),
        ("optim.lr", "1e-45", r"optim\.lr: a number other than 0 must be at least 1e-12, got"),
        ("optim.weight_decay", "1e39", r"optim\.weight_decay: .*less than or equal to 1000"),
        ("loss.class_weights", "[1, 1e39]", r"loss\.class_weights\.1: .*less than or equal to"),
        ("loss.class_weights", "[true, 1]", r"loss\.class_weights: takes a number"),
        ("data.workers", "true", r"data\.workers: takes a number"),
        ("data.scale", "[1e-9, 1]", r"data\.scale\.0: .*greater than or equal to 0\.01"),
        ("model.options.a.b", "1", r"unknown setting 'model\.options\.a\.b'"),
    ],
)
def test_override_explains_a_bad_setting_in_one_line(key: str, text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as raised:
        override(RECIPE, key, text)
    assert "\n" not in str(raised.value)


def test_a_setting_without_a_value_shows_the_form() -> None:
    with pytest.raises(RecipeError, match=r"a setting is key=value, .*got 'optim\.lr'"):
        apply_overrides(RECIPE, ["optim.lr"])


@given(key=st.text(max_size=20), text=st.text(max_size=20))
def test_no_text_whatever_makes_override_crash(key: str, text: str) -> None:
    try:
        changed = override(RECIPE, key, text)
    except RecipeError:
        return
    assert isinstance(changed, Recipe)


@given(
    key=st.sampled_from([name for name, _, _ in list_settings(RECIPE)]),
    text=st.one_of(st.text(max_size=8), st.integers().map(str), st.floats().map(str)),
)
def test_any_value_of_a_known_setting_is_accepted_or_explained(key: str, text: str) -> None:
    try:
        changed = override(RECIPE, key, text)
    except RecipeError:
        return
    assert Recipe.model_validate(changed.model_dump()) == changed


def test_another_context_leaves_the_options_of_the_first_behind() -> None:
    chosen = override(RECIPE, "model.options.gpm", "false")
    assert with_context(chosen, chosen.model.context) == chosen
    other = with_context(chosen, "danet")
    assert (other.model.context, other.model.options) == ("danet", {})
    assert override(other, "model.context", chosen.model.context) == RECIPE


def test_every_setting_is_explained() -> None:
    assert [name for name, _, about in list_settings(RECIPE) if not about] == []


def test_steps_and_epochs_together_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"train\.steps and train\.epochs exclude each other"):
        apply_overrides(RECIPE, ["train.steps=5", "train.epochs=2"])
    assert apply_overrides(RECIPE, ["train.steps=5", "train.epochs=null"]).train.steps == 5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            'data.options.colours={"a": [0, 0, 0], "a": [1, 1, 1]}',
            "data.options.colours: 'a' is there more than once",
        ),
        ('data.options={"a": {"b": 0, "b": 1}}', "data.options: 'b' is there more than once"),
        (
            "data.options.classes=[road,roof]",
            r"no JSON: expecting value at column 2 of \[road,roof\]\. Texts need double quotes.*"
            r"--set 'data\.options\.classes=\[\"road\",\"roof\"\]'",
        ),
        ("model.options={rank:4}", r"model\.options: this is no JSON: expecting property name"),
        ("data.crop=[64,", r"data\.crop: this is no JSON: expecting value at column 5"),
    ],
)
def test_broken_json_says_what_it_lacks_and_how_to_quote_it(setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        apply_overrides(RECIPE, [setting])


def test_another_dataset_does_not_inherit_the_options_of_the_first() -> None:
    recipe = apply_overrides(RECIPE, ["data.name=scenes", "data.options.val=2"])
    settings = ['data.options.classes=["a"]', "data.name=folder"]
    assert apply_overrides(recipe, settings).data.options == {"classes": ["a"]}
    assert apply_overrides(recipe, ["data.name=scenes"]).data.options["val"] == 2


@pytest.mark.parametrize("text", ["{split}/images", '"{split}/images"'])
def test_a_folder_may_begin_with_the_split(text: str) -> None:
    assert override(RECIPE, "data.options.images", text).data.options["images"] == "{split}/images"


def test_a_path_may_begin_with_a_bracket() -> None:
    assert override(RECIPE, "data.root", "[old]/data").data.root == Path("[old]/data")
