"""Co-occurrent features (CFNet), in the form of the authors' public code."""

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.context.encnet import EncModule, Lateral, presence_loss
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import ImagePooling, attend, conv_bn, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Co-occurrent features",
    paper='Zhang et al., "Co-Occurrent Features in Semantic Segmentation", CVPR 2019',
    idea="Multi-head attention of every position over the map pooled by two, beside the mean of "
    "the image, both re-weighted by an encoding of what the image contains.",
    options={
        "mixtures": "attentions that each head mixes",
        "enc": "re-weight the channels by an encoding of the image, as in EncNet",
        "se_weight": "weight of the loss on the classes that the encoding sees; 0 as released",
        "lateral": "add c2 and c3, as in EncNet; off as released",
        "attention_dropout": "on the weights of the attention",
        "dropout": "before the classifier",
    },
)

HEADS = 8


class CoOccurrence(nn.Module):
    """ACF: x + BN(conv(attention of x over pooled x)), queries and keys by the same convolution.

    With m mixtures, each head is a weighted sum of m attentions, each of a part of its channels.
    The mean query decides the weights. Dropout acts on each of the m attentions by itself.
    """

    def __init__(self, channels: int, *, mixtures: int = 1, dropout: float = 0.1) -> None:
        super().__init__()
        self.mixtures, self.dropout = mixtures, dropout
        value_width = max(1, channels // HEADS)
        self.width = value_width * mixtures  # of a query
        self.query_key = nn.Conv2d(channels, HEADS * self.width, 1)
        self.value = nn.Conv2d(channels, HEADS * value_width, 1)
        self.restore = conv_bn(HEADS * value_width, channels, 1)
        nn.init.normal_(self.query_key.weight, std=(2 / (channels + self.width)) ** 0.5)
        nn.init.normal_(self.value.weight, std=(2 / (channels + value_width)) ** 0.5)
        if mixtures > 1:
            self.mixture_md = nn.Parameter(torch.empty(mixtures, self.width))
            nn.init.uniform_(self.mixture_md, -(mixtures**-0.5), mixtures**-0.5)

    def forward(self, x_bchw: Tensor) -> Tensor:
        pooled_bchw = F.avg_pool2d(x_bchw, 3, stride=2, padding=1, count_include_pad=False)
        query_bdhw = self.query_key(x_bchw)
        key_bdm = self.query_key(pooled_bchw).flatten(2)
        value_bcm = self.value(pooled_bchw).flatten(2)
        if self.mixtures == 1:
            context_bchw = self._attend(query_bdhw, key_bdm, value_bcm)
        else:
            context_bchw = self._attend_mixed(query_bdhw, key_bdm, value_bcm)
        y_bchw: Tensor = self.restore(context_bchw)
        return x_bchw + y_bchw

    def _attend(self, query_bdhw: Tensor, key_bdm: Tensor, value_bcm: Tensor) -> Tensor:
        return attend(
            query_bdhw,
            key_bdm,
            value_bcm,
            heads=HEADS,
            scale=self.width**-0.5,
            dropout=self.dropout if self.training else 0.0,
        )

    def _attend_mixed(self, query_bdhw: Tensor, key_bdm: Tensor, value_bcm: Tensor) -> Tensor:
        weight_bam = self.mixture_weights(query_bdhw)
        total = torch.zeros((), dtype=value_bcm.dtype, device=value_bcm.device)
        for index in range(self.mixtures):
            query, key = (self._share(map_bd, index) for map_bd in (query_bdhw, key_bdm))
            context_bchw = self._attend(query, key, value_bcm)
            by_head_bachw = context_bchw.unflatten(1, (HEADS, -1))
            total = total + weight_bam[:, :, index, None, None, None] * by_head_bachw
        return total.flatten(1, 2)

    def mixture_weights(self, query_bdhw: Tensor) -> Tensor:
        """Compute weight_bam of heads a and mixtures m. They sum to 1 over the mixtures."""
        mean_bad = query_bdhw.mean(dim=(2, 3)).unflatten(1, (HEADS, -1))
        return F.linear(mean_bad, self.mixture_md).softmax(dim=2)

    def _share(self, map_bd: Tensor, index: int) -> Tensor:
        by_mixture: Tensor = map_bd.unflatten(1, (HEADS, self.mixtures, -1))
        return by_mixture[:, :, index].flatten(1, 2)


class CFNet(ContextModule):
    """c4 -> 3x3 -> [global pooling, ACF] -> encoding (`enc`) -> dropout. The core is ACF."""

    info = INFO
    core: CoOccurrence

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        mixtures: PositiveInt = 1,
        enc: bool = True,
        se_weight: NonNegativeFloat = 0.0,
        lateral: bool = False,
        attention_dropout: Fraction = 0.1,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = 2 * channels
        self.se_weight = se_weight if enc else 0.0
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.lateral = Lateral(stages, channels) if lateral else None
        self.pool = ImagePooling(channels, channels)
        self.core = CoOccurrence(channels, mixtures=mixtures, dropout=attention_dropout)
        self.enc = EncModule(2 * channels, num_classes if se_weight else None) if enc else None
        self.dropout = nn.Dropout(dropout)

    @property
    def stages_read(self) -> tuple[str, ...]:
        return self.info.stages if self.lateral is None else Lateral.STAGES

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        if self.lateral is not None:
            x_bchw = self.lateral(features, x_bchw)
        y_bdhw = torch.cat([self.pool(x_bchw), self.core(x_bchw)], dim=1)
        extra: dict[str, Tensor] = {}
        if self.enc is not None:
            y_bdhw = self.enc(y_bdhw, extra if self.training else None)
        return Context(self.dropout(y_bdhw), extra)

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        if not self.se_weight:
            return super().loss(extra, label_bhw)
        return self.se_weight * presence_loss(extra["presence_bk"], label_bhw)

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        core = self.core
        query_bdhw, key_bdhw = (
            core.query_key(recorded.input_of(core.query_key, call)) for call in (0, 1)
        )
        row, column = recorded.cell_of_point(query_bdhw.shape[2:])
        weight_jm = torch.ones(HEADS, 1, device=query_bdhw.device)
        if core.mixtures > 1:
            weight_jm = core.mixture_weights(query_bdhw)[0]
        query_jmd = query_bdhw[0, :, row, column].view(HEADS, core.mixtures, -1)
        key_jmdn = key_bdhw[0].flatten(1).unflatten(0, (HEADS, core.mixtures, -1))
        energy_jmn = torch.einsum("jmd,jmdn->jmn", query_jmd, key_jmdn) * core.width**-0.5
        weight_jn = (weight_jm[:, :, None] * energy_jmn.softmax(-1)).sum(1)
        size = key_bdhw.shape[2:]
        maps = [("mean of the heads", weight_jn.mean(0).view(size))]
        maps += [(f"head {number}", one_n.view(size)) for number, one_n in enumerate(weight_jn)]
        description = (
            "Where each head of the marked point looks in the map pooled by two. Weights sum to 1."
        )
        return AttentionMaps(description, tuple(maps), from_point=True)
