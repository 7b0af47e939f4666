"""Opening a server: mistakes are one line, and the door needs no extra."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconet.cli import main
from reconet.serve import listen


def test_a_missing_network_and_a_taken_port_are_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--port=0"]) == 2
    with listen("127.0.0.1", 0) as taken:
        assert main(["serve", str(run), f"--port={taken.getsockname()[1]}"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "no trained network" in first
    assert "address already in use; try another --port" in second


def test_without_the_extra_the_verb_names_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "reconet.serve.app", None)
    assert main(["serve", str(run)]) == 2
    assert "pip install '.[serve]' in the clone" in capsys.readouterr().err


def test_the_door_opens_without_the_extra() -> None:
    missing = "fastapi", "starlette", "uvicorn"
    block = "; ".join(f"sys.modules[{name!r}] = None" for name in missing)
    code = f"import sys; {block}; import reconet.serve; print(reconet.serve.Limits().waiting)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "16\n"), done.stderr
