"""Train from Python: the command `reconet train` as a function."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from reconet.data.dataset_file import dataset_settings
from reconet.engine.check import check_recipe
from reconet.engine.loggers import check_logger
from reconet.engine.run import TrainingResult, run_training
from reconet.recipes import Recipe, apply_overrides, find_recipe
from reconet.system.progress import Lines, Progress


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: Iterable[str] = (),
    resume: bool = False,
    device: str = "auto",
    log: Sequence[str] = (),
    progress: Progress | None = None,
) -> TrainingResult:
    """Train the network of a recipe in the run directory `out`.

    `recipe` is a Recipe, or what `reconet train` takes: a name, a file or a run directory.
    `data` is a file that describes a dataset, such as mine.yaml. `settings` are those of --set,
    such as "optim.lr=0.02". `log` names loggers beside TensorBoard: "wandb", "mlflow". Ctrl-C saves
    a checkpoint and stops. Progress is printed on stderr, unless `progress` shows it elsewhere.
    """
    for name in log:
        check_logger(name)
    found = recipe if isinstance(recipe, Recipe) else find_recipe(str(recipe))
    described = [] if data is None else dataset_settings(Path(data))
    others = [settings] if isinstance(settings, str) else settings
    changed = apply_overrides(found, [*described, *others])
    check_recipe(changed)
    return run_training(
        changed, Path(out), resume=resume, device=device, log=log, progress=progress or Lines()
    )
