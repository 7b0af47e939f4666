"""Record a run with Weights & Biases.

Nothing leaves the machine unless WANDB_MODE=online is set. Otherwise a start writes a folder of its
own to <run>/wandb. wandb cannot append to such a folder, so a resumed run first writes the values
of its log again. The newest folder is then the whole record, under the same id.
"""

import os
from secrets import token_hex
from typing import Any

from reconet.engine.loggers.writer import LoggedRun, Writer
from reconet.types import Image

PROJECT = "reconet"
HIDDEN = "hidden"  # in place of the name of this machine


class WandbWriter:
    """A run of wandb."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._known = int(run.step)  # a server has all steps below it

    @property
    def record(self) -> str:
        """Return the id of the run."""
        return str(self._run.id)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add one value."""
        if step >= self._known:
            self._run.log({name: value}, step=step)

    def add_image(self, name: str, image_hwc: Image, step: int) -> None:
        """Add one image."""
        import wandb

        if step >= self._known:
            self._run.log({name: wandb.Image(image_hwc)}, step=step)

    def close(self, *, failed: bool) -> None:
        """Write what is left, and wait for it."""
        self._run.finish(exit_code=int(failed))


def open_wandb(logged: LoggedRun) -> Writer:
    """Open the record of a run, on this machine unless WANDB_MODE says otherwise."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when wandb is imported
    import wandb

    mode: Any = os.environ.get("WANDB_MODE", "offline")
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=logged.name,
        id=logged.record or token_hex(8),
        resume="allow" if logged.record else None,
        dir=str(logged.directory),
        config=logged.recipe.model_dump(mode="json"),
        mode=mode,
        settings=wandb.Settings(
            silent=True,
            host=HIDDEN,
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )
    return WandbWriter(run)
