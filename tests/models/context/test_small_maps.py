"""Maps of a few cells, or one: what a small image leaves at a large output stride."""

import pytest
import torch

from reconet.models.context import CONTEXTS
from reconet.models.features import Features
from tests.models.context.helpers import features, stages


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
