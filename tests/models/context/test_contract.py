"""The contract of context modules, checked for each name in CONTEXTS.

In the whole network, and alone on maps of a few cells: what a small image leaves at a large output
stride.
"""

import inspect
import io
import re

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from reconet.models import CONTEXTS, Features, Segmenter, segmentation_loss
from tests.factories import tiny_model
from tests.models.helpers import features, stages

CROP = (64, 96)  # not square: catches swapped axes
CLASSES = 5


# Tracing takes seconds: the others are traced by `make test-all`.
QUICKLY_EXPORTED = {"danet", "encnet", "reconet", "reconet_plus"}
EXPORTED = [
    name if name in QUICKLY_EXPORTED else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(CONTEXTS)
]


@pytest.fixture(params=sorted(CONTEXTS))
def model(request: pytest.FixtureRequest) -> Segmenter:
    torch.manual_seed(0)
    return tiny_model(request.param, num_classes=CLASSES, crop=CROP)


def image(*size: int, batch: int = 2) -> Tensor:
    return torch.rand(batch, 3, *size)


def has_slope(parameter: Tensor) -> bool:
    """Tell whether a step moves a parameter. A bias in front of a batch norm has no slope.

    Neither has one that is too flat to move a weight of 1.0 in float32: 0.01 * 1e-5 just does.
    """
    return parameter.grad is not None and bool(parameter.grad.abs().max() > 1e-5)


def train_step(model: Segmenter, image_bchw: Tensor) -> Tensor:
    label_bhw = torch.randint(0, CLASSES, (len(image_bchw), *image_bchw.shape[2:]))
    logits = model.train()(image_bchw)
    loss = segmentation_loss(logits, label_bhw) + model.context.loss(logits.extra, label_bhw)
    loss.backward()
    return loss


@pytest.mark.parametrize("size", [CROP, (65, 97), (33, 57), (120, 40)])
def test_logits_have_the_size_of_the_image(model: Segmenter, size: tuple[int, int]) -> None:
    logits = model.eval()(image(*size))
    assert logits.main_bkhw.shape == (2, CLASSES, *size)
    assert logits.aux_bkhw is None
    assert logits.extra == {}
    logits = model.train()(image(*size))
    assert logits.aux_bkhw is not None
    assert logits.aux_bkhw.shape == (2, CLASSES, *size)
    assert logits.main_bkhw.isfinite().all()


def test_every_parameter_gets_a_gradient(model: Segmenter) -> None:
    train_step(model, image(*CROP))
    starved = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not starved


def test_two_training_steps_work_and_change_the_weights(model: Segmenter) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(2):
        optimizer.zero_grad()
        train_step(model, image(*CROP))
        optimizer.step()
        model.context.after_step()
    still = [n for n, p in model.named_parameters() if torch.equal(p, before[n]) and has_slope(p)]
    assert not still
    assert has_slope(model.classify.weight)


def test_one_image_is_enough_to_train_on(model: Segmenter) -> None:
    assert train_step(model, image(*CROP, batch=1)).isfinite()


def test_the_network_trains_under_bf16_autocast(model: Segmenter) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert train_step(model, image(*CROP)).isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_bf16_predicts_nearly_what_fp32_does(model: Segmenter) -> None:
    image_bchw = image(*CROP)
    with torch.no_grad():
        exact = model.eval()(image_bchw).main_bkhw
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(image_bchw).main_bkhw.float()
    assert (rough - exact).square().mean().sqrt() < 0.05 * exact.std()


def test_the_state_dict_is_complete(model: Segmenter) -> None:
    train_step(model, image(*CROP))  # so that running statistics differ from a fresh network's
    name = next(key for key, kind in CONTEXTS.items() if isinstance(model.context, kind))
    twin = tiny_model(name, num_classes=CLASSES, crop=CROP)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=True))
    image_bchw = image(*CROP)
    assert torch.equal(twin.eval()(image_bchw).main_bkhw, model.eval()(image_bchw).main_bkhw)


def test_samples_do_not_influence_one_another_in_use(model: Segmenter) -> None:
    image_bchw = image(*CROP)
    both = model.eval()(image_bchw).main_bkhw
    torch.testing.assert_close(model(image_bchw[:1]).main_bkhw, both[:1], atol=1e-5, rtol=1e-4)


def test_the_core_keeps_the_shape_of_its_map(model: Segmenter) -> None:
    core = model.context.core
    if core is None:
        pytest.skip("this method has no core")
    channels = model.backbone.channels[3] // 4
    x_bchw = torch.randn(2, channels, 6, 11)
    assert core(x_bchw).shape == x_bchw.shape


class MainOnly(nn.Module):
    def __init__(self, model: Segmenter) -> None:
        super().__init__()
        self.model = model

    def forward(self, image_bchw: Tensor) -> Tensor:
        logits: Tensor = self.model(image_bchw).main_bkhw
        return logits


@pytest.mark.parametrize("model", EXPORTED, indirect=True)
def test_the_network_exports_with_dynamic_batch_height_and_width(model: Segmenter) -> None:
    program = export(
        MainOnly(model.eval()),
        (torch.randint(0, 256, (2, 3, *CROP), dtype=torch.uint8),),
        dynamic_shapes=({0: Dim("b", min=1), 2: Dim("h", min=33), 3: Dim("w", min=33)},),
        strict=False,
    )
    for size in [CROP, (33, 57), (129, 65)]:
        image_bchw = torch.randint(0, 256, (1, 3, *size), dtype=torch.uint8)
        torch.testing.assert_close(
            program.module()(image_bchw), model(image_bchw).main_bkhw, atol=1e-5, rtol=1e-4
        )


class RecordingFeatures:
    """Features that remember which of them were read."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Tensor:
        self.read.add(name)
        value: Tensor = getattr(self.features, name)
        return value


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_the_file_of_a_context_says_all_about_it(name: str) -> None:
    kind = CONTEXTS[name]
    assert kind.info.title
    assert kind.info.idea.endswith(".")
    if name not in {"plain", "reconet_plus"}:  # these have no paper
        assert re.fullmatch(r'[A-Z]\w+ et al\., ".+", .*20\d\d', kind.info.paper)
    options = inspect.signature(kind).parameters.keys() - {"stages", "num_classes"}
    assert kind.info.options.keys() == options
    shapes = stages(64, (8, 12))
    recording = RecordingFeatures(features(shapes))
    kind(shapes, num_classes=CLASSES)(recording)
    assert recording.read == set(kind.info.stages)


@pytest.mark.parametrize("name", ["encnet", "cfnet"])
def test_a_context_says_which_stages_it_reads_with_its_options(name: str) -> None:
    shapes = stages(64, (8, 12))
    for lateral in (False, True):
        recording = RecordingFeatures(features(shapes))
        context = CONTEXTS[name](shapes, num_classes=CLASSES, lateral=lateral)  # type: ignore[call-arg]
        context(recording)
        assert recording.read == set(context.stages_read)
        assert ("c2" in recording.read) == lateral


def inputs(size: tuple[int, int], batch: int) -> Features:
    return Features(*(x.requires_grad_() for x in features(stages(64, size), batch)))


@pytest.mark.parametrize("name", sorted(CONTEXTS))
@pytest.mark.parametrize("size", [(1, 1), (1, 3), (2, 1)])
def test_a_context_works_on_a_map_of_very_few_cells(name: str, size: tuple[int, int]) -> None:
    """Check a context made for a larger crop. In training it gets two images, for its norms."""
    context = CONTEXTS[name](stages(64, (4, 6)), num_classes=3)
    x = inputs(size, batch=2)
    for training in (False, True):
        map_bdhw = context.train(training)(x).map_bdhw
        assert map_bdhw.shape[:2] == (2, context.out_channels)
        assert map_bdhw.isfinite().all()
    map_bdhw.sum().backward()


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_one_image_of_two_cells_is_enough_to_train_on(name: str) -> None:
    context = CONTEXTS[name](stages(64, (4, 6)), num_classes=3)
    map_bdhw = context(inputs((1, 2), batch=1)).map_bdhw
    assert map_bdhw.isfinite().all()
    map_bdhw.sum().backward()
    gradients = [p.grad for p in context.parameters() if p.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_seed_makes_a_context() -> None:
    for name, kind in CONTEXTS.items():
        states = []
        for _ in range(2):
            torch.manual_seed(3)
            states.append(kind(stages(64), num_classes=3).state_dict())
        for key, value in states[0].items():
            assert torch.equal(value, states[1][key]), f"{name}: {key}"
