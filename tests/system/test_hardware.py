"""What the CPU can do."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from reconet.system import hardware


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
