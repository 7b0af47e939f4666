"""Feature maps small enough for slow versions, and not square: square ones hide swapped axes."""

import torch

from reconet.models.features import Features, FeatureSpec, Stages

SIZE = (3, 4)
STAGES = Stages(
    FeatureSpec(channels=8, height=6, width=8),
    FeatureSpec(channels=16, height=3, width=4),
    FeatureSpec(channels=32, height=3, width=4),
    FeatureSpec(channels=64, height=3, width=4),
)


def features(batch: int = 2) -> Features:
    return Features(*(torch.randn(batch, s.channels, s.height, s.width) for s in STAGES))
