"""The verb about costs."""

from dataclasses import asdict
from typing import Annotated

import typer

from reconet.cli.common import Json, Set, parse_size, resolve
from reconet.cli.output import print_result
from reconet.errors import RecipeError, pick

DEFAULT = "voc12/reconet_r101"


def cost(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE]",
            help=f"Whose network; see `reconet recipes`. By default {DEFAULT}.",
            show_default=False,
        ),
    ] = None,
    settings: Set = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Context on the recipe's backbone; repeat it to compare."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Input, e.g. 512 or 512x1024; by default the crop."),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Number of classes; by default the dataset's.")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's cost tables, beside ours.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Parameters, multiply-adds and memory of a network; exact, without running it.

    \b
    Examples:
      reconet cost                                       RecoNet, ResNet-101, 512 x 512
      reconet cost --model reconet --model fcn           several contexts, one backbone
      reconet cost cityscapes/reconet_r50 --size 1024x2048 --classes 19
      reconet cost --set model.rank=32 --json
      reconet cost --paper                               the paper's tables, recomputed
    """
    from reconet.cli.tables import bench as tables_bench

    if paper:
        if recipe or settings or model or size or classes:
            raise RecipeError("--paper prints fixed tables; it goes with --json only.")
        from reconet.cost.paper import head_costs, paper_claims, paper_rows

        rows, heads = paper_rows(), head_costs()
        claims = paper_claims(rows, heads)
        print_result(
            {
                "rows": [asdict(row) for row in rows],
                "heads": [asdict(head) for head in heads],
                "claims": [asdict(claim) for claim in claims],
            },
            tables_bench.paper_tables(rows, heads, claims),
            as_json,
        )
        return

    from reconet.cost.counter import recipe_costs
    from reconet.data import DATASETS

    resolved = resolve(recipe or DEFAULT, settings)
    height, width = parse_size(size) if size is not None else resolved.data.crop
    classes = classes or len(pick(DATASETS, resolved.data.name, "dataset").info.classes) or 21
    costs = recipe_costs(resolved, model or [resolved.model.context], (height, width), classes)
    where = f"{resolved.model.backbone}, one {height} x {width} image, {classes} classes"
    values = {
        "input": [height, width],
        "classes": classes,
        "models": {n: asdict(c) for n, c in costs.items()},
    }
    shown = [tables_bench.model_table(f"{name}, {where}", one) for name, one in costs.items()]
    if len(costs) > 1:
        shown = [tables_bench.models_table(where, costs)]
    print_result(values, shown, as_json)
