"""MS-COCO 2017 with the classes of PASCAL VOC, for pretraining before VOC.

`reconet data prepare coco` draws the instances into masks, and lists the images with enough
labelled pixels.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reconet.data.classes import colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair
from reconet.data.images.draw import write_mask
from reconet.data.layout import contents, find_root, need_folder, read_ids
from reconet.data.prepare import (
    Drawing,
    Job,
    PreparePlan,
    draw_instances,
    need_pycocotools,
    read_json,
    write_list,
)
from reconet.data.sets import voc12
from reconet.errors import DataError

# COCO's category for each class of VOC, from background (none) to tvmonitor (tv).
CATEGORIES = (0, 5, 2, 16, 9, 44, 6, 3, 17, 62, 21, 67, 18, 19, 4, 1, 64, 20, 63, 7, 72)
LABEL_OF = {category: label for label, category in enumerate(CATEGORIES) if label}
MIN_PIXELS = 1000  # images with no more labelled pixels than this are left out
MASKS = "voc_labels"


def open_coco(root: Path, split: str) -> FileDataset:
    home = _home(root)
    hint = "Run `reconet data prepare coco` to make it."
    names = read_ids(home / MASKS / f"{split}.txt", hint)
    images = need_folder(home / f"{split}2017")
    masks = need_folder(home / MASKS / f"{split}2017", hint)
    pairs = [Pair(name, images / f"{name}.jpg", masks / f"{name}.png") for name in names]
    return FileDataset(info=COCO.info, split=split, pairs=pairs, read_label=voc12.read_label)


def _home(root: Path) -> Path:
    return find_root(root, COCO.info.title, ("annotations",), ("coco",))


def plan_coco(root: Path, source: Path | None = None) -> PreparePlan:
    """Plan a mask for every image that has an instance of VOC's classes.

    `source` is another folder of annotations.
    """
    home = _home(root)
    folder = source or home / "annotations"
    files = {split: folder / f"instances_{split}2017.json" for split in COCO.info.splits}
    found = {split: path for split, path in files.items() if path.exists()}
    if not found:
        names = " or ".join(path.name for path in files.values())
        raise DataError(f"expected {names} in {folder}; found {contents(folder)}.")
    need_pycocotools(folder)
    jobs = {split: _jobs(home / MASKS / f"{split}2017", path) for split, path in found.items()}
    return PreparePlan(
        jobs=[job for of_split in jobs.values() for job in of_split],
        work=draw_mask,
        finish=partial(_finish, home, jobs),
    )


def _jobs(target: Path, path: Path) -> list[Job]:
    images, annotations = read_json(path, "images", "annotations")
    instances: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    try:
        for annotation in annotations:
            label = LABEL_OF.get(annotation["category_id"])
            if label is not None:
                instances[annotation["image_id"]].append((label, annotation["segmentation"]))
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


def draw_mask(job: Job) -> None:
    """Draw a mask, and write it if enough of it is labelled."""
    label_hw = draw_instances(job.source, job.target.stem, first_wins=True)
    if np.count_nonzero(label_hw) > MIN_PIXELS:
        write_mask(job.target, label_hw, voc12.MASK_PALETTE)


def _finish(home: Path, jobs: Mapping[str, Sequence[Job]]) -> Mapping[str, int]:
    """List the masks that were written. Images with too few labelled pixels have none."""
    counts = {}
    for split, of_split in jobs.items():
        kept = sorted(job.target.stem for job in of_split if job.target.exists())
        counts[split] = write_list(home / MASKS / f"{split}.txt", kept)
    return counts


COCO = DatasetEntry(
    info=DatasetInfo(
        name="coco",
        title="MS-COCO 2017 with the classes of VOC",
        classes=voc12.CLASSES,
        palette=colour_map(len(voc12.CLASSES)),
        splits={"train": None, "val": None},
        disjoint=(("train", "val"),),
        layout=(
            "{train,val}2017/*.jpg",
            "annotations/instances_{train,val}2017.json",
            f"{MASKS}/{{train,val}}2017/*.png and {MASKS}/{{train,val}}.txt (made by prepare)",
        ),
        licence="labels CC BY 4.0; images under Flickr's terms of use",
        source="https://cocodataset.org/",
        notes=(
            f"only images with more than {MIN_PIXELS} labelled pixels",
            "where instances overlap the first one wins; other categories are background",
        ),
    ),
    open=open_coco,
    prepare=plan_coco,
    converts="instances json -> mask PNGs with the classes of VOC",
)
