"""Semantic segmentation with tensor low-rank context reconstruction (RecoNet, ECCV 2020).

Names are loaded when they are first used: `import reconet` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconet.data import DATASETS as DATASETS
    from reconet.data import DatasetEntry as DatasetEntry
    from reconet.data import DatasetInfo as DatasetInfo
    from reconet.data import Sample as Sample
    from reconet.data import open_dataset as open_dataset
    from reconet.engine.run import train as train
    from reconet.evaluation.evaluate import evaluate as evaluate
    from reconet.inference.own_network import save as save
    from reconet.inference.predictor import Prediction as Prediction
    from reconet.inference.predictor import Predictor as Predictor
    from reconet.inference.protocol import Protocol as Protocol
    from reconet.models.backbone import BACKBONES as BACKBONES
    from reconet.models.backbone import Backbone as Backbone
    from reconet.models.context import CONTEXTS as CONTEXTS
    from reconet.models.context import ContextInfo as ContextInfo
    from reconet.models.context import ContextModule as ContextModule
    from reconet.models.context.reconet import TensorReconstruction as TensorReconstruction
    from reconet.models.context.reconet_plus import FragmentReconstruction as FragmentReconstruction
    from reconet.models.features import Features as Features
    from reconet.models.features import FeatureSpec as FeatureSpec
    from reconet.models.features import Logits as Logits
    from reconet.models.heads import Head as Head
    from reconet.models.heads import create_head as create_head
    from reconet.models.heads import list_contexts as list_contexts
    from reconet.models.segmenter import MODULES as MODULES
    from reconet.models.segmenter import Segmenter as Segmenter
    from reconet.models.segmenter import create_model as create_model
    from reconet.recipes import find_recipe as find_recipe
    from reconet.recipes.schema import Recipe as Recipe

__version__ = "0.1.0"

_NAMES = {
    "reconet.data": ("DATASETS", "DatasetEntry", "DatasetInfo", "Sample", "open_dataset"),
    "reconet.engine.run": ("train",),
    "reconet.evaluation.evaluate": ("evaluate",),
    "reconet.inference.own_network": ("save",),
    "reconet.inference.predictor": ("Prediction", "Predictor"),
    "reconet.inference.protocol": ("Protocol",),
    "reconet.models.backbone": ("BACKBONES", "Backbone"),
    "reconet.models.context": ("CONTEXTS", "ContextInfo", "ContextModule"),
    "reconet.models.context.reconet": ("TensorReconstruction",),
    "reconet.models.context.reconet_plus": ("FragmentReconstruction",),
    "reconet.models.features": ("FeatureSpec", "Features", "Logits"),
    "reconet.models.heads": ("Head", "create_head", "list_contexts"),
    "reconet.models.segmenter": ("MODULES", "Segmenter", "create_model"),
    "reconet.recipes": ("find_recipe",),
    "reconet.recipes.schema": ("Recipe",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'reconet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
