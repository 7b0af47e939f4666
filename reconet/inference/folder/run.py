"""Predict many images into a folder: go on where a run was stopped, and on after a broken file.

The list is cut into chunks of as many images as the network sees at once, and processes take
turns with chunks; so one process and several show it the same batches, and write the same files.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconet.inference.folder.find import find_images
from reconet.inference.folder.plan import Plan, Wanted, make_plan, shard
from reconet.inference.folder.record import journal_path, read_record, relative, write_record
from reconet.inference.folder.worker import Worker, told
from reconet.inference.network import AUTO, open_fast, precision_of
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import check_folder

FOLDER = "predictions"  # in a run directory, unless told otherwise


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of every image, in the order in which they were found."""

    out: Path
    network: str
    how: str
    protocol: str
    images: list[dict[str, Any]]  # source, status, and what is known of it

    def having(self, status: str) -> list[dict[str, Any]]:
        return [image for image in self.images if image["status"] == status]

    def as_dict(self) -> dict[str, Any]:
        counts = {status: len(self.having(status)) for status in ("done", "skipped", "failed")}
        return {
            "format": 1,
            "out": str(self.out),
            **counts,
            **{k: v for k, v in vars(self).items() if k != "out"},
        }


def predict_files(
    source: Path,
    arguments: list[str],
    out: Path | None = None,
    *,
    wanted: Wanted,
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    memory: int | None = None,
    device: str = "auto",
    precision: str = AUTO,
    overwrite: bool = False,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> Outcome | None:
    """Write the predictions of all images. Of many processes only the leading one gets a result.

    `change` may change how images are shown; `memory` is for that in bytes. `progress` is told
    how many images this process will do, and what it returns is called after each of them.
    """
    with join_processes(device) as processes:
        found = find_images(arguments) if processes.is_first else None
        folder = Path(os.path.abspath(out or default_out(source)))
        if processes.is_first:
            check_folder(folder)
        predictor = _open(source, processes, change, memory, precision)
        plan = None
        if found is not None:
            plan = make_plan(found, folder, source, predictor, wanted, overwrite)
        plan = processes.broadcast(plan)
        mine = shard(plan, processes, predictor.protocol.batch)
        tick = progress(sum(map(len, mine))) if progress and processes.is_first else lambda: None
        worker = Worker(plan, predictor, wanted, processes.rank, tick)
        said = [one for chunk in mine for one in worker.predict(chunk)]
        everything = dict(one for part in processes.gather(said) for one in part)
        if not processes.is_first:
            return None
        return _finish(plan, predictor, everything, processes.size)


def default_out(source: Path) -> Path:
    """Beside the network; an export, whose labels differ a little, has a folder of its own."""
    if source.is_dir():
        return source / FOLDER
    exported = source.suffix != ".safetensors"
    return source.parent / (f"{FOLDER}-{source.name}" if exported else FOLDER)


def _open(
    source: Path,
    processes: Processes,
    change: Callable[[Recipe], Recipe],
    memory: int | None,
    precision: str,
) -> Predictor:
    """The same network on every process: what `auto` means is decided by one of them."""
    network = open_fast(source, processes.device, precision) if processes.is_first else None
    decided = processes.broadcast(precision_of(network) if network else None)
    network = network or open_fast(source, processes.device, decided)
    recipe = change(network.info.recipe)
    protocol = Protocol.of(recipe.eval, recipe.data)
    if memory is not None:
        protocol = replace(protocol, budget_bytes=memory)
    return Predictor(network, protocol=protocol, device=str(processes.device))


def _finish(
    plan: Plan, predictor: Predictor, said: dict[Path, dict[str, Any]], processes: int
) -> Outcome:
    journals = [journal_path(plan.out, plan.token, rank) for rank in range(processes)]
    write_record(plan.out, read_record(plan.out), journals)
    images = []
    for path, _ in plan.images:
        entry = plan.record.get(relative(path, plan.out))
        fate = said.get(path) or {"status": "skipped", **(told(entry) if entry else {})}
        images.append({"source": str(path), **fate})
    return Outcome(
        out=plan.out,
        network=plan.network,
        how=predictor.network.how,
        protocol=str(predictor.protocol),
        images=images,
    )
