"""No context: the last stage goes straight to the classifier."""

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages

INFO = ContextInfo(
    title="No head",
    paper="",
    idea='The last stage goes straight to the classifier: the "ResNet" row of the paper\'s '
    "component study.",
)


class Plain(ContextModule):
    """c4 as it is."""

    info = INFO

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.out_channels = stages.c4.channels

    def forward(self, features: Features) -> Context:
        return Context(features.c4, {})
