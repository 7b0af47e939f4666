"""Networks whose attention is not at its start, where many attentions are switched off."""

from typing import Any

import torch
from torch import Tensor

from reconet.models.context.low_rank import Factors
from reconet.models.segmenter import Segmenter
from tests.factories import tiny_model


def attentive_model(context: str, **options: Any) -> Segmenter:
    """Make a network in eval mode with random weights in its attention."""
    model = tiny_model(context, **options)
    with torch.no_grad():
        for name, value in model.context.named_parameters():
            if name.endswith("gamma") or "out" in name or "restore" in name or "query" in name:
                value.normal_(std=0.5)
    return model.eval()


def outer_product(factors: Factors, rank: int) -> Tensor:
    weight_r, channel_brc, plane_brhw = factors
    return weight_r[rank] * channel_brc[0, rank][:, None, None] * plane_brhw[0, rank]
