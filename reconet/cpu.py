"""What this CPU can really do."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"
PROBE = "import torch; a = torch.ones(64, 512, dtype=torch.bfloat16); (a @ a.T).sum().item()"


@cache
def make_bf16_safe() -> bool:
    """True if products in bf16 work here, if need be without the CPU's matrix units (AMX).

    Some virtual machines announce AMX and then die of an illegal instruction, which no program can
    catch. So another process tries first. Must be called before torch multiplies for the first
    time, since it then decides once which instructions to use.
    """
    if ISA_VARIABLE in os.environ or not _announces_amx():
        return True
    if _works({}):
        return True
    os.environ[ISA_VARIABLE] = WITHOUT_AMX
    return _works({ISA_VARIABLE: WITHOUT_AMX})


def _announces_amx() -> bool:
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _works(environment: dict[str, str]) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0
