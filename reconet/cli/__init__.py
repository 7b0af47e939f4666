"""Run `reconet <verb>`: parse the command line, call the package, print the result.

    main.py        the table of verbs, the entry point, and errors as one line
    arguments.py   options that several verbs share
    output.py      results, tables, notes and the progress bar
    train.py ...   one file per verb, or per group of verbs: data, cache, bench

Nothing heavy is imported at the top of these files, so that `--help` answers at once.
To add a verb, write a file with a function of its name and add a line to VERBS in main.py.
"""

from reconet.cli.main import GROUPS, VERBS, build_app, main
from reconet.cli.output import make_table, print_result, show_progress

__all__ = [
    "GROUPS",
    "VERBS",
    "build_app",
    "main",
    "make_table",
    "print_result",
    "show_progress",
]
