"""Suggest images: those to label next, or those whose masks may be wrong. Show them on a page."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data import Dataset, DatasetInfo, has_labels
from reconet.data.dataset import FileDataset, Pair, left_out_note, title_of
from reconet.data.images.draw import VOID_COLOUR, colourise, fit
from reconet.data.images.read import read_mask
from reconet.errors import DataError, ReconetError
from reconet.evaluation import check_classes, open_labelled
from reconet.inference import FoundNetwork, Network, Protocol, open_network
from reconet.inference.network import find_in_processes
from reconet.inference.plan import find_images
from reconet.models.trained import NetworkInfo
from reconet.recipes import Recipe
from reconet.report import html_page, image_source, is_page, percent
from reconet.suggest.rank import Judge, Ranker, Suggestion, within_borders
from reconet.system.distributed import join_processes
from reconet.system.files import check_output_file, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import Image

NEXT, AGAIN = "label-next", "label-again"
SIDE = 360  # pixels, of the longer side of an image
RED, WHITE = (225, 29, 44), (255, 255, 255)
LEAST_AREA = 12  # pixels of the small image: smaller regions are not marked
MOST_ROWS = 1000  # of the table


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
        kind = NEXT if images else AGAIN
        page = _page_path(found, kind, out)
        check_output_file(page, lambda file: is_page(file, "suggest"))
        network = open_network(found.path, processes.device)
        recipe = change(network.info.recipe)
        judge = Judge(network, Protocol.of(recipe.eval, recipe.data), processes.device)
        progress = progress if processes.is_first else SILENT
        ranker = Ranker(
            judge=judge, processes=processes, workers=recipe.data.workers, progress=progress
        )
        notes: list[str] = []
        known = _open_known(network, recipe, split, root, found, notes if images else None)
        if images:
            dataset = _new_images(images, network.info, known, notes)
            ordered = ranker.label_next(dataset, known)
        else:
            assert known is not None
            _check_masks(known, network.info, str(found))
            notes += filter(None, [left_out_note(known)])
            dataset, ordered = known, ranker.label_again(known)
        skipped = [one for part in processes.gather(ranker.skipped) for one in part]
        if not processes.is_first:
            return None
        result = Suggestions(
            kind=kind,
            network=str(found),
            of=counted(len(dataset), "image") if images else _title(dataset),
            protocol=str(judge.protocol),
            images=tuple(ordered),
            skipped=tuple(skipped),
            notes=tuple(notes),
            page=page,
        )
        options = ["--split", split] if split else []
        command = shlex.join(["reconet", "suggest", str(found), *images, *options])
        shown = ordered[:most]
        write_text(page, _compose_page(result, shown, dataset, judge, command, progress))
        return result


def _page_path(network: FoundNetwork, kind: str, out: Path | None) -> Path:
    """Return where the page goes: label-next.html or label-again.html of a run, by default."""
    if out is not None:
        return out / f"{kind}.html" if out.is_dir() else out
    place = network.home(kind)
    return place.with_name(f"{place.name}.html")


def _title(dataset: Dataset) -> str:
    return f"{title_of(dataset)}, {counted(len(dataset), 'image')}"


def _open_known(
    network: Network,
    recipe: Recipe,
    split: str | None,
    root: Path | None,
    found: FoundNetwork,
    notes: list[str] | None,
) -> Dataset | None:
    """Open the images of the training. With `notes` they may be missing if nobody named them."""
    if notes is not None and network.model is None:
        notes.append("not compared with the training images: an export has no features.")
        return None
    data = recipe.data
    try:
        return open_labelled(data, split or data.train_split, root, network.info, str(found))
    except ReconetError as error:
        if notes is None or split or root or data != network.info.recipe.data:
            raise
        notes.append(f"not compared with the training images: {error}")
        return None


def _check_masks(dataset: Dataset, info: NetworkInfo, owner: str) -> None:
    check_classes(info.classes, dataset, owner)
    if not has_labels(dataset):
        raise DataError(
            f"{_title(dataset)}, has no masks to look at again; name its images instead, to rank "
            "them without labels."
        )


def _new_images(
    arguments: Sequence[str], info: NetworkInfo, known: Dataset | None, notes: list[str]
) -> Dataset:
    """Find the images that files, folders, globs and lists name, without those that are known."""
    found = find_images(arguments)
    about = DatasetInfo(
        name="images", title="", classes=info.classes, palette=info.palette, splits={"new": None}
    )
    files = known.pairs if isinstance(known, FileDataset) else ()
    there = {os.path.realpath(pair.image) for pair in files}
    pairs = [
        Pair(os.path.relpath(path, found.root), path, None)
        for path in found.paths
        if os.path.realpath(path) not in there
    ]
    left = len(found.paths) - len(pairs)
    if known is not None and left:
        if not pairs:
            raise DataError(f"{title_of(known)} has all of these images already.")
        notes.append(f"left out: {counted(left, 'image')} that {known.split} has already.")
    return FileDataset(info=about, split="new", pairs=pairs, read_label=read_mask, upright=True)


def _compose_page(
    result: Suggestions,
    shown: Sequence[Suggestion],
    dataset: Dataset,
    judge: Judge,
    command: str,
    progress: Progress,
) -> str:
    """Compose the page. The shown images are read and judged once more."""
    info, again = judge.network.info, result.kind == "label-again"
    progress.start(len(shown), "draw")
    drawn = []
    for one in shown:
        why = ", ".join(f"{name} {text}" for name, text in describe_figures(one).items())
        try:
            drawn.append((one, _draw(one, dataset, judge, again), why))
        except DataError as error:  # it has changed since
            drawn.append((one, [], str(error)))
        progress.advance()
    rows = enumerate(result.images[:MOST_ROWS], 1)
    return html_page(
        "suggest.html",
        kind="suggest",
        title="Label this again" if again else "Label this next",
        again=again,
        result=result,
        heading=f"The first {len(shown)} of {counted(len(result.images), 'image')}",
        classes=info.classes,
        palette=info.palette,
        void_colour=VOID_COLOUR,
        shown=drawn,
        head=["row", "image", *describe_figures(result.images[0])],
        rows=[(row, one.name, *describe_figures(one).values()) for row, one in rows],
        command=command,
    )


def describe_figures(one: Suggestion) -> dict[str, str]:
    """Return why an image was suggested, for people."""
    texts = {}
    for name, value in one.figures.items():
        texts[name] = f"{value:.2f}" if name == "distance" else percent(value, digits=2)
    if "disagreement" in one.figures:
        texts |= {"mask says": one.mask_says or "-", "network says": one.network_says or "-"}
    return texts


def _draw(one: Suggestion, dataset: Dataset, judge: Judge, again: bool) -> list[tuple[str, str]]:
    """Draw an image with its regions marked, its mask, and the labels of the network."""
    sample = dataset[one.index]
    judged = judge(sample.image_hwc, sample.label_hw if again else None)
    small_hwc = fit(sample.image_hwc, SIDE, SIDE)
    marked_hwc = mark(small_hwc, strong_places(judged.value_hw, again))
    caption = "network contradicts the mask here" if again else "unsure here"
    figures = [(image_source(marked_hwc, "jpeg"), caption)]
    masks = {"mask": sample.label_hw} if again else {}
    height, width = small_hwc.shape[:2]
    for name, label_hw in (masks | {"network": judged.predicted_hw}).items():
        small_hw = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
        drawn_hwc = colourise(np.asarray(small_hw, np.uint8), judge.network.info.palette)
        figures.append((image_source(drawn_hwc), name))
    return figures


def strong_places(value_hw: NDArray[np.float32], labelled: bool) -> NDArray[np.bool_]:
    """Return which pixels to mark.

    The network contradicts a mask where its class is more probable by half, borders left out. It
    is unsure where it is at least half as unsure as at its worst.
    """
    if labelled:
        return within_borders(value_hw) > 0.5
    return value_hw >= max(0.5 * float(value_hw.max()), 1e-6)


def mark(small_hwc: Image, strong_hw: NDArray[np.bool_]) -> Image:
    """Draw red lines around places of an image, which is smaller or larger than they are."""
    height, width = small_hwc.shape[:2]
    small_hw = cv2.resize(
        strong_hw.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST
    )
    drawn_hwc = small_hwc.copy()
    lines, _ = cv2.findContours(small_hw, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    kept = [line for line in lines if cv2.contourArea(line) >= LEAST_AREA]
    for colour, thickness in ((WHITE, 4), (RED, 2)):  # the white one is seen on red things too
        cv2.drawContours(drawn_hwc, kept, -1, colour, thickness)
    return drawn_hwc
