"""Run one measurement. The argument is a Job as JSON. Progress is printed as lines of JSON."""

import json
import sys
from typing import TextIO

from reconet.errors import ReconetError
from reconet.fast.choose import Job, choose_fastest
from reconet.system.progress import Silent


class PrintedProgress(Silent):
    """Prints what is reported, for the process that started this one."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def start(self, total: int, task: str = "") -> None:
        """Print the total."""
        self._print("start", total, task)

    def advance(self, count: int = 1) -> None:
        """Print the count."""
        self._print("advance", count)

    def status(self, text: str) -> None:
        """Print the text."""
        self._print("status", text)

    def _print(self, *values: object) -> None:
        print(json.dumps(values), file=self.stream, flush=True)


def main(argument: str) -> int:
    """Run a job. Return 2 after an error that a user can mend, which is the last line."""
    try:
        # Libraries print too, so the stream is taken before one of them hides it.
        choose_fastest(Job.model_validate_json(argument), PrintedProgress(sys.stdout))
    except (ReconetError, MemoryError) as error:
        print(str(error) or "there is not enough memory", flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
