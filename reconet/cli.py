"""reconet <verb>: each verb is one function of the same name; only parsing and printing is here.

Nothing heavy is imported at the top: `reconet --help` answers at once.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reconet import __version__
from reconet.errors import RecipeError, ReconetError

if TYPE_CHECKING:
    from rich.table import Table

    from reconet.recipe import Recipe

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench_app, name="bench", help="Measure speed and memory, side by side in one run.")

RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A name of `reconet recipes`, or a saved recipe.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"reconet {__version__}")
        raise typer.Exit


@app.callback()
def _reconet(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Semantic segmentation with tensor low-rank context reconstruction.

    \b
    Start here:
      reconet recipes                             what can be trained
      reconet show voc12/reconet_r101             every setting of a recipe
      reconet cost voc12/reconet_r101             what its network costs
      reconet bench module                        RecoNet's core against its published form
    """


@app.command()
def recipes(as_json: Json = False) -> None:
    """List the recipes.

    \b
    Examples:
      reconet recipes
      reconet recipes --json
    """
    from reconet.recipes import RECIPES

    lines = {name: make.__doc__ or "" for name, make in sorted(RECIPES.items())}
    if as_json:
        _print_json(lines)
        return
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"{name:<{width}}  {line}")


@app.command()
def show(
    recipe: RecipeName,
    settings: Set = None,
    out: Annotated[Path | None, typer.Option(help="Write the recipe to this file.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also build the network and load its weights.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a recipe as it would run, one setting a line, in the form that --set takes.

    \b
    Examples:
      reconet show voc12/reconet_r101
      reconet show voc12/reconet_r101 --set model.rank=32 --set optim.lr=0.002
      reconet show ade20k/reconet_r50 --set model.weights=resnet50s.safetensors --check
      reconet show scenes/reconet --set train.epochs=2 --out short.json
    """
    from reconet import recipe as recipes_

    resolved = _recipe(recipe, settings)
    if check:
        from reconet.models.segmenter import build_model

        model = build_model(resolved, num_classes=2)
        parameters = sum(p.numel() for p in model.backbone.parameters())
        source = resolved.model.weights or "no file: they start at random"
        print(f"# builds; {parameters:,} backbone weights from {source}", file=sys.stderr)
    if out is not None:
        recipes_.write(resolved, out)
    if as_json:
        print(recipes_.dump(resolved))
        return
    lines = list(recipes_.settings(resolved))
    values = [f"{name}={_as_setting(value)}" for name, value, _ in lines]
    width = min(48, max(map(len, values)))
    for value, (_, _, about) in zip(values, lines, strict=True):
        print(f"{value:<{width}}  # {about}")


@app.command()
def cost(
    recipe: Annotated[
        str, typer.Argument(metavar="[RECIPE]", help="Whose network; see `reconet recipes`.")
    ] = "voc12/reconet_r101",
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
    classes: Annotated[int, typer.Option(min=1, help="Number of classes.")] = 21,
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
    from reconet import tables

    if paper:
        from reconet.cost_paper import paper_rows

        rows = paper_rows()
        _report({"rows": [asdict(row) for row in rows]}, tables.paper_tables(rows), as_json)
        return

    import torch

    from reconet.cost import model_cost
    from reconet.models.segmenter import build_model

    resolved = _recipe(recipe, settings)
    height, width = _size(size) if size is not None else resolved.data.crop
    costs = {}
    for name in model or [resolved.model.context]:
        one = _with_context(resolved, name)
        with torch.device("meta"):
            net = build_model(one, classes, pretrained=False)
        costs[name] = model_cost(net, (height, width))
    where = f"{resolved.model.backbone}, one {height} x {width} picture, {classes} classes"
    values = {
        "input": [height, width],
        "classes": classes,
        "models": {n: asdict(c) for n, c in costs.items()},
    }
    shown = [tables.model_table(f"{name}, {where}", one) for name, one in costs.items()]
    if len(costs) > 1:
        shown = [tables.models_table(where, costs)]
    _report(values, shown, as_json)


@bench_app.command("module")
def bench_module(
    rank: Annotated[int, typer.Option(min=1, help="Rank of the reconstruction.")] = 64,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the map.")] = 512,
    size: Annotated[str, typer.Option(metavar="HxW", help="Size of the map.")] = "64x64",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 15,
    as_json: Json = False,
) -> None:
    """RecoNet's core (TGM + TRM) as one product per axis, against the published loop over ranks.

    Times are medians over rounds in which all take turns. Memory is counted in units of the input
    map: the most that is alive at once, beside the input, the weights and their gradients.

    \b
    Examples:
      reconet bench module
      reconet bench module --rank 16 --size 64x128 --json
    """
    from reconet import tables
    from reconet.bench import bench_module

    height, width = _size(size)
    results = bench_module(channels=channels, size=(height, width), rank=rank, repeats=repeats)
    fast, loop = results
    values = {
        "map": [channels, height, width],
        "rank": rank,
        "cores": [asdict(result) for result in results],
        "forward_speedup": loop.forward_ms / fast.forward_ms,
        "forward_backward_speedup": loop.forward_backward_ms / fast.forward_backward_ms,
    }
    title = f"One {channels} x {height} x {width} map, rank {rank}"
    _report(values, [tables.bench_table(title, results)], as_json)


def _recipe(name: str, settings: list[str] | None) -> "Recipe":
    from reconet.recipe import apply_overrides
    from reconet.recipes import find

    return apply_overrides(find(name), settings or [])


def _with_context(recipe: "Recipe", name: str) -> "Recipe":
    """Another context on the same backbone; the options of the first one are not its own."""
    if name == recipe.model.context:
        return recipe
    update: dict[str, Any] = {"context": name, "rank": None, "options": {}}
    return recipe.model_copy(update={"model": recipe.model.model_copy(update=update)})


def _size(text: str) -> tuple[int, int]:
    parts = text.split("x") if "x" in text else [text, text]
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise RecipeError(f"--size takes a number or HEIGHTxWIDTH, such as 512x1024, got {text!r}.")
    return int(parts[0]), int(parts[1])


def _as_setting(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _report(values: dict[str, Any], shown: Sequence["Table"], as_json: bool) -> None:
    if as_json:
        _print_json(values)
        return
    from rich.console import Console

    # Into a pipe or a file a table is as wide as it needs to be.
    console = Console(width=None if sys.stdout.isatty() else 200)
    for one in shown:
        console.print(one)


def _print_json(values: object) -> None:
    print(json.dumps(values, indent=2))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; what a user can cause and mend is one line on stderr, and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=arguments, prog_name="reconet", standalone_mode=False)
    except ReconetError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("reconet: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `reconet show … | head`
        sys.stderr.close()
        return 0
    except Exception as error:
        # Typer's own complaints about the command line; their class is not part of its interface.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message().rstrip(".")
        if message.startswith("Usage:"):  # no verb at all: the help is the answer
            print(message)
            return 2
        return _fail(f"{message}. Try --help.")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"reconet: {' '.join(message.split())}", file=sys.stderr)
    return 2
