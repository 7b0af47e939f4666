"""Squeeze and excitation (SENet)."""

from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Squeeze and excitation",
    paper='Hu et al., "Squeeze-and-Excitation Networks", CVPR 2018',
    idea="The mean over the image decides how much each channel counts.",
    reach="channels only",
    options={
        "reduction": "divides the channels inside the gate",
        "dropout": "before the classifier",
    },
)


class SEBlock(nn.Module):
    """Gate the channels of a map by its mean, without a residual."""

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.mlp = nn.Sequential(
            nn.Linear(channels, inner), nn.ReLU(inplace=True), nn.Linear(inner, channels)
        )

    def forward(self, x_bchw: Tensor) -> Tensor:
        return x_bchw * self.gate(x_bchw)[:, :, None, None]

    def gate(self, x_bchw: Tensor) -> Tensor:
        gate_bc: Tensor = self.mlp(x_bchw.mean(dim=(2, 3))).sigmoid()
        return gate_bc


class SENet(ContextModule):
    """c4 -> X -> SE block -> dropout."""

    info = INFO
    core: SEBlock

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        reduction: PositiveInt = 16,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = SEBlock(channels, reduction=reduction)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.core(self.reduce(features.c4))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        gate_c = self.core.gate(recorded.input_of(self.core))[0]
        description = "The gates of channels, from 0 to 1. They are the same at every position."
        return AttentionMaps(description, gates=(("channels", gate_c),))
