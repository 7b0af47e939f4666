"""The same inputs find the same cache, others never do."""

import pytest
import torch
from torch import Tensor

from reconet.cache.key import digest_of, digest_of_tensors

WEIGHTS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}


def test_the_order_of_facts_and_of_tensors_does_not_matter() -> None:
    assert digest_of({"x": 1, "y": [2]}) == digest_of({"y": [2], "x": 1})
    assert digest_of({"x": 1}) != digest_of({"x": "1"})
    assert digest_of_tensors(dict(reversed(WEIGHTS.items()))) == digest_of_tensors(WEIGHTS)


@pytest.mark.parametrize(
    "other",
    [
        {"a": WEIGHTS["a"].nextafter(torch.tensor(9.0))},
        {"a": WEIGHTS["a"].view(3, 2)},
        {"a": WEIGHTS["a"].view(torch.int32)},
        {"a": WEIGHTS["b"], "b": WEIGHTS["a"]},
    ],
)
def test_a_bit_a_shape_a_type_or_a_name_makes_another_digest(other: dict[str, Tensor]) -> None:
    assert digest_of_tensors(WEIGHTS | other) != digest_of_tensors(WEIGHTS)
