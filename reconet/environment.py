"""On what something is computed: versions and the machine, to print beside it."""

import os
import platform
from pathlib import Path

import cv2
import numpy as np
import torch


def environment(device: torch.device) -> list[tuple[str, str]]:
    """Of this process."""
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
