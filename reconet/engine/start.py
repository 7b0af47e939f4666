"""Train from Python: the command `reconet train` as a function."""

from collections.abc import Iterable
from pathlib import Path

from reconet.engine.check import check_recipe
from reconet.engine.run import TrainingResult, run_training
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.system.progress import SILENT, Progress


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    settings: Iterable[str] = (),
    resume: bool = False,
    device: str = "auto",
    progress: Progress = SILENT,
) -> TrainingResult:
    """Train the network of a recipe in the run directory `out`.

    `recipe` is a Recipe, or what `reconet train` takes: a name, a file or a run directory.
    `settings` are those of --set, such as "optim.lr=0.02". Ctrl-C saves a checkpoint and stops.
    """
    found = recipe if isinstance(recipe, Recipe) else find_recipe(str(recipe))
    changed = apply_overrides(found, [settings] if isinstance(settings, str) else settings)
    check_recipe(changed)
    return run_training(changed, Path(out), resume=resume, device=device, progress=progress)
