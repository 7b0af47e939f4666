"""Save and load the state of a training, and start from the weights of another run."""

from pathlib import Path

import pytest
import torch

from reconet.engine import LogState, load_last, make_state, run_weights, save_last
from reconet.errors import CheckpointError, RecipeError
from reconet.models import NetworkInfo, TrainedNetwork, build_model, save_trained
from reconet.models.trained import put_weights
from reconet.recipes import Recipe, apply_overrides
from tests.engine.steps import ALONE, CLASSES, recipe, run, state_of


def test_a_saved_state_resumes_exactly(tmp_path: Path) -> None:
    chosen = recipe("train.ema=0.9")
    straight = state_of(chosen)
    whole = run(straight, chosen, 6)
    state = state_of(chosen)
    first = run(state, chosen, 3)
    log_state = LogState(loss_sum=1.5, loss_count=2, validated=3, stale=1)
    save_last(tmp_path / "last.pt", state, log_state)
    torch.manual_seed(99)
    again = make_state(chosen, CLASSES, ALONE, fresh=False)
    assert load_last(tmp_path / "last.pt", again) == log_state
    assert again.step == 3
    assert first + run(again, chosen, 6, start=3) == whole
    for key, value in straight.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[key]), key


@pytest.mark.parametrize("damage", ["cut", "text", "other", "format"])
def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    path, chosen = tmp_path / "last.pt", recipe()
    save_last(path, state_of(chosen), LogState())
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "text":
        path.write_text("hello")
    elif damage == "format":
        torch.save({"format": 2}, path)
    else:
        chosen = recipe("model.rank=5")
    with pytest.raises(CheckpointError) as raised:
        load_last(path, state_of(chosen))
    assert "\n" not in str(raised.value)


def save_network(tmp_path: Path, chosen: Recipe) -> Path:
    save_trained(
        tmp_path / "best.safetensors",
        TrainedNetwork(
            model=state_of(chosen).model,
            info=NetworkInfo(
                recipe=chosen,
                classes=tuple("abcde"),
                palette=tuple((i, i, i) for i in range(CLASSES)),
                step=7,
                score={"miou": 0.5},
            ),
        ),
    )
    return tmp_path


CLASSIFIERS = {
    "reconet": [],
    "danet": ["context.classify_position", "context.classify_channel"],
    "acfnet": ["context.classify_coarse"],
    "encnet": ["context.core.presence"],
    "cfnet": ["context.enc.presence"],
}


@pytest.mark.parametrize("context", CLASSIFIERS)
def test_init_from_another_run_leaves_only_the_classifiers_of_other_classes(
    context: str, tmp_path: Path
) -> None:
    settings = [f"model.context={context}"]
    if context == "cfnet":
        settings.append("model.options.se_weight=0.2")
    chosen = recipe(*settings)
    source = save_network(tmp_path, chosen)
    torch.manual_seed(1)
    model = build_model(chosen, 3)
    fresh = {key: value.clone() for key, value in model.state_dict().items()}
    weights = run_weights(source)
    put_weights(model, weights, source, other_classes=True)
    stay = {"classify", "aux.classify", *CLASSIFIERS[context]}
    for key, value in model.state_dict().items():
        expected = fresh if key.rpartition(".")[0] in stay else weights
        assert torch.equal(value, expected[key]), key
    with pytest.raises(CheckpointError, match="holds another network"):
        put_weights(model, weights, source)


def test_init_from_refuses_a_network_of_another_size(tmp_path: Path) -> None:
    source = save_network(tmp_path, recipe())
    for setting in ("model.rank=9", "data.crop=96"):
        other = build_model(recipe(setting), CLASSES)
        with pytest.raises(CheckpointError, match=r"holds another network.*the size of data\.crop"):
            put_weights(other, run_weights(source), source, other_classes=True)
    other = build_model(recipe("model.context=fcn"), CLASSES)
    with pytest.raises(CheckpointError, match=r"holds another network.*\)\.$"):
        put_weights(other, run_weights(source), source, other_classes=True)


def test_init_from_refuses_a_network_that_strides_elsewhere(tmp_path: Path) -> None:
    # Its tensors have the same shapes, so nothing else would notice.
    source = save_network(tmp_path, recipe("model.backbone=resnet50", "model.stride_on=1x1"))
    other = recipe("model.backbone=resnet50", f"train.init_from={source}")
    with pytest.raises(RecipeError, match=r"set model\.stride_on=1x1"):
        make_state(other, CLASSES, ALONE, fresh=True)
    same = apply_overrides(other, ["model.stride_on=1x1"])
    assert "tensors" in make_state(same, CLASSES, ALONE, fresh=True).model.weights_from


def test_init_from_names_the_settings_that_another_network_has(tmp_path: Path) -> None:
    own = ("model.context=reconet_plus", "model.options.separable=true", "model.rank=null")
    source = save_network(tmp_path, recipe(*own))
    changes = (
        "model.context=reconet_plus",
        "model.rank=null",
        "model.width=0.25",
        "model.options.gpm=true",
    )
    other = recipe(*changes, f"train.init_from={source}")
    with pytest.raises(CheckpointError) as caught:
        make_state(other, CLASSES, ALONE, fresh=True)
    for words in ("model.width=0.125", "model.options.separable=true", "no model.options.gpm"):
        assert words in str(caught.value)
    assert "model.context" not in str(caught.value)
