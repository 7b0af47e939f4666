"""The comparison of an export with its network: rounding passes, more is an error."""

from pathlib import Path

import pytest

from reconet.errors import ExportError
from reconet.export.compare import Difference, refuse_differences


def test_an_export_that_disagrees_is_an_error() -> None:
    good = Difference(images=1, size=(64, 64), logits=1e-6, labels=1.0)
    refuse_differences(Path("a.onnx"), [good])
    for bad in (
        Difference(images=1, size=(8, 9), logits=2e-3, labels=1.0),
        Difference(images=1, size=(8, 9), logits=1e-6, labels=0.99),
    ):
        with pytest.raises(ExportError, match="does not compute what its network does: 1 x 8 x 9"):
            refuse_differences(Path("a.onnx"), [good, bad])
