"""Attentional class features (ACFNet).

Dimensions: b batch, c channels, h rows, w columns, n = h * w, k classes.
"""

import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    largest_indices,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.head import classifier
from reconet.models.layers import conv_bn_relu
from reconet.models.losses import side_loss
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Attentional class features",
    paper='Zhang et al., "ACFNet: Attentional Class Feature Network for Semantic Segmentation", '
    "ICCV 2019",
    idea="A coarse prediction gives each class the mean feature of its pixels, its centre, and "
    "each pixel gets the mixture of centres that its own coarse prediction names.",
    options={
        "coarse_weight": "weight of the coarse prediction's loss",
        "detach": "let the coarse prediction learn from its own loss only",
        "class_dropout": "on the features that the class centres are made of",
        "dropout": "before the classifier",
    },
)

EPS = 1e-8  # a class without a pixel has the centre 0


class ACFNet(ContextModule):
    """c4 -> 3x3 -> f; [f, class features of f] -> 3x3 -> dropout.

    This is the formula of the paper. Public code takes raw scores where it has probabilities.
    """

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        coarse_weight: NonNegativeFloat = 0.6,
        detach: bool = False,
        class_dropout: Fraction = 0.2,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        self.coarse_weight, self.detach = coarse_weight, detach
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.classify_coarse = classifier(channels, num_classes)
        self.project = nn.Sequential(
            conv_bn_relu(channels, channels, 1), nn.Dropout2d(class_dropout)
        )
        self.restore = nn.Conv2d(channels, channels, 1)
        self.fuse = conv_bn_relu(2 * channels, channels, 3)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        f_bchw = self.reduce(features.c4)
        coarse_bkhw = self.classify_coarse(f_bchw)
        guide_bkhw = coarse_bkhw.detach() if self.detach else coarse_bkhw
        attended_bchw = class_features(self.project(f_bchw), guide_bkhw.float().softmax(dim=1))
        fused_bchw = self.fuse(torch.cat([f_bchw, self.restore(attended_bchw)], dim=1))
        extra = {"coarse": coarse_bkhw} if self.training else {}
        return Context(self.dropout(fused_bchw), extra)

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        return self.coarse_weight * side_loss(extra["coarse"], label_bhw)

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        coarse_bkhw = self.classify_coarse(recorded.input_of(self.classify_coarse))
        probability_khw = coarse_bkhw[0].float().softmax(0)
        order = largest_indices(probability_khw.mean((1, 2)))
        maps = tuple((recorded.classes[index], probability_khw[index]) for index in order)
        description = (
            "The coarse probability of each class. It weights the pixels in the centre of the "
            "class, and the centres in the mixture of each pixel."
        )
        return AttentionMaps(description, maps)


def class_features(feature_bchw: Tensor, probability_bkhw: Tensor) -> Tensor:
    """Mix the centres of the classes at every pixel by its probabilities."""
    probability_bkn = probability_bkhw.flatten(2)
    centre_bck = class_centres(feature_bchw.flatten(2), probability_bkn)
    attended_bcn = centre_bck @ probability_bkn.to(centre_bck.dtype)
    return attended_bcn.view_as(feature_bchw)


def class_centres(feature_bcn: Tensor, probability_bkn: Tensor) -> Tensor:
    """Average the features of each class, with pixels weighted by their probability."""
    share_bkn = probability_bkn / (EPS + probability_bkn.sum(dim=2, keepdim=True))
    return feature_bcn @ share_bkn.to(feature_bcn.dtype).transpose(1, 2)
