"""Label Studio's PNG export: a black and white mask for each brush label of a task.

    task-12-annotation-34-by-1-tag-Cat-0.png    label Cat of task 12

The names tell the task, not its image. So the json export has to be there too, for the names of the
images, or images that are called by their task: 12.jpg or task-12.jpg. Labels lie over each other
in the order of the file names, later ones on top. Pixels in no mask are background.
"""

import re
from collections import defaultdict
from pathlib import Path

from reconet.data.formats.draw import Drawing, Part, WhiteIn
from reconet.data.formats.label_studio import find_task_image, task_list
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    LeftOut,
    OwnData,
    check_name,
    check_parts,
    drawn_data,
)
from reconet.data.formats.splits import split_of_folder
from reconet.data.formats.tree import Tree
from reconet.data.images.read import read_frame
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

NAME = re.compile(r"task-(\d+)-annotation-(\d+)-by-[^-]*-(.+)-(\d+)\.png")


def recognise(tree: Tree) -> str | None:
    """Look for the file names of this export."""
    found = _masks(tree)
    return f"{len(found):,} files such as {found[0][0].name}" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Find the image of each task."""
    masks, left_out = _masks(tree), LeftOut()
    images_of = _images_of_tasks(tree)
    by_task: dict[int, list[tuple[Path, int, str]]] = defaultdict(list)
    for path, task, annotation, label in masks:
        by_task[task].append((path, annotation, label))
    prefix = _common_prefix([label for *_, label in masks])
    images = []
    for task, some in sorted(by_task.items()):
        if task not in images_of:
            left_out.add("tasks whose image is not known", f"task {task}")
            continue
        image, *others = sorted(images_of[task])
        if others:
            raise DataError(f"task {task} of {tree.folder} may be {image} or {others[0]}.")
        first = min(annotation for _, annotation, _ in some)
        height, width = read_frame(tree.folder / some[0][0]).stored
        parts = [
            Part(check_name(label.removeprefix(prefix), str(path)), _white(tree, path), str(path))
            for path, annotation, label in some
            if annotation == first
        ]
        source = str(tree.folder)
        drawing = Drawing(source, height, width, check_parts(parts, f"task {task}"), {}, 0)
        images.append(LabelledImage(image, drawing, split_of_folder(image)))
    if not images:
        raise DataError(
            f"the PNGs of Label Studio in {tree.folder} name tasks, not images: put the json "
            "export beside them, or call images 12.jpg for task 12."
        )
    return drawn_data(tree, images, (), left_out.notes(), str(tree.folder))


def _white(tree: Tree, path: Path) -> WhiteIn:
    return WhiteIn(tree.folder / path)


def _masks(tree: Tree) -> list[tuple[Path, int, int, str]]:
    found = []
    for path in tree.with_suffix(".png"):
        match = NAME.fullmatch(path.name)
        if match is not None and len(match[1]) < 18 and len(match[2]) < 18:
            found.append((path, int(match[1]), int(match[2]), match[3]))
    return found


def _images_of_tasks(tree: Tree) -> dict[int, set[Path]]:
    """Return the image of each task. Where several would do, all of them."""
    named: dict[int, set[Path]] = defaultdict(set)
    for image in tree.images:
        match = re.fullmatch(r"(?:task-)?(\d{1,17})", image.stem)
        if match is not None:
            named[int(match[1])].add(image)
    told: dict[int, set[Path]] = defaultdict(set)
    for path in tree.with_suffix(".json"):
        for task in task_list(tree, path):
            place = find_task_image(tree, path, task)
            if type(task.get("id")) is int and place is not None:
                told[task["id"]].add(place)
    return named | told


def _common_prefix(labels: list[str]) -> str:
    """Return the name of the control, "tag-", which newer versions put before each label."""
    controls = {label.partition("-")[0] for label in labels if "-" in label}
    named = f"{controls.pop()}-" if len(controls) == 1 else ""
    return named if all(label.startswith(named) for label in labels) else ""


LABEL_STUDIO_PNG = Format(
    title="Label Studio (PNG export)",
    recognise=recognise,
    read=read,
    overlaps="later file name on top",
)
