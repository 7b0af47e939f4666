"""Freed memory is kept for the next tensors."""

import platform
import resource

import pytest
import torch

from reconet.system.allocator import USERS_OWN, keep_freed_memory

LARGE = 64 * 1024 * 1024 // 4  # numbers in 64 MB: more than the C library keeps by itself
ON_GLIBC = platform.libc_ver()[0] == "glibc"


def page_faults(rounds: int) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.ones(LARGE)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not ON_GLIBC, reason="only the GNU C library has these settings")
def test_kept_memory_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in USERS_OWN:
        monkeypatch.delenv(name, raising=False)
    try:
        assert keep_freed_memory()
        torch.ones(LARGE)  # the first one has to be asked for
        kept = page_faults(4)
    finally:
        assert keep_freed_memory(False)
    assert kept * 10 < page_faults(4)


def test_settings_of_the_user_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")
    assert not keep_freed_memory()
