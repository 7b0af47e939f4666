"""Write the table of docs/datasets.md, from the declarations of all datasets: `make docs`."""

import re
from pathlib import Path

from reconet.data import DATASETS

PAGE = Path(__file__).parent.parent / "docs" / "datasets.md"


def table() -> str:
    lines = ["| name | classes | splits (images) | prepare |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(row, DATASETS)]) + "\n"


def row(name: str) -> str:
    """Write the row of one dataset. A split without an official number has its name only."""
    entry = DATASETS[name]
    classes = str(len(entry.info.classes) or "yours")
    splits = []
    for split, count in entry.info.splits.items():
        secret = " (secret)" if split in entry.secret_splits else ""
        splits.append(f"{split} {count}{secret}" if count else split)
    cells = (f"`{name}`", classes, ", ".join(splits), entry.converts or "-")
    return f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Replace the table between the two marks."""
    pattern = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.S)
    return pattern.sub(lambda m: m[1] + "\n" + table() + "\n" + m[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
