"""The toolkits whose networks can be converted, and how each shows images to its networks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconet.recipes.schema import Data, Eval
from reconet.zoo import mmseg_heads, torchvision_heads
from reconet.zoo.catalogue import MMSEG, TORCHVISION
from reconet.zoo.head import Head, Names

Size = tuple[int, int]
SHORT_SIDE = Eval(mode="whole", relative_to="short_side")


@dataclass(frozen=True, kw_only=True)
class Published:
    """How images of a dataset are shown to a network for its published score."""

    base_size: int
    crop: Size = (512, 512)
    eval: Eval = SHORT_SIDE
    train_split: str = "train"

    def data(self, dataset: str) -> Data:
        """Return the settings of a dataset that this protocol needs."""
        return Data(
            name=dataset, base_size=self.base_size, crop=self.crop, train_split=self.train_split
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """A toolkit: its heads, and the layers that all of its networks have."""

    title: str
    heads: tuple[Head, ...]
    names: Names  # of the layers around a head
    classifier: str  # the layer whose rows are the classes
    auxiliary: str  # the beginning of the keys of its auxiliary head
    usual: Published  # the protocol for any other dataset
    protocols: Mapping[str, Published] = field(default_factory=dict)  # by dataset

    def published(self, dataset: str) -> Published:
        """Return the protocol by which this toolkit scores its networks on a dataset."""
        return self.protocols.get(dataset, self.usual)


_CONTEXT = Published(base_size=520, crop=(480, 480), eval=Eval(mode="slide"))
# ResNetV1c. Norm and ReLU of the stem's last convolution are bn1 and relu here.
_STEM = {f"backbone.stem.{i}": f"backbone.conv1.{i}" for i in (0, 1, 3, 4, 6)}

SOURCES = {
    "mmseg": Source(
        title=MMSEG,
        heads=mmseg_heads.HEADS,
        names={
            **_STEM,
            "backbone.stem.7": "backbone.bn1",
            "decode_head.conv_seg": "classify",
            **mmseg_heads.AUXILIARY,
        },
        classifier="decode_head.conv_seg",
        auxiliary="auxiliary_head.",
        usual=Published(base_size=512),
        protocols={
            "voc12": Published(base_size=512, train_split="trainaug"),
            "cityscapes": Published(
                base_size=2048,
                crop=(512, 1024),
                eval=Eval(mode="whole", relative_to="original"),
            ),
            "pcontext": _CONTEXT,
            "pcontext59": _CONTEXT,
        },
    ),
    "torchvision": Source(
        title=TORCHVISION,
        heads=torchvision_heads.HEADS,
        names=torchvision_heads.AUXILIARY,
        classifier="classifier.4",
        auxiliary="aux_classifier.",
        usual=Published(base_size=520, crop=(480, 480)),
    ),
}
