"""Tables of `reconet prune`."""

from rich.table import Table

from reconet.cli.tables.table import MIB, make_table
from reconet.prune import PruneResult
from reconet.system.readable import counted


def prune_table(result: PruneResult) -> Table:
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
            format_ratio(one.time, one.time_range),
            format_ratio(one.core_time, one.core_time_range),
        )
        for one in result.networks
    ]
    columns = ["network", "rank", "mIoU %", "parameters", "of its core", "file MiB"]
    columns += ["MACs G", "of its core", "time", "of its core"]
    table = make_table(f"{result.dataset}: {result.protocol}", columns, rows)
    table.caption = (
        f"Ranks chosen by {counted(result.images, 'image')} of {result.calibrated_on}. Time is the "
        "median ratio to the network before, measured in turns with it on one image of the "
        "training crop's size, with its range over the rounds. ~ marks a range that includes "
        "1: noise."
    )
    return table


def format_ratio(median: float, extent: tuple[float, float]) -> str:
    """Return "0.94 (0.91-0.98)", with a ~ if the range includes 1."""
    low, high = extent
    if low == high == 1:  # the network before, compared with itself
        return "1"
    return f"{'~' if low <= 1 <= high else ''}{median:.2f} ({low:.2f}-{high:.2f})"
