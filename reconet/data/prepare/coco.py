"""MS-COCO instances drawn with the classes of VOC."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reconet.data.images.read import write_index
from reconet.data.layout import contents
from reconet.data.names import colour_map
from reconet.data.prepare.instances import Drawing, draw, need_pycocotools, read_json
from reconet.data.prepare.run import Job, Plan, write_list
from reconet.data.sets.coco import CATEGORIES, INFO, LABELS, MIN_PIXELS, coco_root
from reconet.errors import DataError

CLASS_OF = {category: index for index, category in enumerate(CATEGORIES) if index}
PALETTE = colour_map(256)


def plan_coco(root: Path, source: Path | None = None) -> Plan:
    """Draw every image that has an instance of VOC's classes; `source`: another annotations."""
    home = coco_root(root)
    folder = source or home / "annotations"
    files = {split: folder / f"instances_{split}2017.json" for split in INFO.splits}
    found = {split: path for split, path in files.items() if path.exists()}
    if not found:
        names = " or ".join(path.name for path in files.values())
        raise DataError(f"expected {names} in {folder}; found {contents(folder)}.")
    need_pycocotools(folder)
    jobs = {split: _jobs(home / LABELS / f"{split}2017", path) for split, path in found.items()}
    every = [job for some in jobs.values() for job in some]
    return Plan(jobs=every, work=draw_one, finish=partial(_finish, home, jobs))


def _jobs(target: Path, path: Path) -> list[Job]:
    images, annotations = read_json(path, "images", "annotations")
    instances: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    try:
        for annotation in annotations:
            index = CLASS_OF.get(annotation["category_id"])
            if index is not None:
                instances[annotation["image_id"]].append((index, annotation["segmentation"]))
        return [
            Job(
                target / f"{Path(image['file_name']).stem}.png",
                Drawing(image["height"], image["width"], instances[image["id"]]),
            )
            for image in images
            if image["id"] in instances
        ]
    except KeyError as error:
        raise DataError(f"{path} has an entry without {error}: not COCO instances?") from error


def draw_one(job: Job) -> None:
    """Draw an image, and keep it if enough of it is labelled."""
    try:
        label_hw = draw(job.source, first_wins=True)
    except Exception as error:  # pycocotools raises nearly anything about bad segmentations
        raise DataError(f"cannot draw {job.target.stem}: {error}.") from error
    if np.count_nonzero(label_hw) > MIN_PIXELS:
        write_index(job.target, label_hw, PALETTE)


def _finish(home: Path, jobs: Mapping[str, Sequence[Job]]) -> Mapping[str, int]:
    """List what was kept. An image with too little in it has no file, and is drawn again."""
    counts = {}
    for split, some in jobs.items():
        kept = sorted(job.target.stem for job in some if job.target.exists())
        counts[split] = write_list(home / LABELS / f"{split}.txt", kept)
    return counts
