"""Describe this machine, find out what its CPU can do, and compute in the format of a recipe."""

import ctypes
import os
import platform
import subprocess
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import torch
from torch import nn

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"
BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # the last: of ARM
PROBE = "import torch; a = torch.ones(64, 512, dtype=torch.bfloat16); (a @ a.T).sum().item()"

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # names of settings in malloc.h
MMAP_MAX_DEFAULT, TRIM_DEFAULT = 65536, 128 * 1024
NEVER = -1
USERS_OWN = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


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
    import cv2
    import numpy as np

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


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Return a context in which layers compute in `precision`. fp32 changes nothing."""
    return torch.autocast(device.type, DTYPES[precision], enabled=precision != "fp32")


def cast_layers(model: nn.Module, precision: Precision) -> None:
    """Turn the layers that autocast would cast in every call into `precision`, in place."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(DTYPES[precision])


def keep_freed_memory(keep: bool = True) -> bool:
    """Keep freed memory in this process, or give it back as usual. Tell whether that worked.

    A training frees and allocates the same large tensors in every step. The C library of Linux
    gives such blocks back to the system at once, and each new one costs a page fault per 4096
    bytes. A server is the other way round: the C library learns from every large block that is
    freed to keep larger ones, and tensors of ever other sizes fill its heaps with holes. To ask
    for the usual sizes turns this learning off.

    Nothing is changed if the user has chosen an allocator or its settings.
    """
    if any(name in os.environ for name in USERS_OWN):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  other libraries have a mallopt that does nothing
        set_option = library.mallopt
    except (OSError, TypeError, AttributeError):  # not Linux, or another C library
        return False
    blocks, threshold = (0, NEVER) if keep else (MMAP_MAX_DEFAULT, TRIM_DEFAULT)
    return bool(set_option(MMAP_MAX, blocks)) and bool(set_option(TRIM_THRESHOLD, threshold))
