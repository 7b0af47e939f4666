"""Table "Computational cost and GPU occupation of TGM+TRM": modules on one 512 x 64 x 64 map."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from reconet.cost.paper.extra_modules import AdaptiveContexts, OneMap, bare_attention
from reconet.cost.paper.table_row import FIT, PaperRow, make_paper_row
from reconet.models.context.a2net import DoubleAttention
from reconet.models.context.asymmetric import FusionBlock
from reconet.models.context.ccnet import CrissCrossAttention
from reconet.models.context.emanet import ExpectationMaximisation
from reconet.models.context.latentgnn import LatentGNNBlock
from reconet.models.context.non_local import NonLocalBlock
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec

CHANNELS, SIDE, RANK = 512, 64, 64


def module_rows() -> list[PaperRow]:
    """Count every module of the table."""
    x_bchw = torch.empty(1, CHANNELS, SIDE, SIDE)
    row = partial(make_paper_row, table="module", size=f"{CHANNELS}x{SIDE}x{SIDE}", inputs=x_bchw)
    return [
        row(
            method="Non-Local",
            module=NonLocalBlock(CHANNELS),
            paper_g=19.33,
            paper_mib=88.00,
            evidence="exact",
            note="both products and the map of all pairs between them count",
        ),
        *_products_as_layers(partial(row, as_layers=("product",))),
        *_afnb(partial(row, as_layers=("attention", "pooling"), paper_g=2.62, paper_mib=25.93)),
        *_latentgnn(partial(row, as_layers=("product",), paper_g=2.58, paper_mib=44.69)),
        row(
            method="EMAUnit",
            module=ExpectationMaximisation(CHANNELS),
            paper_g=2.42,
            paper_mib=24.12,
            evidence="exact",
            note="its products are one layer, of which the last call counts: 1 of 7",
        ),
        *_reconstruction(partial(row, paper_g=0.0215, paper_mib=8.31)),
    ]


def _products_as_layers(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="APCNet",
            module=AdaptiveContexts(CHANNELS),
            paper_g=8.98,
            paper_mib=193.10,
            note=f"four modules as published, products are layers, pooling is not; {FIT}",
        ),
        row(
            method="RCCA",
            module=CrissCrossAttention(CHANNELS),
            counted=CrissCrossAttention(CHANNELS, recurrence=1),
            paper_g=5.37,
            paper_mib=41.33,
            note="as published, products are layers; the rule sees the second of its two passes, "
            "which has the same layers; no explanation known",
        ),
        *(
            row(
                method=f"A2Net, {k}",
                module=DoubleAttention(CHANNELS, features=k, maps=k),
                paper_g=4.30,
                paper_mib=25.00,
                note=f"with {k} features and maps, of which the paper says nothing; products are "
                f"layers; {FIT}",
            )
            for k in (128, 256, 512)
        ),
    ]


def _afnb(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="AFNB",
            module=OneMap(FusionBlock(CHANNELS, CHANNELS, CHANNELS // 2, dropout=0.05)),
            note="the block as published, on 512 channels; its products and pooling are layers",
        ),
        row(
            method="AFNB, attention only",
            module=bare_attention(CHANNELS, CHANNELS // 2),
            evidence="assumed",
            note="assumes the attention without norms, ReLUs and the convolution that fuses; its "
            "products and pooling are layers",
        ),
    ]


def _latentgnn(row: Callable[..., PaperRow]) -> list[PaperRow]:
    return [
        row(
            method="LatentGNN",
            module=LatentGNNBlock(CHANNELS),
            note="as published: 100 nodes, a quarter of the channels inside; products are layers; "
            f"{FIT}",
        ),
        row(
            method="LatentGNN, full width",
            module=LatentGNNBlock(CHANNELS, stride=1),
            note=f"100 nodes, all channels inside; products are layers; {FIT}",
        ),
    ]


def _reconstruction(row: Callable[..., PaperRow]) -> list[PaperRow]:
    core = TensorReconstruction(FeatureSpec(channels=CHANNELS, height=SIDE, width=SIDE), rank=RANK)
    products = RANK * CHANNELS * SIDE * SIDE
    return [
        row(
            method="TGM+TRM",
            module=core,
            note="the rule sees the generators only; it leaves out the reconstruction itself, "
            f"r*C*H*W = {products / 1e9:.4f} G products",
        ),
        row(
            method="TGM+TRM, BN",
            module=nn.Sequential(core, nn.BatchNorm2d(CHANNELS)),
            evidence="assumed",
            note="assumes one BatchNorm2d(512) after it, which neither text nor code has",
        ),
    ]
