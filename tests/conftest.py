"""Set the same conditions for every test."""

import os
import shutil
import signal
import tempfile

# No test reads or fills the user's cache, nor do the processes that it starts.
os.environ["RECONET_CACHE"] = tempfile.mkdtemp(prefix="reconet-tests-")

# Some virtual machines announce matrix units (AMX) that they cannot run, and bf16 products then die
# of an illegal instruction. Tests do without them. This must be set before torch is imported.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch


def pytest_configure() -> None:
    """Let Ctrl-C work. Under nohup it is ignored, also by every process that a test starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_seed_and_one_thread() -> None:
    """Let no test depend on the tests before it, or take more than one core."""
    torch.manual_seed(0)
    torch.set_num_threads(1)


def pytest_unconfigure() -> None:
    """Remove the cache of these tests."""
    shutil.rmtree(os.environ["RECONET_CACHE"], ignore_errors=True)
