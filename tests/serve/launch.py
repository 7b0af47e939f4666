"""Start a server as a user does: another process, `reconet serve`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class RunningServer(NamedTuple):
    """A server process and its address."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def serving(run: Path, *options: str, setup: str = "") -> Iterator[RunningServer]:
    """Serve a run, after some lines of Python. Ctrl-C ends the server, without a traceback."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{setup}\nimport sys; from reconet.cli import main; sys.exit(main(sys.argv[1:]))",
            "serve",
            str(run),
            "--port=0",
            "--device=cpu",
            "--precision=fp32",
            *options,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r"serving on (http://127\.0\.0\.1:\d+)", line)
        assert match, line + process.stderr.read()
        yield RunningServer(match[1], process)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert process.returncode in (0, 130, -signal.SIGTERM), rest
        assert "Traceback" not in rest, rest
    finally:
        process.kill()
        process.wait()
