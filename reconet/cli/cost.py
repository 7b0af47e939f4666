"""reconet cost."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.arguments import ImportOption, JsonOption, SetOption, parse_size, resolve_recipe
from reconet.cli.output import print_result
from reconet.errors import RecipeError, pick
from reconet.system.readable import counted

DEFAULT_RECIPE = "voc12/reconet_r101"

RecipeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE",
        help=f"A name of `reconet recipes`, or a recipe file. By default {DEFAULT_RECIPE}.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Context on the recipe's backbone. May be repeated, to compare.",
    ),
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="HxW", help="Size of the image, e.g. 512 or 512x1024. Default: the crop."
    ),
]
ClassesOption = Annotated[
    int | None,
    typer.Option(
        "--classes", metavar="N", min=1, help="Number of classes, by default the dataset's."
    ),
]
PaperOption = Annotated[
    bool, typer.Option("--paper", help="Print the paper's tables of costs, beside ours.")
]


def cost(
    recipe: RecipeArgument = None,
    settings: SetOption = None,
    context: ContextOption = None,
    size: SizeOption = None,
    classes: ClassesOption = None,
    paper: PaperOption = False,
    as_json: JsonOption = False,
    imports: ImportOption = None,
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
    from reconet.cli.tables.cost import cost_comparison_table, cost_table
    from reconet.cost.counter import recipe_costs
    from reconet.data import DATASETS

    resolved = resolve_recipe(recipe or DEFAULT_RECIPE, settings)
    height, width = parse_size(size) if size is not None else resolved.data.crop
    classes = classes or len(pick(DATASETS, resolved.data.name, "dataset").info.classes) or 21
    costs = recipe_costs(resolved, context or [resolved.model.context], (height, width), classes)
    title = f"{resolved.model.backbone}, one {height} x {width} image, {counted(classes, 'class')}"
    models = {name: asdict(one) for name, one in costs.items()}
    values = {"input": [height, width], "classes": classes, "models": models}
    if len(costs) > 1:
        tables = [cost_comparison_table(title, costs)]
    else:
        tables = [cost_table(f"{name}, {title}", one) for name, one in costs.items()]
    print_result(values, tables, as_json)


def _print_paper_costs(as_json: bool) -> None:
    from reconet.cli.tables.cost import paper_tables
    from reconet.cost.paper import head_costs, paper_claims, paper_rows

    rows, heads = paper_rows(), head_costs()
    claims = paper_claims(rows, heads)
    values = {
        "rows": [asdict(row) for row in rows],
        "heads": [asdict(head) for head in heads],
        "claims": [asdict(claim) for claim in claims],
    }
    print_result(values, paper_tables(rows, heads, claims), as_json)
