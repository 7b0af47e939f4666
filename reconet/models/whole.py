"""Whole networks of your own, image_b3hw -> logits_bkhw, as the parts of a Segmenter.

So everything that works with a Segmenter works with them too: prediction, scores, export, serve.
The network stands in the place of the backbone. Its logits pass through the rest unchanged.
"""

from collections.abc import Callable

from torch import Tensor, nn

from reconet.errors import DataError
from reconet.models.backbone import Backbone
from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages

# Networks by the name that files and recipes use. Each is called with the number of classes, and
# with its own options by name. Empty: they come from modules that a user imports (--import).
MODULES: dict[str, Callable[..., nn.Module]] = {}


class WholeBackbone(Backbone):
    """A module whose logits stand for all four maps."""

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.module = module
        self.channels, self.strides = (num_classes,) * 4, (1,) * 4

    def forward(self, image_bchw: Tensor) -> Features:
        logits = self.module(image_bchw)
        classes = self.channels[0]
        if not isinstance(logits, Tensor) or logits.ndim != 4 or logits.shape[1] != classes:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise DataError(
                f"{type(self.module).__name__} must return logits (b, {classes}, h, w), one map "
                f"for each class; it returned {got}."
            )
        return Features(logits, logits, logits, logits)


class PassOn(ContextModule):
    """A context that does nothing, behind a module that gives logits."""

    info = ContextInfo(title="own network", paper="", idea="A network of your own.")
    gives_logits = True

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.out_channels = num_classes

    def forward(self, features: Features) -> Context:
        return Context(features.c4, {})
