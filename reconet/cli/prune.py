"""reconet prune."""

from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import DEVICE, IMPORT, JSON, NETWORK, REQUIRED, ROOT, option
from reconet.cli.output import MIB, make_table, print_result, show_progress
from reconet.errors import RecipeError
from reconet.system.readable import counted

if TYPE_CHECKING:
    from rich.table import Table

    from reconet.prune import PruneResult


def prune(
    network: str = NETWORK,
    rank: str = option("--rank N[,N...]", "Ranks to keep. Several make a table.", REQUIRED),
    split: str | None = option(
        "--split NAME", "Split to choose the ranks by, by default the training's."
    ),
    images: int = option("--images N", "Images of that split, evenly spaced.", 64, min=1),
    out: Path | None = option(
        "--out DIR",
        "By default RUN-rank<N> or <name>-rank<N>. Several ranks go into DIR/rank<N>.",
    ),
    root: Path | None = ROOT,
    device: str = DEVICE,
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Keep the ranks that matter most, and measure the difference.

    The result is a run directory: you can evaluate it, predict with it, export it, or train its
    recipe.json further.

    \b
    Examples:
      reconet prune runs/first --rank 4
      reconet prune runs/first --rank 2,4,6 --out runs/pruned --json
      reconet train runs/first-rank4/recipe.json --out runs/tuned
    """
    parts = [part.strip() for part in rank.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise RecipeError(f"--rank takes numbers above 0 such as 32 or 8,16,32, got {rank!r}.")
    from reconet.prune import prune_run

    with show_progress("prune") as progress:
        result = prune_run(
            network,
            sorted(set(map(int, parts)), reverse=True),
            split=split,
            images=images,
            out=out,
            root=root,
            device=device,
            progress=progress,
        )
    print_result(result.as_dict(), [_table(result), *result.directories], as_json)


def _table(result: "PruneResult") -> "Table":
    rows = [
        (
            one.name,
            str(one.rank),
            f"{100 * one.figures['miou']:.2f}",
            f"{one.params:,}",
            f"{one.core_params:,}",
            f"{one.file_bytes / MIB:.2f}",
            f"{one.macs / 1e9:.4f}",
            f"{one.core_macs / 1e9:.4f}",
            _ratio(one.time, one.time_range),
            _ratio(one.core_time, one.core_time_range),
        )
        for one in result.networks
    ]
    columns = ["network", "rank", "mIoU %", "parameters", "of its core", "file MiB"]
    columns += ["MACs G", "of its core", "time", "of its core"]
    caption = (
        f"Ranks chosen by {counted(result.images, 'image')} of {result.calibrated_on}. Time is the "
        "median ratio to the network before, measured in turns with it on one image of the "
        "training crop's size, with its range over the rounds. ~ marks a range that includes "
        "1: noise."
    )
    return make_table(f"{result.dataset}: {result.protocol}", columns, rows, caption=caption)


def _ratio(median: float, extent: tuple[float, float]) -> str:
    """Return "0.94 (0.91-0.98)", with a ~ if the range includes 1."""
    low, high = extent
    if low == high == 1:  # the network before, compared with itself
        return "1"
    return f"{'~' if low <= 1 <= high else ''}{median:.2f} ({low:.2f}-{high:.2f})"
