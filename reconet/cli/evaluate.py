"""reconet evaluate."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    AnyNetworkArgument,
    DataOption,
    DeviceOption,
    FastOption,
    FlipOption,
    ImportOption,
    JsonOption,
    ModeOption,
    RelativeToOption,
    RootOption,
    ScalesOption,
    SetOption,
    check_settings,
    data_settings,
    eval_settings,
)
from reconet.cli.output import print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.inference import Predictor
    from reconet.recipes.schema import Data
    from reconet.system.progress import Progress

SplitOption = Annotated[
    str | None,
    typer.Option("--split", metavar="NAME", help="Split to score, by default that of the recipe."),
]
SubmitOption = Annotated[
    Path | None,
    typer.Option(
        "--submit", metavar="DIR", help="Also write predictions for the dataset's test server."
    ),
]


def evaluate(
    network: AnyNetworkArgument,
    split: SplitOption = None,
    scales: ScalesOption = None,
    flip: FlipOption = None,
    mode: ModeOption = None,
    relative_to: RelativeToOption = None,
    submit: SubmitOption = None,
    root: RootOption = None,
    changes: SetOption = None,
    data_file: DataOption = None,
    fast: FastOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Score a network: mIoU, accuracies, and the IoU of each class.

    The images are those of the network's own dataset. They are shown as its recipe says, and the
    scores are printed with that protocol. --set changes settings of data and eval. Scores with
    --fast may differ by half a point from those of fp32.

    \b
    Examples:
      reconet evaluate runs/first
      reconet evaluate runs/first --scales 0.75,1,1.25 --flip
      reconet evaluate pspnet_r50-d8_512x512_20k_voc12aug --set data.root=/data/voc
      reconet evaluate runs/mine --data other.yaml
      reconet evaluate runs/voc --split test --submit upload
    """
    settings = [
        *data_settings(data_file),
        *check_settings(changes),
        *eval_settings(scales, flip, mode, relative_to),
    ]
    from reconet import evaluation
    from reconet.cli.tables.evaluate import score_tables
    from reconet.recipes import apply_overrides

    with show_progress("evaluate") as progress:
        opened = _open_fast(network, settings, split, root, device, progress) if fast else None
        result = evaluation.evaluate(
            opened[0] if opened else network,
            data=opened[1] if opened else None,
            split=split,
            root=root,
            device=device,
            change=lambda recipe: apply_overrides(recipe, settings),
            submit=submit,
            progress=progress,
        )
    if result is not None:  # of many processes, one has the result
        print_result(result.as_dict(), score_tables(result), as_json)


def _open_fast(
    source: str,
    settings: list[str],
    split: str | None,
    root: Path | None,
    device: str,
    progress: "Progress",
) -> "tuple[Predictor, Data]":
    """Open a network the fastest way that keeps its labels, with the data that it is scored on."""
    from reconet.data import open_split
    from reconet.inference import Predictor, Protocol, find_network
    from reconet.inference.fast import open_fast
    from reconet.inference.network import is_export
    from reconet.models.trained import find_weights, read_info
    from reconet.recipes import apply_overrides
    from reconet.system.distributed import pick_device

    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        raise RecipeError("--fast is for one process: leave out torchrun, or --fast.")
    path = find_network(source, progress=progress).path
    where = pick_device(device)
    network = open_fast(path, where, progress=progress) if is_export(path) else None
    info = network.info if network else read_info(find_weights(path))
    recipe = apply_overrides(info.recipe, settings)
    data = recipe.data if root is None else recipe.data.model_copy(update={"root": root})
    if network is None:
        open_split(data, split or data.val_split)  # a wrong folder is told before minutes pass
        network = open_fast(path, where, data=data, progress=progress)
    protocol = Protocol.of(recipe.eval, recipe.data)
    return Predictor(network, protocol=protocol, device=device), data
