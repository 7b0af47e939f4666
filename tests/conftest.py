import os

# Some virtual machines announce matrix units (AMX) that they cannot run: bf16 products then die of
# an illegal instruction. Tests are about results, not speed, and do without. It must be set first.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_seed_and_one_thread() -> None:
    """Tests run side by side on few cores, and none may depend on which ran before it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
