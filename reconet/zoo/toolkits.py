"""The toolkits whose networks can be converted, and how each shows images to its networks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconet.recipes.schema import Data, Eval
from reconet.zoo.heads import MMSEG_HEADS, TORCHVISION_HEADS, Head, Names, units

Size = tuple[int, int]
SHORT_SIDE = Eval(mode="whole", relative_to="short_side")


@dataclass(frozen=True, kw_only=True)
class Published:
    """How images of a dataset are shown to a network for its published score."""

    base_size: int
    crop: Size = (512, 512)
    eval: Eval = SHORT_SIDE
    train_split: str = "train"

    def __str__(self) -> str:
        size = {
            "short_side": f"a short side of {self.base_size}",
            "base_size": f"a long side of {self.base_size}",
            "original": "their own size",
        }[self.eval.relative_to]
        windows = f"windows of {self.crop[0]} x {self.crop[1]}"
        return f"{'whole images' if self.eval.mode == 'whole' else windows} at {size}"

    def data(self, dataset: str) -> Data:
        """Return the settings of a dataset that this protocol needs."""
        return Data(
            name=dataset, base_size=self.base_size, crop=self.crop, train_split=self.train_split
        )


@dataclass(frozen=True, kw_only=True)
class Toolkit:
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

TOOLKITS = {
    "mmseg": Toolkit(
        title="mmsegmentation",
        heads=MMSEG_HEADS,
        names={
            **_STEM,
            "backbone.stem.7": "backbone.bn1",
            "decode_head.conv_seg": "classify",
            **units({"auxiliary_head.convs.0": "aux.reduce"}),
            "auxiliary_head.conv_seg": "aux.classify",
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
    "torchvision": Toolkit(
        title="torchvision",
        heads=TORCHVISION_HEADS,
        names={
            "aux_classifier.0": "aux.reduce.0",
            "aux_classifier.1": "aux.reduce.1",
            "aux_classifier.4": "aux.classify",
        },
        classifier="classifier.4",
        auxiliary="aux_classifier.",
        usual=Published(base_size=520, crop=(480, 480)),
    ),
}
