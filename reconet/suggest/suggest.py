"""Suggest images: those to label next, or those whose masks may be wrong."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconet.data.dataset import Dataset, has_labels, left_out_note
from reconet.errors import DataError, ReconetError
from reconet.evaluation import check_classes, open_labelled
from reconet.inference import FoundNetwork, Network, Protocol, open_network
from reconet.inference.by_name import find_in_processes
from reconet.recipes.schema import Recipe
from reconet.suggest.images import Outcome, unlabelled_images, without
from reconet.suggest.page import compose_page, is_page
from reconet.suggest.pixels import Judge
from reconet.suggest.rank import Ranker, Suggestion
from reconet.system.distributed import join_processes
from reconet.system.files import check_output_file, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

NEXT, AGAIN = "label-next", "label-again"


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """All images in their order, and what happened on the way."""

    kind: str  # label-next or label-again
    network: str
    of: str  # what was ranked: "scenes train", "200 images"
    protocol: str
    images: tuple[Suggestion, ...]
    skipped: tuple[dict[str, str], ...]  # broken images: name and reason
    notes: tuple[str, ...]
    page: Path

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        images = [{"row": row, **one.as_dict()} for row, one in enumerate(self.images, 1)]
        plain = {"page": str(self.page), "skipped": list(self.skipped), "notes": list(self.notes)}
        return {"format": 1, **vars(self), **plain, "images": images}


def suggest(
    source: str | Path,
    images: Sequence[str] = (),
    *,
    split: str | None = None,
    root: Path | None = None,
    device: str = "auto",
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    most: int = 30,
    out: Path | None = None,
    progress: Progress = SILENT,
) -> Suggestions | None:
    """Rank images, and write a page about the first `most` of them.

    `images` are files, folders, globs or @lists of images without labels. They are ranked by how
    unsure the network is and how different they are from a split of its dataset, by default the
    training split. Without `images` that split itself is ranked, by how confidently the network
    contradicts its masks. `change` may change the recipe, and with it the dataset. With several
    processes only the first one gets a result and reports progress.
    """
    with join_processes(device) as processes:
        found = find_in_processes(source, processes, progress)
        page = page_path(found, NEXT if images else AGAIN, out)
        check_output_file(page, is_page)
        network = open_network(found.path, processes.device)
        recipe = change(network.info.recipe)
        judge = Judge(network, Protocol.of(recipe.eval, recipe.data), processes.device)
        outcome = Outcome()
        progress = progress if processes.is_first else SILENT
        ranker = Ranker(
            judge=judge,
            processes=processes,
            workers=recipe.data.workers,
            outcome=outcome,
            progress=progress,
        )
        if images:
            dataset, known = _new_images(images, network, recipe, split, root, found, outcome)
            ordered = ranker.label_next(dataset, known)
        else:
            dataset = _labelled_images(network, recipe, split, root, found, outcome)
            ordered = ranker.label_again(dataset)
        skipped = [one for part in processes.gather(outcome.skipped) for one in part]
        if not processes.is_first:
            return None
        result = Suggestions(
            kind=NEXT if images else AGAIN,
            network=str(found),
            of=counted(len(dataset), "image") if images else _title(dataset),
            protocol=str(judge.protocol),
            images=tuple(ordered),
            skipped=tuple(skipped),
            notes=tuple(outcome.notes),
            page=page,
        )
        options = ["--split", split] if split else []
        command = shlex.join(["reconet", "suggest", str(found), *images, *options])
        shown = ordered[:most]
        write_text(page, compose_page(result, shown, dataset, judge, command, progress))
        return result


def page_path(network: FoundNetwork, kind: str, out: Path | None) -> Path:
    """Return where the page goes: label-next.html or label-again.html of a run, by default."""
    if out is not None:
        return out / f"{kind}.html" if out.is_dir() else out
    place = network.home(kind)
    return place.with_name(f"{place.name}.html")


def _title(dataset: Dataset) -> str:
    return f"{dataset.info.name} {dataset.split}, {counted(len(dataset), 'image')}"


def _open(
    network: Network, recipe: Recipe, split: str | None, root: Path | None, found: FoundNetwork
) -> Dataset:
    chosen = split or recipe.data.train_split
    return open_labelled(recipe.data, chosen, root, network.info, str(found))


def _labelled_images(
    network: Network,
    recipe: Recipe,
    split: str | None,
    root: Path | None,
    found: FoundNetwork,
    outcome: Outcome,
) -> Dataset:
    """Open the split whose masks are looked at again."""
    dataset = _open(network, recipe, split, root, found)
    check_classes(network.info.classes, dataset, str(found))
    if not has_labels(dataset):
        raise DataError(
            f"{_title(dataset)}, has no masks to look at again; name its images instead, to rank "
            "them without labels."
        )
    if note := left_out_note(dataset):
        outcome.notes.append(note)
    return dataset


def _new_images(
    arguments: Sequence[str],
    network: Network,
    recipe: Recipe,
    split: str | None,
    root: Path | None,
    found: FoundNetwork,
    outcome: Outcome,
) -> tuple[Dataset, Dataset | None]:
    """Find the images to label next, and those of the training to compare them with.

    If nobody asked for the latter, they may be missing.
    """
    images = unlabelled_images(arguments, network.info)
    if network.model is None:
        outcome.notes.append("not compared with the training images: an export has no features.")
        return images, None
    try:
        known = _open(network, recipe, split, root, found)
    except ReconetError as error:
        if split or root or recipe.data != network.info.recipe.data:
            raise
        outcome.notes.append(f"not compared with the training images: {error}")
        return images, None
    kept = without(images, known)
    left = len(images) - len(kept)
    if left:
        outcome.notes.append(f"left out: {counted(left, 'image')} that {known.split} has already.")
    if not len(kept):
        raise DataError(f"{known.info.name} {known.split} has all of these images already.")
    return kept, known
