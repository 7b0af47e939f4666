"""The table of verbs, and the entry point of the command line."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from reconet import __version__
from reconet.cli import bench, cache, data, zoo
from reconet.cli.arguments import option
from reconet.cli.compare import compare
from reconet.cli.cost import cost
from reconet.cli.evaluate import evaluate
from reconet.cli.explain import explain
from reconet.cli.export import export
from reconet.cli.output import print_line, start_clock
from reconet.cli.predict import predict
from reconet.cli.prune import prune
from reconet.cli.recipes import recipes, show
from reconet.cli.report import report
from reconet.cli.serve import serve
from reconet.cli.share import share
from reconet.cli.study import study
from reconet.cli.suggest import suggest
from reconet.cli.train import train
from reconet.errors import OtherProcessError, ReconetError, is_lost_process, is_out_of_memory

Verb = Callable[..., None]

VERBS: dict[str, Verb] = {
    "recipes": recipes,
    "show": show,
    "train": train,
    "evaluate": evaluate,
    "compare": compare,
    "predict": predict,
    "suggest": suggest,
    "report": report,
    "explain": explain,
    "prune": prune,
    "serve": serve,
    "study": study,
    "cost": cost,
    "export": export,
    "share": share,
    "zoo": zoo.zoo,
    "convert": zoo.convert,
}
GROUPS: dict[str, tuple[str, dict[str, Verb]]] = {
    "data": ("List datasets, prepare them, and check them for mistakes.", data.VERBS),
    "cache": ("List and clear cached features and masks.", cache.VERBS),
    "bench": ("Measure speed and memory, side by side in one run.", bench.VERBS),
}
OLD_OPTIONS = {  # of 0.1 -> now
    "--pictures": "called --images",
    "--model": "called --context",
    "--core": "called --context",
    "--repeats": "called --rounds",
    "--frozen": "`python -m benchmarks.frozen`, in a checkout",
}
MOVED_VERBS = {  # of 0.1 -> now, in a checkout of the repository
    "bench evaluate": "python -m benchmarks.evaluate",
    "bench all": "make bench",
}
USER_ERROR, LOST_PROCESS, INTERRUPTED = 2, 1, 130  # exit codes


class VerbCommand(TyperCommand):
    """A verb whose help shows arguments by their names alone, without the types of Python."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the two tables of arguments and options."""
        tables: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                name = record[0].split(" <")[0] if is_argument else record[0]
                tables[parameter.param_type_name].append((name, record[1]))
        for kind, rows in tables.items():
            if rows:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit code. Errors that a user can mend are one line on stderr."""
    if argv is not None:
        start_clock()
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = " ".join(arguments[:2])
    if verb in MOVED_VERBS:
        return _fail(f"`reconet {verb}` is now `{MOVED_VERBS[verb]}`, in a checkout.")
    try:
        code = build_app()(args=arguments, prog_name="reconet", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:  # each kind gets its exit code; unknown ones are raised again
        return _handle_error(error)
    return code if isinstance(code, int) else 0


def build_app() -> typer.Typer:
    """Build the Typer app from the tables of verbs."""
    app = _new_typer()
    app.callback()(_reconet)
    for name, verb in VERBS.items():
        app.command(name, cls=VerbCommand)(verb)
    for name, (help_, verbs) in GROUPS.items():
        group = _new_typer()
        for verb_name, verb in verbs.items():
            group.command(verb_name, cls=VerbCommand)(verb)
        app.add_typer(group, name=name, help=help_)
    return app


def _new_typer() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"reconet {__version__}")
        raise typer.Exit


def _reconet(
    version: bool = option(
        "--version", "Print the version and exit.", False, callback=_print_version, is_eager=True
    ),
) -> None:
    """Train and use networks for semantic segmentation.

    \b
    Start here:
      reconet predict voc12 photo.jpg      # people, animals, vehicles: at once, without a download
      reconet train mine/ --dry-run        # your own images, labels in any format
      reconet train mine/ --out runs/mine  # train on them
      reconet predict runs/mine new/       # segment new images
      reconet report runs/mine             # curves and images in one HTML file
      reconet zoo                          # networks by name
      reconet recipes                      # what else you can train, such as scenes/reconet
      reconet data list                    # datasets, and where to get them
    """


def _handle_error(error: BaseException) -> int:
    """Print what the user should know and return the exit code, or raise a bug again."""
    match error:
        case OtherProcessError():  # the process where it happened prints it
            return USER_ERROR
        case ReconetError():
            return _fail(str(error))
        case KeyboardInterrupt() | typer.Abort():
            print("reconet: interrupted", file=sys.stderr)
            return INTERRUPTED
        case BrokenPipeError():
            _discard_stdout()  # `reconet show ... | head`: the reader has seen enough
            return 0
        case SystemExit():
            # Typer ends with code 1 if the reader of a pipe is gone, and marks stdout with a
            # wrapper.
            if type(sys.stdout).__name__ == "PacifyFlushWrapper":
                _discard_stdout()
                return 0
            return error.code if isinstance(error.code, int) else 1
        case OSError():
            if error.filename is None:  # stdout itself: the rest must not fail again at exit
                _discard_stdout()
            where = "" if error.filename is None else f": {error.filename}"
            return _fail(f"{error.strerror or error}{where}.")
        case Exception() if hasattr(error, "format_message"):
            return _fail_with_usage(error, error.format_message())
        case Exception() if is_lost_process(error):
            _fail("another process of this task has ended, so this one ends too.")
            return LOST_PROCESS
        case Exception() if is_out_of_memory(error):
            return _fail("not enough memory. Try a smaller size, batch or network.")
    raise error


def _fail_with_usage(error: Exception, message: str) -> int:
    """Say what Typer found wrong. The classes of its errors are private."""
    flag = getattr(error, "option_name", None)
    if flag in OLD_OPTIONS:
        return _fail(f"{flag} is now {OLD_OPTIONS[flag]}.")
    if message.startswith("Usage:"):  # no verb was given
        print(message)
        return USER_ERROR
    message = message.rstrip(".")
    return _fail(f"{message}{'' if message.endswith('?') else '.'} Try --help.")


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _fail(message: str) -> int:
    print_line(f"reconet: {' '.join(message.split())}", err=True)
    return USER_ERROR
