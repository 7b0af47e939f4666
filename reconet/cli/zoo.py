"""reconet zoo and reconet convert: public networks, by name or from a file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import ImportOption, JsonOption
from reconet.cli.output import print_note, print_result
from reconet.errors import RecipeError

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORD",
        help="List only networks with all of these words in their name, method, backbone, dataset "
        "or source.",
        show_default=False,
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A .pth file of the other toolkit.")
]
SourceOption = Annotated[
    str, typer.Option("--from", metavar="mmseg|torchvision", help="The toolkit that wrote it.")
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write.")]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset", metavar="NAME", help="A name of `reconet data list` whose classes it has."
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option("--classes", metavar="A,B,...", help="Names of its classes, in their order."),
]


def zoo(words: WordsArgument = None, as_json: JsonOption = False) -> None:
    """List the networks that can be used by name.

    Those of this package come first. A public one is fetched when it is first used, converted,
    and kept in the cache.

    \b
    Examples:
      reconet zoo
      reconet zoo pspnet ade20k
      reconet zoo torchvision --json
    """
    from reconet.cli.tables.table import make_table
    from reconet.inference import describe_shipped
    from reconet.zoo import ListedNetwork, cached_path, search_public

    own, public = describe_shipped(words or []), search_public(words or [])
    found: list[ListedNetwork] = [*own, *public]
    if not found:
        raise RecipeError(f"no network has {' and '.join(words or [])}. Try `reconet zoo`.")
    cached = {one.name for one in public if cached_path(one).is_file()}
    here = cached | {one.name for one in own}
    rows = [asdict(one) | {"cached": one.name in here} for one in found]
    columns = ["name", "method", "backbone", "dataset", "mIoU %", "size", "licence", "here"]
    table = make_table(
        "Networks by name",
        columns,
        [
            [
                one.name,
                one.context,
                one.backbone,
                one.dataset,
                f"{100 * one.miou:.2f}",
                f"{one.megabytes} MB",
                one.licence,
                "yes" if one.name in here else "",
            ]
            for one in found
        ],
    )
    for column in ("method", "backbone", "dataset", "licence"):
        table.columns[columns.index(column)].justify = "left"
    table.caption = (
        f"{len(found)} networks. mIoU is as its makers state it, at one scale, and not comparable "
        "between datasets. Sizes are about. Licences are those of the weights."
    )
    print_result({"networks": rows}, [table], as_json)


def convert(
    file: FileArgument,
    source: SourceOption,
    out: OutOption,
    dataset: DatasetOption = None,
    classes: ClassesOption = None,
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Convert a network of another toolkit to one of ours.

    The converted network computes the same. A file that does not fit completely is refused. No code
    in the file is run.

    \b
    Examples:
      reconet convert pspnet_ade.pth --from mmseg --out nets/pspnet --dataset ade20k
      reconet convert deeplab.pth --from torchvision --out nets/deeplab --dataset voc12
      reconet convert mine.pth --from mmseg --out nets/mine --classes road,roof,tree
    """
    from reconet.system.files import check_output_folder
    from reconet.zoo.convert import convert_file, was_converted, write_network

    if dataset is not None and classes is not None:
        raise RecipeError("--dataset and --classes both name the classes; give one of them.")
    check_output_folder(out, was_converted)
    names = [name.strip() for name in classes.split(",")] if classes else []
    if len(set(names)) < len(names) or "" in names:
        raise RecipeError(f"--classes takes different names with commas, got {classes!r}.")
    conversion = convert_file(file, source, dataset=dataset, classes=names)
    path = write_network(out, conversion.network)
    for note in conversion.notes:
        print_note(f"{note}.")
    info = conversion.network.info
    model = info.recipe.model
    values = {
        "path": str(path),
        "context": model.context,
        "options": model.options,
        "backbone": model.backbone,
        "stem": model.stem,
        "dataset": info.recipe.data.name,
        "classes": list(info.classes),
        "notes": list(conversion.notes),
    }
    options = ", ".join(f"{key}={value}" for key, value in model.options.items())
    text = (
        f"{model.context} on {model.backbone}, {len(info.classes)} classes"
        f"{f' ({options})' if options else ''}"
    )
    print_result(values, [text, str(path)], as_json)
