"""Measure one network at one size, in every way that this machine can run it, in turns.

    eager fp32     the network as it was trained, with which all others are compared
    default        what Predictor does by itself
    bf16           autocast
    torch.compile  with its default settings
    ONNX Runtime, OpenVINO fp32, bf16 and int8: exports, each run by its own runtime

All make labels of the image's size from a uint8 image. A way that cannot be run here has a row
with its reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from reconet.data.scenes.generate import CLASSES, PALETTE
from reconet.errors import ReconetError, first_line, pick
from reconet.export.formats import (
    export_info,
    save_openvino,
    to_onnx,
    to_openvino,
    trace,
    write_onnx,
)
from reconet.export.int8 import quantise
from reconet.export.sample_images import SampleImages, batch_of, load_samples
from reconet.inference.backends import LABELS, open_exported, open_openvino
from reconet.inference.network import make_forward, make_network
from reconet.inference.windows import Forward
from reconet.models.context import CONTEXTS
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import NetworkInfo, TrainedNetwork
from reconet.recipes.overrides import with_context
from reconet.recipes.schema import Data, Model, Recipe, Train
from reconet.system.hardware import make_bf16_safe
from reconet.system.timing import ratios, time_in_turns

EAGER = "eager fp32"
CALIBRATION = 8  # images: a benchmark is about speed. `reconet export --int8` takes more
CPU = torch.device("cpu")
Labeller = Callable[[Tensor], Tensor]  # image_bchw, uint8 -> label_bhw


@dataclass(frozen=True, kw_only=True)
class ModelBench:
    """One way to run one network. It has a reason instead of figures if it cannot be run here."""

    network: str
    way: str
    images_per_second: float | None = None
    over_eager: float | None = None  # speed over that of eager fp32, median over the rounds
    agreement: float | None = None  # fraction of pixels with the same label as by eager fp32
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The network to measure, its input, and a folder for its exports."""

    trained: TrainedNetwork
    image_bchw: Tensor
    images: SampleImages
    folder: Path


def bench_model(
    trained: TrainedNetwork,
    *,
    size: tuple[int, int] = (512, 512),
    rounds: int = 5,
    ways: Sequence[str] | None = None,
    contexts: Sequence[str] = (),
) -> list[ModelBench]:
    """Run a network in each of `ways`, in turns. The results are medians over the rounds.

    `contexts` adds other methods on the same backbone. Their weights are random, so only their
    speed means something.
    """
    make_bf16_safe()  # before the first product
    chosen = [EAGER, *(name for name in ways or WAYS if name != EAGER)]
    for name in chosen:
        pick(WAYS, name, "way")
    for name in contexts:
        pick(CONTEXTS, name, "context")
    recipe, own = trained.info.recipe, trained.info.recipe.model.context
    images = load_samples(recipe, recipe.data.val_split, None, CALIBRATION)
    image_bchw = batch_of(images, 1, size)
    runs: dict[tuple[str, str], Labeller] = {}
    missing = []
    with TemporaryDirectory() as folder:
        subject = Subject(
            trained=trained, image_bchw=image_bchw, images=images, folder=Path(folder)
        )
        for way in chosen:
            try:
                run = WAYS[way](subject)
                run(image_bchw)
                runs[own, way] = run
            except (ReconetError, RuntimeError, OSError) as error:
                missing.append(ModelBench(network=own, way=way, reason=first_line(error)))
        for name in contexts:
            if name != own:
                other = _with_context(trained, name)
                runs[name, EAGER] = eager(other.model)
                runs[name, DEFAULT] = default(other)
        return [*_measure(runs, image_bchw, rounds), *missing]


def _measure(
    runs: Mapping[tuple[str, str], Labeller], image_bchw: Tensor, rounds: int
) -> list[ModelBench]:
    labels: dict[tuple[str, str], Tensor] = {}

    def call(key: tuple[str, str]) -> None:
        labels[key] = runs[key](image_bchw)

    seconds = time_in_turns({key: partial(call, key) for key in runs}, rounds)
    return [
        ModelBench(
            network=network,
            way=way,
            images_per_second=len(image_bchw) / median(took),
            over_eager=median(ratios(seconds[network, EAGER], took)),
            agreement=(labels[network, way] == labels[network, EAGER]).double().mean().item(),
        )
        for (network, way), took in seconds.items()
    ]


def eager(model: Segmenter) -> Labeller:
    """Run a model as it was trained."""

    @torch.inference_mode()
    def run(image_bchw: Tensor) -> Tensor:
        return model(image_bchw).main_bkhw.argmax(1)  # type: ignore[no-any-return]

    return run


def default(trained: TrainedNetwork) -> Labeller:
    """Run a network as Predictor does."""
    return label_coarse(make_network(trained, CPU).forward)


def label_coarse(forward: Forward) -> Labeller:
    """Add resizing and the choice of the best class to a network with coarse logits."""

    @torch.inference_mode()
    def run(image_bchw: Tensor) -> Tensor:
        size = (image_bchw.shape[2], image_bchw.shape[3])
        return resize(forward(image_bchw).float(), size).max(1).indices

    return run


def _bf16(subject: Subject) -> Labeller:
    if not make_bf16_safe():
        raise RuntimeError("this CPU cannot compute in bf16")
    forward = make_forward(subject.trained.model, CPU)

    def run(image_bchw: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(image_bchw)

    return label_coarse(run)


def _onnx(subject: Subject) -> Labeller:
    path = subject.folder / "model.onnx"
    model = subject.trained.model
    write_onnx(trace(model), export_info(subject.trained), path)
    opened = open_exported(path, (LABELS,))
    return lambda image_bchw: opened(image_bchw)[0]


def _openvino(subject: Subject, precision: str) -> Labeller:
    if precision == "bf16" and not make_bf16_safe():
        raise RuntimeError("this CPU cannot compute in bf16")
    path = subject.folder / "model.xml"
    if not path.is_file():
        proto = to_onnx(trace(subject.trained.model))
        save_openvino(to_openvino(proto), export_info(subject.trained), path)
    return _by_openvino(path, precision)


def _int8(subject: Subject) -> Labeller:
    path = subject.folder / "int8.xml"
    proto = to_onnx(trace(subject.trained.model))
    height, width = subject.image_bchw.shape[2:]
    images = batch_of(subject.images, CALIBRATION, (height, width)).numpy()
    windows = [images[number : number + 1] for number in range(len(images))]
    save_openvino(quantise(proto, windows, ()), export_info(subject.trained), path)
    return _by_openvino(path, "f32")


def _by_openvino(path: Path, precision: str) -> Labeller:
    run = open_openvino(path, (LABELS,), precision=precision).prepare()
    return lambda image_bchw: torch.from_numpy(run(image_bchw.numpy())[0])


DEFAULT = "Predictor's default"
WAYS: dict[str, Callable[[Subject], Labeller]] = {
    EAGER: lambda subject: eager(subject.trained.model),
    DEFAULT: lambda subject: default(subject.trained),
    "bf16": _bf16,
    "torch.compile": lambda subject: label_coarse(torch.compile(subject.trained.model.coarse)),
    "ONNX Runtime": _onnx,
    "OpenVINO fp32": partial(_openvino, precision="f32"),
    "OpenVINO bf16": partial(_openvino, precision="bf16"),
    "OpenVINO int8": _int8,
}


def _with_context(trained: TrainedNetwork, context: str) -> TrainedNetwork:
    """Build another method on the same backbone."""
    recipe = with_context(trained.info.recipe, context)
    network = build_model(recipe, len(trained.info.classes), pretrained=False).eval()
    return TrainedNetwork(model=network, info=replace(trained.info, recipe=recipe))


def untrained_network(backbone: str) -> TrainedNetwork:
    """Build RecoNet with random weights."""
    recipe = Recipe(
        data=Data(name="scenes", options={"size": [512, 512], "val": CALIBRATION}),
        model=Model(backbone=backbone),
        train=Train(steps=1),
    )
    torch.manual_seed(0)
    return TrainedNetwork(
        model=build_model(recipe, len(CLASSES), pretrained=False).eval(),
        info=NetworkInfo(recipe=recipe, classes=CLASSES, palette=PALETTE, step=0, score={}),
    )
