"""Describe this machine and find out what its CPU can do."""

import os
import platform
import subprocess
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path

import cv2
import numpy as np
import torch

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"
BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # the last: of ARM
PROBE = "import torch; a = torch.ones(64, 512, dtype=torch.bfloat16); (a @ a.T).sum().item()"


@cache
def make_bf16_safe() -> bool:
    """Tell whether bf16 products work here. Turn off the CPU's matrix units (AMX) if they do not.

    Some virtual machines announce AMX and then die of an illegal instruction, which no program can
    catch. So another process tries first. Call this before torch multiplies for the first time:
    torch then decides once which instructions to use.
    """
    if ISA_VARIABLE in os.environ or not _announces_amx():
        return True
    if _works({}):
        return True
    os.environ[ISA_VARIABLE] = WITHOUT_AMX
    return _works({ISA_VARIABLE: WITHOUT_AMX})


@cache
def bf16_works() -> bool:
    """Tell whether this CPU has bf16 instructions and torch, as it is set up, can use them.

    This changes nothing and may be called at any time. If the CPU announces matrix units, another
    process tries them first, which takes as long as importing torch.
    """
    if not _announces(*BF16_FLAGS):
        return False
    return ISA_VARIABLE in os.environ or not _announces_amx() or _works({})


def _announces_amx() -> bool:
    return _announces("amx_bf16")


def _announces(*flags: str) -> bool:
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False
    return not words.isdisjoint(flags)


@cache
def describe_cpu() -> str:
    """Return the model of the CPU and a digest of its instructions, to tell machines apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return _processor()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{_processor()} {blake2b(flags.encode(), digest_size=4).hexdigest()}"


def _works(environment: dict[str, str]) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def environment(device: torch.device) -> list[tuple[str, str]]:
    """Return versions and hardware, as pairs of a name and a text."""
    from reconet import __version__

    threads = f"{torch.get_num_threads()} threads of {os.cpu_count()} cores"
    machine = [("processor", f"{_processor()}, {threads}")]
    if device.type == "cuda":
        machine.append(("GPU", f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"))
    return [
        ("reconet", __version__),
        ("Python", platform.python_version()),
        ("torch", str(torch.__version__)),
        ("numpy", np.__version__),
        ("OpenCV", str(cv2.__version__)),
        ("system", platform.platform()),
        *machine,
        ("device", str(device)),
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def set_deterministic(wanted: bool) -> None:
    """Compute the same bits on every run, or as fast as possible."""
    # Only if it changes something: the call imports torch's compiler, which takes a second.
    if wanted != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(wanted, warn_only=True)
