"""reconet cache list."""

from reconet.cli.arguments import JsonOption
from reconet.cli.output import print_result


def list_(as_json: JsonOption = False) -> None:
    """List what is cached: features, drawn masks, what --fast found.

    The table has dataset and network of each, and how complete it is.

    The cache is in $RECONET_CACHE, by default in ~/.cache/reconet. docs/frozen.md tells what it
    is for.

    \b
    Examples:
      reconet cache list
      reconet cache list --json
    """
    from reconet.cache import cache_root, list_cache
    from reconet.cli.tables.cache import cache_table

    root, items = cache_root(), list_cache()
    values = {
        "folder": str(root),
        "bytes": sum(item.bytes for item in items),
        "items": [item.as_dict() for item in items],
    }
    print_result(values, [cache_table(root, items)], as_json)
