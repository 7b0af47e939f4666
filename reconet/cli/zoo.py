"""reconet zoo and reconet convert: public networks, by name or from a file."""

from dataclasses import asdict
from pathlib import Path

from reconet.cli.arguments import IMPORT, JSON, REQUIRED, argument, option
from reconet.cli.output import console, make_table, print_note, print_result
from reconet.errors import RecipeError

WIDE = 140  # columns of a terminal that has room for all that is known of a network


def zoo(
    words: list[str] | None = argument(
        "WORD",
        "List only networks with all of these words in their name, method, backbone, dataset or "
        "source.",
        None,
    ),
    as_json: bool = JSON,
) -> None:
    """List the networks that can be used by name.

    Those of this package come first. A public one is fetched when it is first used, converted,
    and kept in the cache.

    \b
    Examples:
      reconet zoo
      reconet zoo pspnet ade20k
      reconet zoo torchvision --json
    """
    from reconet.inference.shipped import describe_shipped
    from reconet.zoo import ListedNetwork, cached_path, search_public

    own, public = describe_shipped(words or []), search_public(words or [])
    found: list[ListedNetwork] = [*own, *public]
    if not found:
        raise RecipeError(f"no network has {' and '.join(words or [])}. Try `reconet zoo`.")
    here = {one.name for one in own} | {o.name for o in public if cached_path(o).is_file()}
    values = [asdict(one) | {"cached": one.name in here} for one in found]
    columns = {
        "name": [one.name for one in found],
        "method": [one.context for one in found],
        "backbone": [one.backbone for one in found],
        "dataset": [one.dataset for one in found],
        "mIoU %": [f"{100 * one.miou:.2f}" for one in found],
        "size": [f"{one.megabytes} MB" for one in found],
        "licence": [one.licence for one in found],
        "here": ["yes" if one.name in here else "" for one in found],
    }
    if console().width < WIDE:  # names are copied, so they stay whole
        columns = {title: columns[title] for title in ("name", "mIoU %", "size", "here")}
    table = make_table(
        "Networks by name",
        list(columns),
        zip(*columns.values(), strict=True),
        text=("method", "backbone", "dataset", "licence"),
        caption=f"{len(found)} networks. mIoU is as its makers state it, at one scale, and not "
        "comparable between datasets. Sizes are about. Licences are those of the weights.",
    )
    print_result({"networks": values}, [table], as_json)


def convert(
    file: Path = argument("FILE", "A .pth file of the other toolkit."),
    source: str = option("--from mmseg|torchvision", "The toolkit that wrote it.", REQUIRED),
    out: Path = option("--out DIR", "Folder to write.", REQUIRED),
    dataset: str | None = option(
        "--dataset NAME", "A name of `reconet data list` whose classes it has."
    ),
    classes: str | None = option("--classes A,B,...", "Names of its classes, in their order."),
    as_json: bool = JSON,
    imports: list[str] | None = IMPORT,
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
    text = f"{model.context} on {model.backbone}, {len(info.classes)} classes"
    print_result(values, [f"{text} ({options})" if options else text, str(path)], as_json)
