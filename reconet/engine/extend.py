"""Take over what may change in a resumed training: longer, but not shorter."""

from pathlib import Path

from reconet.engine.optim import learning_rate
from reconet.engine.run_directory import Log, keep_changes
from reconet.engine.setup import total_steps
from reconet.errors import TrainingError
from reconet.recipes.schema import Recipe
from reconet.system.progress import Progress


def extend_run(
    directory: Path,
    recipe: Recipe,
    before: Recipe,
    images: int,
    start: int,
    log: Log | None,
    progress: Progress,
) -> None:
    """Take over the length of `recipe` in a run that was started with `before`."""
    steps, steps_before = total_steps(recipe, images), total_steps(before, images)
    if steps < steps_before:
        raise TrainingError(
            f"{directory} was started with {steps_before:,} steps, and a resumed training may "
            f"only become longer, not {steps:,} steps."
        )
    keep_changes(directory, before, recipe)
    if steps == steps_before or log is None:
        return
    log.write(kind="extended", step=start, steps_before=steps_before, steps=steps)
    old, new = (learning_rate(recipe.optim, start, length) for length in (steps_before, steps))
    progress.note(
        f"extended from {steps_before:,} to {steps:,} steps: from step {start:,} on the "
        f"learning rate follows the longer schedule ({new:.2g} instead of {old:.2g})"
    )
