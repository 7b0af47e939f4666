"""Networks: how they are built, trained, stored and taken apart.

whole.py          networks of your own, and the table MODULES
segmenter.py      the whole network, and create_model() and build_model() that build it
backbone/         one file per family of backbones, the contract, and the table BACKBONES
context/          one file per context method, and the table CONTEXTS
head.py           classifiers
layers.py         layers that several parts share
attention.py      parts of attention that several contexts share
features.py       the types that the parts pass to one another
losses.py         the loss
loss_terms.py     the terms that it may have: cross entropy, focal, dice, Lovasz
network_info.py   NetworkInfo: recipe, classes, colours and score of a trained network
trained.py        save and load a trained network
compact.py        its weights in int8 and fp16, for small files
weights.py        pretrained weights of the backbone
weight_files.py   files of weights, read without running their code
hub.py            downloads from the hub
fold.py           batch norm folded into convolutions, for use
decompose.py      the low-rank tensor of a context, rank by rank
liveness.py       whether that tensor varies at all
"""

from reconet.models.backbone import BACKBONES, Backbone
from reconet.models.context import CONTEXTS, ContextInfo, ContextModule
from reconet.models.features import Logits
from reconet.models.fold import fold_batchnorm
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import Segmenter, build_model, create_model, wrap_module
from reconet.models.trained import (
    TrainedNetwork,
    find_weights,
    load_trained,
    save_compact,
    save_trained,
)
from reconet.models.whole import MODULES

__all__ = [
    "BACKBONES",
    "CONTEXTS",
    "MODULES",
    "Backbone",
    "ContextInfo",
    "ContextModule",
    "Logits",
    "NetworkInfo",
    "Segmenter",
    "TrainedNetwork",
    "build_model",
    "create_model",
    "find_weights",
    "fold_batchnorm",
    "load_trained",
    "save_compact",
    "save_trained",
    "wrap_module",
]
