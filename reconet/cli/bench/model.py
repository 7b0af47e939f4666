"""reconet bench model."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import (
    BackboneOption,
    ContextOption,
    ImportOption,
    JsonOption,
    RoundsOption,
    SizeOption,
    parse_size,
)
from reconet.cli.output import print_result, show_progress
from reconet.system.readable import counted

OptionalNetworkArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NETWORK",
        help="A run directory, a .safetensors file, or a name of `reconet zoo`. By default RecoNet "
        "with random weights.",
    ),
]
WayOption = Annotated[
    list[str] | None,
    typer.Option("--way", metavar="NAME", help="Only this way beside eager fp32. May be repeated."),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", min=1, help="Threads of every runtime, by default torch's."
    ),
]


def model(
    network: OptionalNetworkArgument = None,
    size: SizeOption = "512x512",
    backbone: BackboneOption = "resnet50",
    rounds: RoundsOption = 5,
    way: WayOption = None,
    context: ContextOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
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
    from reconet.cli.tables.bench import model_table
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
    title = f"{trained.info.recipe.model.backbone}, one image of {size}, {counted(count, 'thread')}"
    values = {"size": list(pixels), "threads": count, "ways": [asdict(r) for r in results]}
    print_result(values, [model_table(title, results)], as_json)
