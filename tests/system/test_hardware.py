"""What the CPU can do."""

import os
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
