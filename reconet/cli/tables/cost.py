"""Tables of `reconet cost`."""

from collections.abc import Sequence

from rich.table import Table

from reconet.cli.tables.table import MIB, make_table
from reconet.cost import Cost, ModelCost
from reconet.cost.paper import Claim, HeadCost, PaperRow


def cost_table(title: str, cost: ModelCost) -> Table:
    names = {"core": "  of which core", "aux": "aux (training only)"}
    rows = [_cost_row(names.get(part.name, part.name), part) for part in cost.parts]
    rows.append(_cost_row("total in use", cost.total))
    table = make_table(title, ["part", "parameters", "MACs G", "kept for backward MiB"], rows)
    table.caption = (
        f"Training keeps {cost.training_bytes / MIB:.1f} MiB for the backward pass; in use at most "
        f"{cost.peak_bytes / MIB:.1f} MiB are alive at once, beside the weights."
    )
    return table


def cost_comparison_table(title: str, costs: dict[str, ModelCost]) -> Table:
    rows = [
        [*_cost_row(name, cost.total), f"{cost.peak_bytes / MIB:.1f}"]
        for name, cost in costs.items()
    ]
    columns = ["model", "parameters", "MACs G", "kept for backward MiB", "peak in use MiB"]
    return make_table(title, columns, rows)


def paper_tables(
    rows: Sequence[PaperRow], heads: Sequence[HeadCost], claims: Sequence[Claim]
) -> list[Table]:
    """Return the paper's two tables, the heads counted by one rule, and the paper's claims."""
    titles = {
        "module": "Module alone, one 512 x 64 x 64 map",
        "network": "ResNet-101 and the head on top of it",
    }
    compared = make_table(
        "What the paper says about cost, and the uniform count",
        ["claim", "counted", "holds"],
        [[claim.paper, claim.counted, "yes" if claim.holds else "no"] for claim in claims],
    )
    compared.columns[1].justify = "left"
    return [
        *(_paper_table(title, [r for r in rows if r.table == t]) for t, title in titles.items()),
        make_table(
            "The heads by one rule: 512 x 512 image, 21 classes, with classifier",
            ["head", "uniform G", "params M"],
            [[h.name, f"{h.macs / 1e9:.3f}", f"{h.params / 1e6:.3f}"] for h in heads],
        ),
        compared,
    ]


def _cost_row(name: str, cost: Cost) -> list[str]:
    saved = f"{cost.saved_bytes / MIB:.1f}"
    return [name, f"{cost.params:,}", f"{cost.macs / 1e9:.4f}", saved]


def _paper_table(title: str, rows: Sequence[PaperRow]) -> Table:
    columns = [
        "method",
        "paper G",
        "its rule G",
        "uniform G",
        "paper MB",
        "its rule MiB",
        "params M",
        "evidence",
    ]
    table = make_table(
        title,
        columns,
        [
            [
                row.method,
                f"{row.paper_g:g}",
                f"{row.rule_g:.4f}",
                f"{row.uniform_g:.4f}",
                "-" if row.paper_mib is None else f"{row.paper_mib:.2f}",
                f"{row.rule_mib:.2f}",
                f"{row.params_m:.2f}",
                row.evidence,
            ]
            for row in rows
        ],
    )
    notes = [f"{row.method}: {row.note}." for row in rows]
    table.caption = "\n".join(["uniform: every product counted, once", *notes])
    return table
