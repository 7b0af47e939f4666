"""Networks: how they are built, trained, stored and taken apart.

segmenter.py   the whole network, and create_model() and build_model() that build it
backbone/      one file per family of backbones, the contract, and the table BACKBONES
context/       one file per context method, and the table CONTEXTS
head.py        the last layers: classifiers, decoder
layers.py      layers that several parts share, attention among them
features.py    the types that the parts pass to one another
losses.py      the loss and its terms: cross entropy, focal, dice, Lovasz
weights.py     files of weights, from strangers and from the hub, read without running their code
trained.py     save and load a trained network, with what one must know to use it
fold.py        faster networks for use: batch norm folded, 3 x 3 convolutions with fewer products
decompose.py   the low-rank tensor of a context, rank by rank
liveness.py    whether that tensor varies at all, and depends on the image
"""

from reconet.models.backbone import BACKBONES, Backbone, MobileNetV2, ResNet, load_backbone
from reconet.models.context import CONTEXTS, ContextInfo, ContextModule
from reconet.models.features import Context, Features, FeatureSpec, Logits, Stages
from reconet.models.fold import fold_batchnorm
from reconet.models.losses import segmentation_loss
from reconet.models.segmenter import MODULES, Segmenter, build_model, create_model, wrap_module
from reconet.models.trained import (
    NetworkInfo,
    TrainedNetwork,
    find_weights,
    load_trained,
    save_compact,
    save_trained,
)
from reconet.models.weights import read_tensors

__all__ = [
    "BACKBONES",
    "CONTEXTS",
    "MODULES",
    "Backbone",
    "Context",
    "ContextInfo",
    "ContextModule",
    "FeatureSpec",
    "Features",
    "Logits",
    "MobileNetV2",
    "NetworkInfo",
    "ResNet",
    "Segmenter",
    "Stages",
    "TrainedNetwork",
    "build_model",
    "create_model",
    "find_weights",
    "fold_batchnorm",
    "load_backbone",
    "load_trained",
    "read_tensors",
    "save_compact",
    "save_trained",
    "segmentation_loss",
    "wrap_module",
]
