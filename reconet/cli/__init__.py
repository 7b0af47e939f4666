"""reconet <verb>: each verb is one function; only parsing and printing happen here.

Nothing heavy is imported at the top of these files: `reconet --help` answers at once.
To add a verb: write a function in one of them, add one line to VERBS or to a group below.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from reconet import __version__
from reconet.cli import (
    benches,
    costs,
    datasets,
    explains,
    exports,
    predicts,
    recipes,
    reports,
    runs,
    serves,
    studies,
)
from reconet.errors import EchoError, ReconetError

Verb = Callable[..., None]

VERBS: dict[str, Verb] = {
    "recipes": recipes.recipes,
    "show": recipes.show,
    "train": runs.train,
    "evaluate": runs.evaluate,
    "predict": predicts.predict,
    "report": reports.report,
    "explain": explains.explain,
    "prune": explains.prune,
    "serve": serves.serve,
    "study": studies.study,
    "cost": costs.cost,
    "export": exports.export,
    "share": exports.share,
}
GROUPS: dict[str, tuple[str, dict[str, Verb]]] = {
    "data": (
        "Datasets: what exists, make them ready, look for mistakes in them.",
        {"list": datasets.list_, "prepare": datasets.prepare, "check": datasets.check},
    ),
    "bench": (
        "Measure speed and memory, side by side in one run.",
        {
            "module": benches.module,
            "data": benches.data,
            "train": benches.train,
            "evaluate": benches.evaluate,
            "model": benches.model,
        },
    ),
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"reconet {__version__}")
        raise typer.Exit


def _reconet(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Semantic segmentation with tensor low-rank context reconstruction.

    \b
    Start here:
      reconet train scenes/reconet --out runs/first   minutes on a laptop, nothing to download
      reconet evaluate runs/first                     its scores, class by class
      reconet predict runs/first street.jpg           labels of your own images
      reconet report runs/first                       curves and images, in one HTML file
      reconet recipes                                 what else can be trained
      reconet show voc12/reconet_r101                 every setting of a recipe
      reconet data list                               the datasets, and where to get them
    """


def _build() -> typer.Typer:
    app = _typer()
    app.callback()(_reconet)
    for name, verb in VERBS.items():
        app.command(name)(verb)
    for name, (about, verbs) in GROUPS.items():
        group = _typer()
        for verb_name, verb in verbs.items():
            group.command(verb_name)(verb)
        app.add_typer(group, name=name, help=about)
    return app


def _typer() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; what a user can cause and mend is one line on stderr, and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _build()(args=arguments, prog_name="reconet", standalone_mode=False)
        sys.stdout.flush()
    except EchoError:
        return 2
    except ReconetError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("reconet: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _nobody_listens()
    except SystemExit as error:
        # Typer answers a closed pipe with exit code 1, and marks stdout with a wrapper of its own.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            return _nobody_listens()
        return error.code if isinstance(error.code, int) else 1
    except OSError as error:
        if error.filename is None:  # stdout itself: what is left in it must not fail again at exit
            _nobody_listens()
        return _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.")
    except Exception as error:
        return _explain(error)
    return code if isinstance(code, int) else 0


def _nobody_listens() -> int:
    """`reconet show … | head` has seen enough: no reason to complain, now or at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _explain(error: Exception) -> int:
    """Errors of libraries that a user can mend; anything else is a bug and keeps its traceback."""
    if hasattr(error, "format_message"):
        # Typer about the command line; the class of its errors is not part of its interface.
        message = error.format_message().rstrip(".")
        if message.startswith("Usage:"):  # no verb at all: the help is the answer
            print(message)
            return 2
        return _fail(f"{message}{'' if message.endswith('?') else '.'} Try --help.")
    if isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error):
        return _fail("there is not enough memory for this; try a smaller size, batch or network.")
    raise error


def _fail(message: str) -> int:
    text = " ".join(message.split()).encode(errors="backslashreplace").decode()
    print(f"reconet: {text}", file=sys.stderr)
    return 2
