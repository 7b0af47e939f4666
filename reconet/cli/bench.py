"""reconet bench: speed and memory, side by side in one run."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from reconet.cli.arguments import DEVICE, IMPORT, JSON, argument, option, parse_size
from reconet.cli.output import make_table, print_result, show_progress
from reconet.system.readable import counted

BACKBONE = option("--backbone NAME", "Backbone of the network.", "resnet50")
CONTEXT = option("--context NAME", "Context to compare. May be repeated.")


def rounds_option(count: int) -> int:
    number: int = option("--rounds N", "Rounds, of which the median counts.", count, min=1)
    return number


def size_option(size: str) -> str:
    text: str = option("--size HxW", "Height and width, such as 512 or 512x1024.", size)
    return text


def module(
    rank: int = option("--rank N", "Rank of the reconstruction.", 64, min=1),
    channels: int = option("--channels N", "Channels of the feature map.", 512, min=8),
    size: str = size_option("64x64"),
    rounds: int = rounds_option(15),
    context: list[str] | None = CONTEXT,
    against: list[str] | None = option(
        "--against FILE.py:CLASS",
        "Measure a module of yours too: a class or function that is called with the number of "
        "channels. May be repeated.",
    ),
    plot: Path | None = option("--plot FILE.png", "Draw time against memory."),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Compare the cores of all contexts on one feature map.

    Use --context to choose some. RecoNet's core (TGM + TRM) is measured twice: as one product per
    axis, and as the published loop over ranks. Times are medians over rounds in which all cores
    take turns. Memory is counted in units of the input map: the most that is alive at once, beside
    the input, the weights and their gradients.

    \b
    Examples:
      reconet bench module
      reconet bench module --context nonlocal --context emanet --plot cores.png
      reconet bench module --rank 16 --size 64x128 --json
      reconet bench module --context danet --against mine.py:PositionAttention
    """
    from reconet.bench.modules import bench_module, plot_module, smaller_than_reconet

    height, width = parse_size(size)
    with show_progress("bench", "measuring, takes some minutes ..."):
        results = bench_module(
            channels=channels,
            size=(height, width),
            rank=rank,
            repeats=rounds,
            only=context,
            against=against or (),
        )
    base, loop = results[:2]
    remarks = smaller_than_reconet(results)
    title = f"One {channels} x {height} x {width} map, rank {rank}"
    values = {
        "map": [channels, height, width],
        "rank": rank,
        "cores": [asdict(result) for result in results],
        "forward_speedup": loop.forward_ms / base.forward_ms,
        "forward_backward_speedup": loop.forward_backward_ms / base.forward_backward_ms,
        "smaller_than_reconet": remarks,
    }
    if plot is not None:
        plot_module(results, title, plot)
    columns = ["core", "params M", "MACs G", "fwd ms", "", "fwd+bwd ms", "", "peak", "training"]
    rows = [
        [
            r.name,
            f"{r.params / 1e6:.2f}",
            f"{r.macs / 1e9:.4f}",
            f"{r.forward_ms:.1f}",
            f"{r.forward_ms / base.forward_ms:.1f}x",
            f"{r.forward_backward_ms:.1f}",
            f"{r.forward_backward_ms / base.forward_backward_ms:.1f}x",
            f"{r.forward_peak_maps:.1f}",
            f"{r.forward_backward_peak_maps:.1f}",
            r.reach,
        ]
        for r in sorted(results, key=lambda r: r.forward_backward_ms)
    ]
    if not remarks and any(result.spatial for result in results[2:]):  # others were measured
        remarks = ["None of these that builds spatial context is faster or smaller than RecoNet."]
    legend = (
        "Peak: the most memory alive at once, in units of the input map, beside the input, the "
        "weights and their gradients. Ratios are to RecoNet."
    )
    caption = "\n".join([legend, *remarks])
    print_result(values, [make_table(title, [*columns, "sees"], rows, caption=caption)], as_json)


def data(
    rounds: int = rounds_option(5), as_json: bool = JSON, imports: list[str] | None = IMPORT
) -> None:
    """Measure how many training images a worker process makes.

    It reads generated 500 x 375 images with masks, crop 512, in 1 and 2 worker processes. Decoding
    alone is measured beside it.

    \b
    Examples:
      reconet bench data
      reconet bench data --rounds 9 --json
    """
    from reconet.bench.data import bench_data

    with show_progress("bench", "measuring, takes about a minute ..."):
        results = bench_data(rounds=rounds)
    names = {"reconet": "this package", "decode": "decoding alone"}
    table = make_table(
        "Training pipeline, 500 x 375 images, crop 512",
        ["pipeline", "workers", "samples/s", "of decoding alone"],
        [
            [
                names[r.name],
                str(r.workers),
                f"{r.samples_per_second:.1f}",
                f"{100 * r.of_decode:.0f} %",
            ]
            for r in results
        ],
    )
    print_result({"pipelines": [asdict(result) for result in results]}, [table], as_json)


def train(
    backbone: str = BACKBONE,
    size: int = option("--size N", "Height and width of the images.", 256, min=33),
    batch: int = option("--batch N", "Images in a step.", 2, min=1),
    steps: int = option("--steps N", "Measured steps, of which the median counts.", 8, min=1),
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Compare training steps in fp32 with channels last and with bf16.

    All take turns, and the losses of all are shown.

    \b
    Examples:
      reconet bench train
      reconet bench train --backbone resnet18 --batch 8 --json
    """
    from reconet.bench.train import bench_train

    with show_progress("bench", "measuring, takes some minutes ..."):
        results = bench_train(backbone=backbone, size=size, batch=batch, steps=steps, device=device)
    table = make_table(
        f"RecoNet, {backbone}, {counted(batch, 'image')} of {size} x {size} a step",
        ["precision", "s/step", "img/s", "over fp32", "losses"],
        [
            [
                r.name,
                f"{r.seconds_per_step:.2f}",
                f"{r.images_per_second:.2f}",
                f"{r.over_fp32:.2f}x",
                " ".join(f"{loss:.2f}" for loss in r.losses),
            ]
            for r in results
        ],
    )
    print_result({"modes": [asdict(result) for result in results]}, [table], as_json)


def model(
    network: str | None = argument(
        "NETWORK",
        "A run directory, a .safetensors file, or a name of `reconet zoo`. By default RecoNet "
        "with random weights.",
        None,
    ),
    size: str = size_option("512x512"),
    backbone: str = BACKBONE,
    rounds: int = rounds_option(5),
    way: list[str] | None = option(
        "--way NAME", "Only this way beside eager fp32. May be repeated."
    ),
    context: list[str] | None = CONTEXT,
    threads: int | None = option(
        "--threads N", "Threads of every runtime, by default torch's.", min=1
    ),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Compare all ways to run a network.

    The ways are: eager, Predictor, bf16, compiled, ONNX Runtime, and OpenVINO in fp32, bf16 and
    int8. All take turns. The table shows images a second, the ratio to eager fp32, and the part of
    pixels with the same label as in eager fp32. Use
    --context to add other methods on the same backbone, or all of them with "all". --backbone is
    for random weights.

    \b
    Examples:
      reconet bench model runs/first --size 128
      reconet bench model --way "OpenVINO int8" --rounds 9 --json
      reconet bench model voc12 --context danet --context pspnet
    """
    import torch

    from reconet.bench.model import bench_model, untrained_network
    from reconet.inference import find_network
    from reconet.models.context import CONTEXTS
    from reconet.models.trained import load_trained

    pixels = parse_size(size)
    if threads is not None:
        torch.set_num_threads(threads)
    others = list(CONTEXTS) if context == ["all"] else context or []
    with show_progress("bench", "measuring, takes some minutes ...") as progress:
        trained = (
            untrained_network(backbone)
            if network is None
            else load_trained(find_network(network, progress=progress).path)
        )
        results = bench_model(trained, size=pixels, rounds=rounds, ways=way, contexts=others)
    count = torch.get_num_threads()
    rows = [
        [
            r.network,
            r.way,
            "-" if r.images_per_second is None else f"{r.images_per_second:.2f}",
            "-" if r.over_eager is None else f"{r.over_eager:.2f}x",
            "-" if r.agreement is None else f"{100 * r.agreement:.2f} %",
            r.reason,
        ]
        for r in results
    ]
    table = make_table(
        f"{trained.info.recipe.model.backbone}, one image of {size}, {counted(count, 'thread')}",
        ["network", "way", "images/s", "over eager", "same labels", ""],
        rows,
        text=("way", ""),
    )
    values = {"size": list(pixels), "threads": count, "ways": [asdict(r) for r in results]}
    print_result(values, [table], as_json)


VERBS: dict[str, Callable[..., None]] = {
    "module": module,
    "data": data,
    "train": train,
    "model": model,
}
