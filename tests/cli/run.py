"""Run a verb inside a test."""

import pytest

from reconet.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err
