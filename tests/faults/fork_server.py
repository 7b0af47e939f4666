"""Run commands of reconet in forked children, some of which die on the way.

This process imports everything once. Each command then costs only its own work, so that a run can
be killed fifty times. Commands come as JSON lines on stdin, and results go as JSON lines to stdout.
The package knows nothing of this: a fault is put into the child from outside, before it starts.
"""

import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.utils.tensorboard  # imported here once, not in every child

import reconet.data.dataset
import reconet.data.scenes
import reconet.engine.run
import reconet.system.files
from reconet.cli import main
from reconet.cost import model_cost
from reconet.errors import DataError
from reconet.models import build_model
from reconet.recipes import find_recipe


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nth(number: int, action: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that runs `action` the `number`-th time that it is called."""
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            action()

    return call


def before(owner: Any, name: str, call: Callable[[], None]) -> None:
    real = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        call()
        return real(*arguments, **options)

    setattr(owner, name, wrapped)


def after(owner: Any, name: str, call: Callable[[], None]) -> None:
    real = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        call()
        return result

    setattr(owner, name, wrapped)


def half_written(number: int) -> None:
    """Write half of the `number`-th file that `write_atomic` writes, then die."""
    opened = 0

    class Doomed(io.BufferedWriter):
        def write(self, data: Any) -> int:
            super().write(bytes(data)[: len(bytes(data)) // 2])
            self.flush()
            die()
            return 0

    def fdopen(handle: int, mode: str) -> Any:
        nonlocal opened
        opened += 1
        return Doomed(io.FileIO(handle, "wb")) if opened == number else open(handle, mode)

    os.fdopen = fdopen  # type: ignore[assignment]


def full(number: int) -> None:
    """Let the `number`-th write meet a full disk."""

    def complain() -> None:
        raise OSError(28, "No space left on device")

    before(os, "fsync", nth(number, complain))


def no_room(size: int) -> None:
    """Let the system refuse to write more than `size` bytes to a file."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def worker_dies(number: int) -> None:
    own = os.getpid()
    call = nth(number, die)
    before(reconet.data.scenes, "scene", lambda: None if os.getpid() == own else call())


def validation_fails(number: int) -> None:
    call = nth(number, lambda: fail("an image is gone"))
    real = reconet.data.scenes.ScenesDataset.__getitem__

    def read(self: reconet.data.scenes.ScenesDataset, index: int) -> Any:
        if self.split == "val":
            call()
        return real(self, index)

    reconet.data.scenes.ScenesDataset.__getitem__ = read  # type: ignore[method-assign]


def fail(text: str) -> None:
    raise DataError(text)


def vanish(number: int) -> None:
    """Delete the `number`-th image just before it is read."""
    module: Any = reconet.data.dataset
    real, read = module.read_image, 0

    def reading(path: Path) -> Any:
        nonlocal read
        read += 1
        if read == number:
            path.unlink()
        return real(path)

    module.read_image = reading


FAULTS: dict[str, Callable[[int], None]] = {
    "write": half_written,
    "fsync": lambda number: before(os, "fsync", nth(number, die)),
    "replace": lambda number: before(os, "replace", nth(number, die)),
    "replaced": lambda number: after(os, "replace", nth(number, die)),
    "full": full,
    "no-room": no_room,
    "worker": worker_dies,
    "validation": validation_fails,
    "vanish": vanish,
}


def child(order: dict[str, Any], out: str) -> None:
    handle = os.open(out, os.O_WRONLY | os.O_CREAT)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    if order["fault"]:
        name, number = order["fault"]
        FAULTS[name](number)
    code = main(order["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def execute(order: dict[str, Any]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile() as out:
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            try:
                child(order, out.name)
            finally:  # whatever happens, the child must not become a second server
                traceback.print_exc()
                os._exit(99)
        if order["kill_after"] is not None:
            time.sleep(order["kill_after"])
            os.kill(pid, signal.SIGKILL)  # nobody has waited for it yet, so the id is still its own
        status = os.waitpid(pid, 0)[1]
        seconds = time.monotonic() - start
        output = Path(out.name).read_text()
    return {"code": os.waitstatus_to_exitcode(status), "output": output, "seconds": seconds}


def warm_up() -> None:
    """Import what torch imports when costs are first counted. It takes a second."""
    with torch.device("meta"):
        model = build_model(find_recipe("scenes/tiny"), 2)
    model_cost(model, (64, 64))


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        print(json.dumps(execute(json.loads(line))), flush=True)
