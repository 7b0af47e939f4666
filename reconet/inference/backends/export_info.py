"""Describe an exported file: the network that it holds, and what the export changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, Json

from reconet.errors import CheckpointError
from reconet.models.network_info import FORMAT, NetworkInfo, check_texts

LABELS, LOGITS = "labels", "logits"  # the outputs, in this order
KEY = "reconet"  # of the texts, in formats that keep other metadata beside them


@dataclass(frozen=True, kw_only=True)
class ExportInfo:
    """The network of an exported file, its precision, and the images that it takes."""

    network: NetworkInfo
    precision: str  # of the weights and products: fp32 or int8
    smallest: int  # shortest side of an image that it takes
    int8: dict[str, Any] = field(
        default_factory=dict
    )  # how it was made, and how much score it lost

    def texts(self) -> dict[str, str]:
        """Write the record as texts, the metadata of a file."""
        data = self.network.recipe.data
        return self.network.texts() | {
            # The recipe holds these too, but other programs can read them more easily here.
            "base_size": str(data.base_size),
            "crop": json.dumps(data.crop),
            "precision": self.precision,
            "smallest": str(self.smallest),
            "int8": json.dumps(self.int8),
        }

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], source: Path) -> Self:
        """Check the metadata of a file, which anybody may have written."""
        if texts.get("format") != FORMAT:
            raise CheckpointError(
                f"{source} was not written by `reconet export`: it does not say what network it is."
            )
        network = NetworkInfo.from_texts(texts, source)
        return cls(network=network, **dict(check_texts(_ExportTexts, texts, source)))


class _ExportTexts(BaseModel):
    precision: Literal["fp32", "int8"]
    smallest: Annotated[int, Field(ge=1)]
    int8: Json[dict[str, Any]]
