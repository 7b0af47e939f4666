"""Verbs that measure."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device, Json, parse_size
from reconet.cli.output import busy, print_result


def module(
    rank: Annotated[int, typer.Option(min=1, help="Rank of the reconstruction.")] = 64,
    channels: Annotated[int, typer.Option(min=8, help="Channels of the map.")] = 512,
    size: Annotated[str, typer.Option(metavar="HxW", help="Size of the map.")] = "64x64",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 15,
    core: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A context beside RecoNet; may be repeated."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw time against memory.")
    ] = None,
    as_json: Json = False,
) -> None:
    """The cores of all contexts on one map: parameters, multiply-adds, time and memory.

    RecoNet's (TGM + TRM) is there twice: as one product per axis, and as the published loop over
    ranks. Times are medians over rounds in which all take turns. Memory is counted in units of the
    input map: the most that is alive at once, beside the input, the weights and their gradients.

    \b
    Examples:
      reconet bench module
      reconet bench module --core nonlocal --core emanet --plot cores.png
      reconet bench module --rank 16 --size 64x128 --json
    """
    from reconet.bench.modules import bench_module, smaller_than_reconet
    from reconet.cli.tables import bench as tables_bench

    height, width = parse_size(size)
    with busy("measuring, some minutes ..."):
        results = bench_module(
            channels=channels, size=(height, width), rank=rank, repeats=repeats, only=core
        )
    fast, loop = results[:2]
    remarks = smaller_than_reconet(results)
    title = f"One {channels} x {height} x {width} map, rank {rank}"
    values = {
        "map": [channels, height, width],
        "rank": rank,
        "cores": [asdict(result) for result in results],
        "forward_speedup": loop.forward_ms / fast.forward_ms,
        "forward_backward_speedup": loop.forward_backward_ms / fast.forward_backward_ms,
        "smaller_than_reconet": remarks,
    }
    if plot is not None:
        from reconet.bench.plot import plot_module

        plot_module(results, title, plot)
    print_result(values, [tables_bench.bench_table(title, results, remarks)], as_json)


def data(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 5,
    as_json: Json = False,
) -> None:
    """The training pipeline against decoding alone, and against a plain Pillow pipeline.

    On generated 500 x 375 images with labels, crop 512, with 1 and 2 worker processes.

    \b
    Examples:
      reconet bench data
      reconet bench data --rounds 9 --json
    """
    from reconet.bench.data import bench_data
    from reconet.cli.tables import bench as tables_bench

    with busy("measuring, about a minute ..."):
        results = bench_data(rounds=rounds)
    values = {"pipelines": [asdict(result) for result in results]}
    print_result(values, [tables_bench.bench_data_table(results)], as_json)


def train(
    backbone: Annotated[str, typer.Option(help="Backbone.")] = "resnet50",
    size: Annotated[int, typer.Option(min=33, help="Side of the images.")] = 256,
    batch: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 2,
    steps: Annotated[int, typer.Option(min=1, help="Measured steps; the median counts.")] = 8,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Training steps in fp32 against bf16 with channels last, in turn, with both loss curves.

    \b
    Examples:
      reconet bench train
      reconet bench train --backbone resnet18 --batch 8 --json
    """
    from reconet.bench.train import bench_train
    from reconet.cli.tables import bench as tables_bench

    with busy("measuring, some minutes ..."):
        results = bench_train(backbone=backbone, size=size, batch=batch, steps=steps, device=device)
    title = f"RecoNet, {backbone}, {batch} images of {size} x {size} a step"
    print_result(
        {"modes": [asdict(r) for r in results]},
        [tables_bench.bench_train_table(title, results)],
        as_json,
    )


def evaluate(
    backbone: Annotated[str, typer.Option(help="Of the network.")] = "resnet18",
    crop: Annotated[int, typer.Option(min=8, help="Side of a window.")] = 160,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 3,
    as_json: Json = False,
) -> None:
    """Multi-scale evaluation with mirror images, against the plain loop that runs one window at a
    time in eager fp32.

    On generated images at six scales, with 21 and with 150 classes; the scores of both are shown.

    \b
    Examples:
      reconet bench evaluate
      reconet bench evaluate --backbone resnet50 --rounds 5 --json
    """
    from reconet.bench.evaluate import bench_evaluate
    from reconet.cli.tables import bench as tables_bench

    with busy("measuring, a minute or two ..."):
        results = bench_evaluate(backbone=backbone, crop=crop, rounds=rounds)
    values = {"networks": [asdict(result) for result in results]}
    title = f"Multi-scale evaluation, {backbone}, crop {crop}"
    print_result(values, [tables_bench.bench_evaluate_table(title, results)], as_json)


def model(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A run; without one, RecoNet with fresh weights."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="HxW", help="Size of the image.")] = "512x512",
    backbone: Annotated[str, typer.Option(help="Where no run is given.")] = "resnet50",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 5,
    way: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this way beside eager fp32; may be repeated."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another method on the same backbone, or all."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of every runtime; by default torch's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """One network at one size, in every way: eager, Predictor's, bf16, compiled, ONNX Runtime,
    OpenVINO in fp32, bf16 and int8.

    All take turns in one run. Shown are images a second, the ratio to eager fp32, and how many
    pixels get the label that eager fp32 gives them.

    \b
    Examples:
      reconet bench model runs/first --size 128
      reconet bench model --way "OpenVINO int8" --rounds 9 --json
      reconet bench model runs/voc --context danet --context pspnet
    """
    import torch

    from reconet.bench.model import bench_model, fresh
    from reconet.cli.tables import bench as tables_bench
    from reconet.models.context import CONTEXTS
    from reconet.models.trained import load_trained

    pixels = parse_size(size)
    if threads is not None:
        torch.set_num_threads(threads)
    trained = load_trained(run) if run is not None else fresh(backbone)
    others = list(CONTEXTS) if context == ["all"] else context or []
    with busy("measuring, some minutes ..."):
        results = bench_model(trained, size=pixels, rounds=rounds, ways=way, contexts=others)
    count = torch.get_num_threads()
    title = f"{trained.info.recipe.model.backbone}, one image of {size}, {count} thread(s)"
    values = {"size": list(pixels), "threads": count, "ways": [asdict(r) for r in results]}
    print_result(values, [tables_bench.bench_model_table(title, results)], as_json)
