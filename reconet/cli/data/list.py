"""reconet data list."""

from reconet.cli.arguments import ImportOption, JsonOption
from reconet.cli.output import print_result


def list_(imports: ImportOption = None, as_json: JsonOption = False) -> None:
    """List the datasets, and where to get them.

    The table has classes, images and licence of each.

    \b
    Examples:
      reconet data list
      reconet data list --json
    """
    from reconet.cli.tables.data import dataset_tables
    from reconet.data import DATASETS

    infos = {name: kind.info for name, kind in DATASETS.items()}
    values = {
        name: {
            "title": info.title,
            "classes": list(info.classes),
            "splits": dict(info.splits),
            "secret_splits": list(DATASETS[name].secret_splits),
            "licence": info.licence,
            "source": info.source,
            "layout": list(info.layout),
            "notes": list(info.notes),
            "prepare": DATASETS[name].prepare is not None,
        }
        for name, info in infos.items()
    }
    print_result(values, dataset_tables(infos), as_json)
