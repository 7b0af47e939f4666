"""reconet data: one file per verb."""

from collections.abc import Callable

from reconet.cli.data.check import check
from reconet.cli.data.inspect import inspect
from reconet.cli.data.list import list_
from reconet.cli.data.prepare import prepare

DATA_VERBS: dict[str, Callable[..., None]] = {
    "list": list_,
    "inspect": inspect,
    "prepare": prepare,
    "check": check,
}

__all__ = ["DATA_VERBS"]
