"""Freed memory is kept for the next tensors."""

import os
import platform
import subprocess
import sys

import pytest

from reconet.system.allocator import USERS_OWN, keep_freed_memory

ON_GLIBC = platform.libc_ver()[0] == "glibc"
# In a process of its own: the blocks that other tests have left would count too.
COUNT = """
import resource
import numpy as np
from reconet.system.allocator import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        np.ones(2**23)  # 64 MB: more than the C library keeps by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
np.ones(2**23)  # the first one has to be asked for
kept = page_faults()
assert keep_freed_memory(False)
print(kept, page_faults())
"""


@pytest.mark.skipif(not ON_GLIBC, reason="only the GNU C library has these settings")
def test_kept_memory_is_not_asked_for_again() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in USERS_OWN}
    words = [sys.executable, "-c", COUNT]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    kept, given_back = map(int, done.stdout.split())
    assert 10 * kept < given_back


def test_settings_of_the_user_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")
    assert not keep_freed_memory()
