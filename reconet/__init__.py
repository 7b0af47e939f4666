"""Semantic segmentation with tensor low-rank context reconstruction (RecoNet, ECCV 2020).

Names are loaded when they are first used: `import reconet` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reconet.system.moved import explain_moved_modules

if TYPE_CHECKING:
    from reconet.inference.predictor import Prediction as Prediction
    from reconet.inference.predictor import Predictor as Predictor
    from reconet.models.context import CONTEXTS as CONTEXTS
    from reconet.models.features import Logits as Logits
    from reconet.models.segmenter import Segmenter as Segmenter
    from reconet.models.segmenter import create_model as create_model

__version__ = "0.1.0"

_HOME = {
    "CONTEXTS": "reconet.models.context",
    "Logits": "reconet.models.features",
    "Prediction": "reconet.inference.predictor",
    "Predictor": "reconet.inference.predictor",
    "Segmenter": "reconet.models.segmenter",
    "create_model": "reconet.models.segmenter",
}

__all__ = [
    "CONTEXTS",
    "Logits",
    "Prediction",
    "Predictor",
    "Segmenter",
    "__version__",
    "create_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'reconet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


explain_moved_modules()
