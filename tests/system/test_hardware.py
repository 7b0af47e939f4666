"""What the CPU can do."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from reconet.engine.memory import memory_mb
from reconet.system import hardware
from tests.factories import smooth_image, tiny_network, write_run


@pytest.mark.parametrize(
    ("flags", "survives", "expected"),
    [
        ("fma avx2", True, False),
        ("avx512_bf16", False, True),  # nobody needs to try
        ("avx512_bf16 amx_bf16", False, False),
        ("avx512_bf16 amx_bf16", True, True),
    ],
)
def test_bf16_is_trusted_only_after_another_process_survived_it(
    monkeypatch: pytest.MonkeyPatch, flags: str, survives: bool, expected: bool
) -> None:
    monkeypatch.delenv(hardware.ISA_VARIABLE, raising=False)
    monkeypatch.setattr("reconet.system.hardware.Path.read_text", lambda self: f"flags : {flags}\n")
    works: Callable[[dict[str, str]], bool] = lambda environment: survives  # noqa: E731
    monkeypatch.setattr(hardware, "_works", works)
    assert hardware.bf16_works.__wrapped__() is expected
    assert hardware.ISA_VARIABLE not in os.environ


def test_determinism_costs_nothing_unless_it_is_asked_for() -> None:
    code = (
        "import sys, torch; from reconet.system.hardware import set_deterministic as s; s(False); "
        "assert 'torch._inductor' not in sys.modules; s(True); "
        "assert torch.are_deterministic_algorithms_enabled(); s(False); "
        "assert not torch.are_deterministic_algorithms_enabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_and_a_prediction_need_nothing_that_only_unix_has(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network())
    Image.fromarray(smooth_image(0)).save(tmp_path / "photo.png")
    code = (
        "import os, sys; sys.modules['fcntl'] = sys.modules['resource'] = None; "
        "del os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CLOEXEC; "
        "import reconet; from reconet.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["predict", str(run), str(tmp_path / "photo.png"), f"--out={tmp_path / 'out'}"]
    subprocess.run([sys.executable, "-c", code, *words, "--device=cpu"], check=True)
    assert (tmp_path / "out/photo.png").is_file()


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_memory_is_in_megabytes_on_every_system(
    monkeypatch: pytest.MonkeyPatch, system: str, unit: int
) -> None:
    most = SimpleNamespace(ru_maxrss=5 * 10**9 / unit)
    monkeypatch.setattr("resource.getrusage", lambda who: most)
    monkeypatch.setattr("sys.platform", system)
    assert memory_mb(torch.device("cpu")) == 5000
