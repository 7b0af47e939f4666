"""The loop itself, in this process."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from reconet.data.loader import Batch
from reconet.engine.checkpoint import Progress, load_last, run_weights, save_last
from reconet.engine.optim import Ema, make_optimizer, set_lr
from reconet.engine.setup import make_state, total_steps
from reconet.engine.train import State, seed_step, train
from reconet.errors import CheckpointError, RecipeError, TrainingError
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, load_trained, put_weights, save_trained
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.system.distributed import World

WORLD = World(rank=0, size=1, device=torch.device("cpu"))
CLASSES = 5


def recipe(*settings: str) -> Recipe:
    return apply_overrides(find_recipe("scenes/tiny"), ["train.steps=40", *settings])


def fixed_batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    image = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8, generator=generator)
    coarse = torch.randint(0, CLASSES, (4, 8, 8), generator=generator).byte()
    return image, coarse.repeat_interleave(8, 1).repeat_interleave(8, 2)


def batches(steps: int, start: int = 0) -> Iterator[Batch]:
    image, label = fixed_batch()
    for step in range(start, steps):
        yield Batch(step, image, label, ("a", "b", "c", "d"), ())


def state_of(chosen: Recipe) -> State:
    torch.manual_seed(0)
    return make_state(chosen, CLASSES, WORLD, fresh=True)


def run(state: State, chosen: Recipe, steps: int, start: int = 0) -> list[float]:
    return [step.loss for step in train(state, batches(steps, start), chosen, 40, WORLD)]


def without_batchnorm(model: nn.Module) -> None:
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("train.precision=bf16",),
        ("train.channels_last=true",),
        ("loss.ohem=0.7", "loss.ohem_min_kept=100"),
        ("optim.clip=1",),
        ("model.context=fcn",),
    ],
)
def test_training_fits_one_batch(settings: tuple[str, ...]) -> None:
    chosen = recipe(*settings, "optim.lr=0.1")
    losses = run(state_of(chosen), chosen, 40)
    assert losses[-1] < 0.7 * losses[0]


def test_accumulation_gives_the_gradient_of_the_whole_batch() -> None:
    """Without batch norm, whose statistics are those of what passes at once."""
    gradients = []
    for settings in ((), ("train.micro_batch=3",), ("train.micro_batch=1",)):
        chosen = recipe(*settings, "model.options.dropout=0", "model.aux=false")
        state = state_of(chosen)
        without_batchnorm(state.model)
        run(state, chosen, 1)
        gradients.append([p.grad.clone() for p in state.model.parameters() if p.grad is not None])
    for other in gradients[1:]:
        for one, two in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("context", ["danet", "acfnet", "encnet"])
def test_losses_of_contexts_are_those_of_their_parts(context: str) -> None:
    """Without batch norm, whose statistics are those of what passes at once."""
    image, label = fixed_batch()
    label[0, :60], label[1, :7], label[3] = 255, 255, 255
    own = []
    for micro in ("null", "3", "1"):
        chosen = recipe(f"model.context={context}", f"train.micro_batch={micro}", "model.aux=false")
        state = state_of(chosen)
        without_batchnorm(state.model)
        for module in state.model.modules():
            if isinstance(module, nn.Dropout | nn.Dropout2d):
                module.p = 0.0
        stream = [Batch(0, image, label, ("a", "b", "c", "d"), ())]
        own.append(next(train(state, stream, chosen, 40, WORLD)).loss)
    assert own == pytest.approx([own[0]] * 3, rel=1e-5)


def test_a_loss_that_is_no_number_stops_with_step_rate_and_images() -> None:
    chosen = recipe()
    state = state_of(chosen)
    before = {k: v.clone() for k, v in state.model.named_parameters()}
    with torch.no_grad():
        state.model.classify.bias.fill_(math.nan)  # type: ignore[union-attr]
    with pytest.raises(TrainingError, match=r"nan at step 0 with learning rate 0\.02.*a, b, c, d"):
        run(state, chosen, 1)
    name = "backbone.layer1.0.conv1.weight"
    assert torch.equal(dict(state.model.named_parameters())[name], before[name])


def test_dropout_depends_on_seed_step_and_rank_alone() -> None:
    def draw(*key: int) -> Tensor:
        seed_step(*key)
        return torch.rand(4)

    assert torch.equal(draw(0, 5, 1), draw(0, 5, 1))
    for other in [(1, 5, 1), (0, 6, 1), (0, 5, 2), (0, 51, 0)]:
        assert not torch.equal(draw(0, 5, 1), draw(*other))


def test_fresh_layers_learn_faster_and_the_rate_decays() -> None:
    chosen = recipe("optim.lr=0.5", "optim.head_lr_factor=10")
    model = build_model(chosen, CLASSES)
    optimizer = make_optimizer(model, chosen.optim)
    assert set_lr(optimizer, chosen.optim, step=0, steps=10) == 0.5
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 5.0]
    set_lr(optimizer, chosen.optim, step=5, steps=10)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * 0.5**0.9)
    counts = [len(group["params"]) for group in optimizer.param_groups]
    assert counts[0] == len(list(model.backbone.parameters()))
    assert sum(counts) == len(list(model.parameters()))


def test_the_core_has_a_speed_of_its_own_where_the_recipe_says_so() -> None:
    chosen = recipe("optim.lr=0.5", "optim.head_lr_factor=2", "optim.core_lr_factor=10")
    model = build_model(chosen, CLASSES)
    core = model.context.core
    assert core is not None
    optimizer = make_optimizer(model, chosen.optim)
    set_lr(optimizer, chosen.optim, step=0, steps=10)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 1.0, 10.0]
    fast = {id(p) for p in optimizer.param_groups[2]["params"]}
    assert fast == {id(p) for p in core.parameters()}
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(model.parameters()))


def test_the_running_mean_of_the_weights_follows_its_formula() -> None:
    net = nn.Linear(2, 2)
    ema = Ema(net, decay=0.9)
    expected = net.weight.detach().clone()
    for value in (1.0, -2.0, 3.0):
        with torch.no_grad():
            net.weight.fill_(value)
        ema.update(net)
        expected = 0.9 * expected + 0.1 * value
    torch.testing.assert_close(ema.model.state_dict()["weight"], expected)


def test_a_saved_state_goes_on_exactly(tmp_path: Path) -> None:
    chosen = recipe("train.ema=0.9")
    straight = state_of(chosen)
    whole = run(straight, chosen, 6)
    state = state_of(chosen)
    first = run(state, chosen, 3)
    progress = Progress(best_score=0.25, loss_sum=1.5, loss_count=2)
    save_last(tmp_path / "last.pt", state, progress)
    torch.manual_seed(99)
    again = make_state(chosen, CLASSES, WORLD, fresh=False)
    assert load_last(tmp_path / "last.pt", again) == progress
    assert again.step == 3
    assert first + run(again, chosen, 6, start=3) == whole
    for key, value in straight.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[key]), key


@pytest.mark.parametrize("damage", ["cut", "text", "other", "format"])
def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    path, chosen = tmp_path / "last.pt", recipe()
    save_last(path, state_of(chosen), Progress())
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


def saved(tmp_path: Path, chosen: Recipe) -> Path:
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


def test_a_trained_network_comes_back_with_all_that_it_needs(tmp_path: Path) -> None:
    chosen = recipe("model.rank=3")
    trained = load_trained(saved(tmp_path, chosen))
    assert (trained.info.recipe, trained.info.classes, trained.info.step) == (
        chosen,
        tuple("abcde"),
        7,
    )
    assert trained.info.score == {"miou": 0.5}
    expected = state_of(chosen).model.eval()
    image_bchw = torch.rand(1, 3, 64, 64)
    assert torch.equal(trained.model(image_bchw).main_bkhw, expected(image_bchw).main_bkhw)


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
    source = saved(tmp_path, chosen)
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
    source = saved(tmp_path, recipe())
    other = build_model(recipe("model.rank=9"), CLASSES)
    with pytest.raises(CheckpointError, match="holds another network"):
        put_weights(other, run_weights(source), source, other_classes=True)


def test_steps_are_those_of_the_epochs_or_as_they_are_given() -> None:
    assert total_steps(recipe("train.epochs=3", "train.batch=4"), 11) == 6
    assert total_steps(recipe("train.steps=5"), 11) == 5
    with pytest.raises(RecipeError, match="needs at least as many images"):
        total_steps(recipe("train.batch=12"), 11)


def test_class_weights_must_be_one_for_each_class() -> None:
    chosen = recipe("loss.class_weights=[1, 2]")
    with pytest.raises(RecipeError, match="2 values for 5 classes"):
        run(state_of(chosen), chosen, 1)
