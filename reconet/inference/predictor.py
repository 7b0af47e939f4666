"""Segment images with a trained network.

segment = Predictor.from_run("runs/first")
segment = Predictor(model, classes=["road", "roof"])   # a network that was built in Python
result = segment("street.jpg")            # a file, its bytes, a Pillow image or an array
results = segment(["a.jpg", "b.jpg"])     # images of one size go through the network together
"""

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow
from torch import Tensor, nn

from reconet.data.classes import BACKGROUND
from reconet.data.images.draw import overlay
from reconet.data.images.read import decode_upright, read_upright, to_upright
from reconet.errors import DataError, RecipeError, pick
from reconet.inference.network import (
    Network,
    find_network,
    make_network,
    open_network,
    shipped_networks,
)
from reconet.inference.protocol import Protocol
from reconet.inference.windows import (
    WindowReader,
    best_class,
    count_windows,
    probability_bands,
    run_together,
)
from reconet.system.distributed import pick_device
from reconet.system.progress import NOTES, Progress
from reconet.types import IGNORE, Colour, Image, Label, Palette

# A file, its bytes, an open file, or RGB uint8 (h, w, 3).
ImageSource = str | Path | bytes | BinaryIO | Pillow.Image | Image
ImageSources = list[Any] | tuple[Any, ...]  # of ImageSource; Any because list is invariant

LARGEST_IN_BATCH = 2**22  # pixels; larger images go through the network one by one


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The labels of one image, at the image's own size."""

    image_hwc: Image
    label_hw: Label
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    probability_khw: NDArray[np.float32] | None = None  # only if asked for
    confidence_hw: NDArray[np.uint8] | None = None  # of the labels, in 255ths; only if asked for

    def overlay(self, alpha: float = 0.45) -> Pillow.Image:
        """Return the image, its classes tinted and outlined, with names in large regions."""
        return Pillow.fromarray(
            overlay(self.image_hwc, self.label_hw, self.palette, self.classes, alpha)
        )

    def __repr__(self) -> str:
        height, width = self.label_hw.shape
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in self.shares().items())
        more = "; with probabilities" if self.probability_khw is not None else ""
        return f"Prediction({width} x {height}: {shares}{more})"

    def shares(self) -> dict[str, float]:
        """Return the fraction of the image that each class covers, the largest first.

        Classes that do not occur are left out.
        """
        count_k = np.bincount(self.label_hw.ravel(), minlength=len(self.classes))
        share_k = count_k[: len(self.classes)] / self.label_hw.size  # without void
        order = np.argsort(-share_k, kind="stable")
        return {self.classes[k]: float(share_k[k]) for k in order if count_k[k]}

    def confidence(self) -> dict[str, float]:
        """Return the mean confidence, and that which a tenth of the pixels does not exceed."""
        if self.confidence_hw is None:
            return {}
        values = self.confidence_hw.mean(), np.percentile(self.confidence_hw, 10)
        mean, decile = (round(float(value) / 255, 4) for value in values)
        return {"mean": mean, "lowest_decile": decile}


class Predictor:
    """A trained network that segments images. Threads may share one."""

    def __init__(
        self,
        network: Network | nn.Module,
        *,
        classes: Sequence[str] | None = None,
        palette: Palette | None = None,
        mean: tuple[float, ...] = (0.0, 0.0, 0.0),
        std: tuple[float, ...] = (1.0, 1.0, 1.0),
        protocol: Protocol | None = None,
        device: str = "auto",
    ) -> None:
        """Make a predictor of an opened network, or of a model and the names of its classes.

        A model is a Segmenter, or any module image_b3hw -> logits_bkhw. Such a module gets RGB as
        float 0..1, minus `mean`, divided by `std`. Without a protocol it sees whole images at their
        own size. The model is copied: training it further does not change the predictor.
        """
        self.device = pick_device(device)
        if isinstance(network, nn.Module):
            if classes is None:
                raise RecipeError("a model does not know its classes: pass classes=[...].")
            from reconet.inference.own_network import describe_model

            model = describe_model(network, classes=classes, palette=palette, mean=mean, std=std)
            network = make_network(copy.deepcopy(model), self.device)
        recipe = network.info.recipe
        self.network = network
        self.protocol = protocol or Protocol.of(recipe.eval, recipe.data)
        self._shown_n = np.arange(256, dtype=np.uint8)  # the label that each label is shown as

    @classmethod
    def from_run(
        cls,
        source: str | Path,
        *,
        protocol: Protocol | None = None,
        device: str = "auto",
        precision: str | None = None,
        fast: bool = False,
        progress: Progress = NOTES,
    ) -> Self:
        """Open the best network of a run directory, a .safetensors file or an exported file.

        `precision` is "fp32", "bf16", or "auto": bf16 if that is safe and faster on this machine.
        By default a network runs as it was saved, in fp32. `fast` takes the fastest way that keeps
        the labels instead. It measures once, which takes minutes, and notes its choice on stderr.
        `network.how` tells how the network runs.
        """
        if fast and precision is not None:
            raise RecipeError("fast chooses the precision by itself: leave out the one or other.")
        where = pick_device(device)
        if fast:
            from reconet.inference.fast import open_fast

            network = open_fast(Path(source), where, progress=progress)
        else:
            network = open_network(Path(source), where, precision)
        return cls(network, protocol=protocol, device=device)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        protocol: Protocol | None = None,
        device: str = "auto",
        precision: str | None = None,
        fast: bool = False,
        progress: Progress = NOTES,
    ) -> Self:
        """Open a network by a name of `reconet zoo`, such as "voc12".

        Or open a shared one: a folder that `reconet share` wrote, or its id on the hub.
        """
        from reconet import zoo
        from reconet.models.weights import find_shared

        has_name = str(source) in {*shipped_networks(), *zoo.CATALOGUE}
        return cls.from_run(
            find_network(source).path if has_name else find_shared(source),
            protocol=protocol,
            device=device,
            precision=precision,
            fast=fast,
            progress=progress,
        )

    def __repr__(self) -> str:
        model = self.network.info.recipe.model
        return (
            f"Predictor({model.title}, {len(self.classes)} classes, "
            f"{self.network.how}, on {self.device}; {self.protocol})"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return self.network.info.classes

    @overload
    def __call__(
        self, source: ImageSource, *, with_probabilities: bool = ..., with_confidence: bool = ...
    ) -> Prediction: ...
    @overload
    def __call__(
        self, source: ImageSources, *, with_probabilities: bool = ..., with_confidence: bool = ...
    ) -> list[Prediction]: ...
    def __call__(
        self,
        source: ImageSource | ImageSources,
        *,
        with_probabilities: bool = False,
        with_confidence: bool = False,
    ) -> Prediction | list[Prediction]:
        """Segment one image, or several: a list gives a list.

        `with_probabilities` also keeps the probabilities of all classes, 4 bytes each, as the
        network gives them. `with_confidence` keeps that of the label, 1 byte, at the temperature
        that `reconet evaluate --calibrate` found.
        """
        if not isinstance(source, list | tuple):
            how = {"with_probabilities": with_probabilities, "with_confidence": with_confidence}
            return self([source], **how)[0]
        images = [to_rgb(one) for one in source]
        by_size: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, image_hwc in enumerate(images):
            by_size[image_hwc.shape[:2]].append(number)
        info, classes = self.network.info, len(self.classes)
        found: dict[int, Prediction] = {}
        for size, numbers in by_size.items():
            count = self.images_at_once(size)
            for start in range(0, len(numbers), count):
                group = numbers[start : start + count]
                pixels = [torch.from_numpy(images[number]).to(self.device) for number in group]
                readers: Sequence[list[WindowReader] | None] = [None]
                if len(group) > 1:
                    readers = run_together(self.network.forward, pixels, self.protocol)
                for number, pixels_hwc, own in zip(group, pixels, readers, strict=True):
                    label_hw = np.empty(size, np.uint8)
                    confidence_hw = np.empty(size, np.uint8) if with_confidence else None
                    temperature = info.temperature if with_confidence else 1.0
                    probability_khw = None
                    if with_probabilities:
                        probability_khw = np.empty((classes, *size), np.float32)
                    for rows, probability_hkw in probability_bands(
                        self.network.forward, pixels_hwc, self.protocol, classes, own
                    ):
                        part_hw, best_hw = best_class(probability_hkw, temperature)
                        label_hw[rows] = self._shown_n[part_hw.cpu().numpy()]
                        if confidence_hw is not None:
                            confidence_hw[rows] = _to_bytes(best_hw)
                        if probability_khw is not None:
                            part_khw = probability_hkw.transpose(0, 1)
                            probability_khw[:, rows] = part_khw.cpu().numpy()
                    found[number] = Prediction(
                        image_hwc=images[number],
                        label_hw=label_hw,
                        classes=info.classes,
                        palette=info.palette,
                        probability_khw=probability_khw,
                        confidence_hw=confidence_hw,
                    )
        return [found[number] for number in range(len(images))]

    def best(self, source: ImageSource) -> tuple[Label, NDArray[np.uint8]]:
        """Return the most probable class of each pixel, and its confidence in 255ths.

        Both are uint8 (h, w). The probabilities of the other classes are not kept.
        """
        image_hwc = to_rgb(source)
        label_hw = np.empty(image_hwc.shape[:2], np.uint8)
        probability_hw = np.empty_like(label_hw)
        pixels_hwc = torch.from_numpy(image_hwc).to(self.device)
        parts = probability_bands(
            self.network.forward, pixels_hwc, self.protocol, len(self.classes)
        )
        for rows, probability_hkw in parts:
            best_label_hw, best_hw = best_class(probability_hkw, self.network.info.temperature)
            label_hw[rows] = self._shown_n[best_label_hw.cpu().numpy()]
            probability_hw[rows] = _to_bytes(best_hw)
        return label_hw, probability_hw

    def keep_classes(self, names: Sequence[str]) -> None:
        """Turn all other classes into background, or into void if there is none.

        Probabilities stay those of all classes.
        """
        labels = {name: label for label, name in enumerate(self.classes)}
        kept = [pick(labels, name, "class") for name in names]
        self._shown_n[:] = labels.get(BACKGROUND, IGNORE)
        self._shown_n[kept] = kept

    def images_at_once(self, size: tuple[int, ...]) -> int:
        """Return how many images of a size (h, w) go through the network together."""
        height, width = size
        if height * width > LARGEST_IN_BATCH:
            return 1
        return max(1, self.protocol.batch // count_windows((height, width), self.protocol))


def _to_bytes(probability_hw: Tensor) -> NDArray[np.uint8]:
    byte_hw = probability_hw.mul_(255).round_().clamp_(0, 255).to(torch.uint8)
    return np.asarray(byte_hw.cpu().numpy())


def to_rgb(source: object) -> Image:
    """Return an image as RGB uint8 (h, w, 3), upright, in memory of its own."""
    if hasattr(source, "read"):  # a file that is open
        source = source.read()
        if isinstance(source, str):
            raise DataError("the image is a file that was opened as text; open it with mode 'rb'.")
    if isinstance(source, bytes | bytearray | memoryview):
        return decode_upright(bytes(source), "the image")
    if isinstance(source, str | Path):
        return read_upright(Path(source)).image_hwc
    if isinstance(source, Pillow.Image):
        return to_upright(source)
    if isinstance(source, torch.Tensor):
        raise DataError(
            f"an image is a path, a Pillow image or an array, got a tensor {(*source.shape,)}; "
            "if it is uint8 image_chw, pass image_chw.permute(1, 2, 0).cpu().numpy()."
        )
    if not isinstance(source, np.ndarray):
        raise DataError(
            "an image is a path, bytes, an open file, a Pillow image or an array, got "
            f"{type(source).__name__}."
        )
    image = source[..., None] if source.ndim == 2 else source
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.dtype != np.uint8:
        raise DataError(
            "an array is an image if it is uint8 (h, w, 3), (h, w, 4) or (h, w), "
            f"got {source.dtype} {source.shape}."
        )
    if image.size == 0:
        raise DataError(f"an image needs pixels, got an array of shape {source.shape}.")
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else np.array(image[..., :3])
