"""reconet evaluate."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import (
    ANY_NETWORK,
    DATA,
    DEVICE,
    FAST,
    FLIP,
    IMPORT,
    JSON,
    MODE,
    RELATIVE_TO,
    ROOT,
    SCALES,
    SET,
    check_settings,
    data_settings,
    eval_settings,
    option,
)
from reconet.cli.output import make_table, print_result, show_progress
from reconet.errors import RecipeError
from reconet.system.readable import counted, split_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.evaluation import Evaluation
    from reconet.inference import Predictor
    from reconet.recipes.schema import Data
    from reconet.system.progress import Progress


def evaluate(
    network: str = ANY_NETWORK,
    split: str | None = option("--split NAME", "Split to score, by default that of the recipe."),
    scales: str | None = SCALES,
    flip: bool | None = FLIP,
    mode: str | None = MODE,
    relative_to: str | None = RELATIVE_TO,
    submit: Path | None = option(
        "--submit DIR", "Also write predictions for the dataset's test server."
    ),
    calibrate: bool = option(
        "--calibrate", "Fit a temperature, and write it into the network's file.", False
    ),
    root: Path | None = ROOT,
    changes: list[str] | None = SET,
    data_file: Path | None = DATA,
    fast: bool = FAST,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Score a network: mIoU, accuracies, and the IoU of each class.

    The images are those of the network's own dataset. They are shown as its recipe says, and the
    scores are printed with that protocol. mIoU and boundary IoU have 95 % intervals: a bootstrap
    over images. The calibration error says how far confidences are from the truth. --set changes
    settings of data and eval. Scores with --fast may differ by half a point from those of fp32.

    \b
    Examples:
      reconet evaluate runs/first
      reconet evaluate runs/first --scales 0.75,1,1.25 --flip
      reconet evaluate pspnet_r50-d8_512x512_20k_voc12aug --set data.root=/data/voc
      reconet evaluate runs/mine --data other.yaml --calibrate
      reconet evaluate runs/voc --split test --submit upload
    """
    settings = [
        *data_settings(data_file),
        *check_settings(changes),
        *eval_settings(scales, flip, mode, relative_to),
    ]
    from reconet import evaluation
    from reconet.recipes import apply_overrides

    if fast and calibrate:
        raise RecipeError("--calibrate is for the network as it was saved: leave out --fast.")
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
            calibrate=calibrate,
            progress=progress,
        )
    if result is not None:  # of many processes, one has the result
        print_result(
            result.as_dict(), [*_tables(result), *_calibration(result, calibrate)], as_json
        )


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


def _tables(result: "Evaluation") -> "list[RenderableType]":
    """Return the IoU of each class, the scores, and the protocol that they depend on."""
    from reconet.evaluation import rough
    from reconet.evaluation.metrics import score_labels

    parts: list[RenderableType] = []
    title = split_name(result.dataset, result.split, result.title)
    title += f", {counted(result.images, 'image')}"
    if result.figures:
        classes = [[name, _percent(iou)] for name, iou in result.iou.items()]
        scores = [
            [label, _percent(result.figures[key]), _range(result.intervals.get(key))]
            for key, label in score_labels().items()
            if key in result.figures
        ]
        parts.append(make_table("IoU of each class", ["class", "%"], classes))
        parts.append(make_table(title, ["score", "%", "95 % interval"], scores))
        parts += rough(result.images)
    parts.append(f"protocol: {result.protocol}")
    before = result.in_training
    if before is not None and before["protocol"] != result.protocol:
        parts.append(
            f"in training, at step {result.step:,}: mIoU {_percent(before['miou'])} % by another "
            f"protocol: {before['protocol']}"
        )
    if result.submission is not None:
        parts.append(f"for the test server: {result.submission}")
    return parts


def _calibration(result: "Evaluation", is_kept: bool) -> "list[RenderableType]":
    """Return how far confidences are from the truth, and what was done about it."""
    found = result.calibration
    if found is None:
        return []
    line = f"calibration error: {_percent(found.ece)} %"
    if found.temperature == 1:
        return [f"{line}, which no temperature lowers"]
    line += f"; {_percent(found.ece_with)} % with a temperature of {found.temperature:.2f}"
    if not is_kept:
        return [f"{line} (--calibrate keeps it)"]
    bins = zip(found.confidence, found.accuracy, found.share, strict=True)
    rows = [
        [_percent(confidence), _percent(accuracy), _percent(share)]
        for confidence, accuracy, share in bins
        if confidence is not None and accuracy is not None
    ]
    head = ["confidence %", "right %", "of the pixels %"]
    return [make_table("Confidences before", head, rows), f"{line}, which the network keeps now"]


def _range(interval: dict[str, float] | None) -> str:
    return f"{_percent(interval['low'])} to {_percent(interval['high'])}" if interval else ""


def _percent(value: float) -> str:
    return "absent" if value != value else f"{100 * value:.2f}"  # nan: no pixel of the class
