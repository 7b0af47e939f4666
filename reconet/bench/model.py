"""One network at one size, run in every way that there is here, taking turns.

    eager fp32     the network as it was trained: what all others are compared with
    default        what Predictor does by itself
    bf16           autocast
    torch.compile  with its default settings
    ONNX Runtime, OpenVINO fp32, bf16 and int8: exports, each run by its own runtime

All make labels of the image's size from a uint8 image. What cannot be done here is a row with
its reason.
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
from reconet.export.graph import export_info, trace
from reconet.export.images import Images, batch_of, of_recipe
from reconet.export.int8 import quantise
from reconet.export.write import as_onnx, as_openvino, save_openvino, write_onnx
from reconet.inference.backends import LABELS, open_file
from reconet.inference.backends.openvino_file import open_openvino
from reconet.inference.network import fastest, in_use, network_of
from reconet.inference.windows import Forward
from reconet.models.context import CONTEXTS
from reconet.models.layers import resize
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import TrainedNetwork
from reconet.recipes.overrides import with_context
from reconet.recipes.schema import Data, Model, Recipe, Train
from reconet.system.hardware import make_bf16_safe
from reconet.system.timing import ratios, time_in_turns

EAGER = "eager fp32"
CALIBRATION = 8  # images: a benchmark is info speed; `reconet export --int8` takes more
CPU = torch.device("cpu")
Labels = Callable[[Tensor], Tensor]  # image_bchw, uint8 -> label_bhw


@dataclass(frozen=True, kw_only=True)
class ModelBench:
    """One way to run one network; without figures where it cannot be run here."""

    network: str
    way: str
    images_per_second: float | None = None
    over_eager: float | None = None  # of the same network; median over the rounds
    agreement: float | None = None  # fraction of pixels with the label that eager fp32 gives
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The network of a benchmark, and what it is shown."""

    trained: TrainedNetwork
    image_bchw: Tensor
    images: Images
    folder: Path


def bench_model(
    trained: TrainedNetwork,
    *,
    size: tuple[int, int] = (512, 512),
    rounds: int = 5,
    ways: Sequence[str] | None = None,
    contexts: Sequence[str] = (),
) -> list[ModelBench]:
    """Medians over rounds in which all ways take turns, after one round that is not counted.

    `contexts` are other methods on the same backbone, with fresh weights: for their speed only.
    """
    make_bf16_safe()  # before the first product
    chosen = [EAGER, *(name for name in ways or WAYS if name != EAGER)]
    for name in chosen:
        pick(WAYS, name, "way")
    for name in contexts:
        pick(CONTEXTS, name, "context")
    images = of_recipe(trained.info.recipe, trained.info.recipe.data.val_split, None, CALIBRATION)
    with TemporaryDirectory() as folder:
        bench = Bench(
            trained=trained,
            image_bchw=batch_of(images, 1, size),
            images=images,
            folder=Path(folder),
        )
        runs, missing = _prepare(bench, chosen)
        own = trained.info.recipe.model.context
        calls = {(own, way): run for way, run in runs.items()}
        for name in contexts:
            if name != own:
                other = _other(trained, name)
                calls[name, EAGER] = eager(other.model)
                calls[name, DEFAULT] = default(other)
        return [*_measure(calls, bench.image_bchw, rounds), *missing]


def _prepare(bench: Bench, chosen: Sequence[str]) -> tuple[dict[str, Labels], list[ModelBench]]:
    """What can be run, tried once, and what cannot, with its reason."""
    runs: dict[str, Labels] = {}
    missing: list[ModelBench] = []
    for way in chosen:
        try:
            runs[way] = WAYS[way](bench)
            runs[way](bench.image_bchw)
        except (ReconetError, RuntimeError, OSError) as error:
            runs.pop(way, None)
            reason = first_line(error)
            network = bench.trained.info.recipe.model.context
            missing.append(ModelBench(network=network, way=way, reason=reason))
    return runs, missing


def _measure(
    calls: Mapping[tuple[str, str], Labels], image_bchw: Tensor, rounds: int
) -> list[ModelBench]:
    said: dict[tuple[str, str], Tensor] = {}

    def call(key: tuple[str, str]) -> None:
        said[key] = calls[key](image_bchw)

    seconds = time_in_turns({key: partial(call, key) for key in calls}, rounds)
    results = []
    for (network, way), took in seconds.items():
        same = said[network, way] == said[network, EAGER]
        results.append(
            ModelBench(
                network=network,
                way=way,
                images_per_second=len(image_bchw) / median(took),
                over_eager=median(ratios(seconds[network, EAGER], took)),
                agreement=same.double().mean().item(),
            )
        )
    return results


def eager(model: Segmenter) -> Labels:
    @torch.inference_mode()
    def run(image_bchw: Tensor) -> Tensor:
        return model(image_bchw).main_bkhw.argmax(1)  # type: ignore[no-any-return]

    return run


def default(trained: TrainedNetwork) -> Labels:
    return finish(fastest(network_of(trained, CPU), CPU).forward)


def finish(forward: Forward) -> Labels:
    """Labels of coarse logits."""

    @torch.inference_mode()
    def run(image_bchw: Tensor) -> Tensor:
        size = (image_bchw.shape[2], image_bchw.shape[3])
        return resize(forward(image_bchw).float(), size).max(1).indices

    return run


def _bf16(bench: Bench) -> Labels:
    if not make_bf16_safe():
        raise RuntimeError("this CPU cannot compute in bf16")
    forward = in_use(bench.trained.model, CPU)

    def run(image_bchw: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(image_bchw)

    return finish(run)


def _compiled(bench: Bench) -> Labels:
    compiled = torch.compile(bench.trained.model.coarse)
    return finish(compiled)


def _onnx(bench: Bench) -> Labels:
    path = bench.folder / "model.onnx"
    model = bench.trained.model
    write_onnx(trace(model, output_stride=_stride(bench)), export_info(bench.trained), path)
    opened = open_file(path, (LABELS,))
    return lambda image_bchw: opened(image_bchw)[0]


def _openvino(bench: Bench, precision: str) -> Labels:
    if precision == "bf16" and not make_bf16_safe():
        raise RuntimeError("this CPU cannot compute in bf16")
    path = bench.folder / "model.xml"
    if not path.is_file():
        proto = as_onnx(trace(bench.trained.model, output_stride=_stride(bench)))
        save_openvino(as_openvino(proto), export_info(bench.trained), path)
    return _by_openvino(path, precision)


def _int8(bench: Bench) -> Labels:
    path = bench.folder / "int8.xml"
    proto = as_onnx(trace(bench.trained.model, output_stride=_stride(bench)))
    height, width = bench.image_bchw.shape[2:]
    shown = batch_of(bench.images, CALIBRATION, (height, width)).numpy()
    windows = [shown[number : number + 1] for number in range(len(shown))]
    save_openvino(quantise(proto, windows, ()), export_info(bench.trained), path)
    return _by_openvino(path, "f32")


def _by_openvino(path: Path, precision: str) -> Labels:
    _, _, run = open_openvino(path, (LABELS,), precision=precision)
    return lambda image_bchw: torch.from_numpy(run(image_bchw.numpy())[0])


DEFAULT = "Predictor's default"
WAYS: dict[str, Callable[[Bench], Labels]] = {
    EAGER: lambda bench: eager(bench.trained.model),
    DEFAULT: lambda bench: default(bench.trained),
    "bf16": _bf16,
    "torch.compile": _compiled,
    "ONNX Runtime": _onnx,
    "OpenVINO fp32": partial(_openvino, precision="f32"),
    "OpenVINO bf16": partial(_openvino, precision="bf16"),
    "OpenVINO int8": _int8,
}


def _other(trained: TrainedNetwork, context: str) -> TrainedNetwork:
    """Another method on the same backbone."""
    recipe = with_context(trained.info.recipe, context)
    network = build_model(recipe, len(trained.info.classes), pretrained=False).eval()
    return TrainedNetwork(model=network, info=replace(trained.info, recipe=recipe))


def _stride(bench: Bench) -> int:
    return bench.trained.info.recipe.model.output_stride


def fresh(backbone: str) -> TrainedNetwork:
    """RecoNet with fresh weights, where there is no trained one at hand."""
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
