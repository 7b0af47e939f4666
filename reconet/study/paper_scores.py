"""The paper's scores for the same questions: Chen et al., ECCV 2020, PASCAL VOC 2012 val.

The scores are mIoU in per cent. They stand beside our rows where the paper has a row.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of the paper."""

    source: str  # which table, with its conditions
    miou: dict[str, float]  # by the name of our variant


PAPER: dict[str, PaperTable] = {
    "components": PaperTable(
        source='"Ablation study on different components": VOC 2012 val, ResNet-50, single scale; '
        "MS/Flip is printed for ResNet-101 (81.4 without it, 82.1 with it) and not for ResNet-50",
        miou={"plain": 68.7, "tgm_trm": 78.6, "both": 79.2, "aux": 79.8},
    ),
    "rank": PaperTable(
        source='"Ablation study on tensor rank": VOC 2012 val, ResNet-101, multi-scale',
        miou={
            "r16": 81.2,
            "r32": 81.8,
            "r48": 81.4,
            "r64": 82.1,
            "r80": 81.6,
            "r96": 81.0,
            "r128": 80.7,
        },
    ),
    "contexts": PaperTable(
        source='"Results on PASCAL-VOC12 val set": VOC 2012 val, ResNet-101, single scale',
        miou={
            "deeplabv3plus": 79.45,
            "pspnet": 79.20,
            "danet": 79.64,
            "psanet": 78.71,
            "ccnet": 79.51,
            "emanet": 80.09,
            "reconet": 81.40,
        },
    ),
}
