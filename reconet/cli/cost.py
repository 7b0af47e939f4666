"""reconet cost."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.arguments import (
    IMPORT,
    JSON,
    SET,
    argument,
    option,
    parse_size,
)
from reconet.cli.output import MIB, make_table, print_result
from reconet.errors import RecipeError, pick
from reconet.system.readable import counted

if TYPE_CHECKING:
    from rich.table import Table

    from reconet.cost import Cost, ModelCost
    from reconet.cost.paper import PaperRow

DEFAULT_RECIPE = "voc12/reconet_r101"


def cost(
    recipe: str | None = argument(
        "RECIPE",
        f"A recipe, by name or file, a run or a .safetensors file. By default {DEFAULT_RECIPE}.",
        None,
    ),
    settings: list[str] | None = SET,
    context: list[str] | None = option(
        "--context NAME", "Context on the recipe's backbone. May be repeated, to compare."
    ),
    size: str | None = option(
        "--size HxW", "Size of the image, e.g. 512 or 512x1024. Default: the crop."
    ),
    classes: int | None = option(
        "--classes N", "Number of classes, by default the dataset's.", min=1
    ),
    paper: bool = option("--paper", "Print the paper's tables of costs, beside ours.", False),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
) -> None:
    """Count parameters, multiply-adds and memory of a network.

    The counts are exact. The network is not run.

    \b
    Examples:
      reconet cost scenes/tiny
      reconet cost --context reconet --context fcn
      reconet cost cityscapes/reconet_r50 --size 1024x2048 --classes 19
      reconet cost --set model.rank=32 --json
      reconet cost --paper
    """
    if paper:
        if recipe or settings or context or size or classes:
            raise RecipeError("--paper prints fixed tables. It takes no other option than --json.")
        _print_paper_costs(as_json)
        return
    from reconet.cost import recipe_costs
    from reconet.data import DATASETS
    from reconet.recipes import apply_overrides, find_recipe, with_context

    known = None
    if recipe is not None and recipe.endswith(".safetensors"):
        from reconet.models.trained import read_info

        known = read_info(Path(recipe))
    base = known.recipe if known else find_recipe(recipe or DEFAULT_RECIPE)
    # Settings come last: options of a context are those of the one that is counted.
    recipes = [
        apply_overrides(with_context(base, name), settings or [])
        for name in context or [base.model.context]
    ]
    data = recipes[0].data
    height, width = parse_size(size) if size is not None else data.crop
    if classes is None:
        default = known or pick(DATASETS, data.name, "dataset").info
        classes = len(default.classes) or 21
    costs: dict[str, ModelCost] = {}
    for one in recipes:
        costs |= recipe_costs(one, [one.model.context], (height, width), classes)
    title = (
        f"{recipes[0].model.backbone}, one {height} x {width} image, {counted(classes, 'class')}"
    )
    models = {name: asdict(one) for name, one in costs.items()}
    values = {"input": [height, width], "classes": classes, "models": models}
    table = _comparison(title, costs) if len(costs) > 1 else _one_network(title, *costs.popitem())
    print_result(values, [table], as_json)


def _one_network(title: str, name: str, cost: "ModelCost") -> "Table":
    names = {"core": "  of which core", "aux": "aux (training only)"}
    rows = [_cost_row(names.get(part.name, part.name), part) for part in cost.parts]
    rows.append(_cost_row("total in use", cost.total))
    caption = (
        f"Training keeps {cost.training_bytes / MIB:.1f} MiB for the backward pass; in use at most "
        f"{cost.peak_bytes / MIB:.1f} MiB are alive at once, beside the weights."
    )
    columns = ["part", "parameters", "MACs G", "kept for backward MiB"]
    return make_table(f"{name}, {title}", columns, rows, caption=caption)


def _comparison(title: str, costs: dict[str, "ModelCost"]) -> "Table":
    rows = [
        [*_cost_row(name, cost.total), f"{cost.peak_bytes / MIB:.1f}"]
        for name, cost in costs.items()
    ]
    columns = ["model", "parameters", "MACs G", "kept for backward MiB", "peak in use MiB"]
    return make_table(title, columns, rows)


def _cost_row(name: str, cost: "Cost") -> list[str]:
    saved = f"{cost.saved_bytes / MIB:.1f}"
    return [name, f"{cost.params:,}", f"{cost.macs / 1e9:.4f}", saved]


def _print_paper_costs(as_json: bool) -> None:
    """Print the paper's two tables, the heads counted by one rule, and the paper's claims."""
    from reconet.cost.paper import head_costs, paper_claims, paper_rows

    rows, heads = paper_rows(), head_costs()
    claims = paper_claims(rows, heads)
    values = {
        "rows": [asdict(row) for row in rows],
        "heads": [asdict(head) for head in heads],
        "claims": [asdict(claim) for claim in claims],
    }
    titles = {
        "module": "Module alone, one 512 x 64 x 64 map",
        "network": "ResNet-101 and the head on top of it",
    }
    tables = [
        *(_paper_table(title, [r for r in rows if r.table == t]) for t, title in titles.items()),
        make_table(
            "The heads by one rule: 512 x 512 image, 21 classes, with classifier",
            ["head", "uniform G", "params M"],
            [[h.name, f"{h.macs / 1e9:.3f}", f"{h.params / 1e6:.3f}"] for h in heads],
        ),
        make_table(
            "What the paper says about cost, and the uniform count",
            ["claim", "counted", "holds"],
            [[claim.paper, claim.counted, "yes" if claim.holds else "no"] for claim in claims],
            text=("counted",),
        ),
    ]
    print_result(values, tables, as_json)


def _paper_table(title: str, rows: "list[PaperRow]") -> "Table":
    columns = ["method", "paper G", "its rule G", "uniform G", "paper MB", "its rule MiB"]
    cells = [
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
    ]
    notes = [f"{row.method}: {row.note}." for row in rows]
    caption = "\n".join(["uniform: every product counted, once", *notes])
    return make_table(title, [*columns, "params M", "evidence"], cells, caption=caption)
