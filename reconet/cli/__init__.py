"""Run `reconet <verb>`: parse the command line, call the package, print the result.

    main.py        the table of verbs, the entry point, and errors as one line
    arguments.py   arguments and options that several verbs share
    output.py      results, notes and the progress bar
    tables/        results as tables, one file per verb or group
    train.py ...   one file per verb, named as the verb
    data/ bench/   the verbs of `reconet data` and `reconet bench`

Nothing heavy is imported at the top of these files, so that `--help` answers at once.
To add a verb, write a file with a function of its name and add a line to VERBS in main.py.
"""

from reconet.cli.main import main

__all__ = ["main"]
