"""Write the same images and labels in every format, as the programs that people use write them.

`EXPORTS[name](root, samples, classes)` writes a tree. Regions are traced along the edges of
pixels, so that formats of polygons hold the labels exactly: outlines of all connected areas, the
larger ones first, because a smaller one may lie in a hole of a larger one.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.data.formats.areas import Label, areas
from tests.data.trees import run_length

VOID = 255
VOID_COLOUR = (1, 2, 3)
COLOURS = [((37 * k + 50) % 256, (91 * k + 20) % 256, (151 * k + 90) % 256) for k in range(254)]


class Scene(NamedTuple):
    """An image and its labels."""

    name: str
    split: str
    image_hwc: NDArray[np.uint8]
    label_hw: Label


Export = Callable[[Path, Sequence[Scene], Sequence[str]], None]


def named(label: int, classes: Sequence[str]) -> str:
    return "void" if label == VOID else classes[label]


def coloured(label_hw: Label, classes: Sequence[str]) -> NDArray[np.uint8]:
    table_n3 = np.zeros((256, 3), np.uint8)
    table_n3[: len(classes)] = COLOURS[: len(classes)]
    table_n3[VOID] = VOID_COLOUR
    return table_n3[label_hw]


def save_image(path: Path, scene: Scene) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(scene.image_hwc).save(path)


def save_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def save_mask(path: Path, array: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_index_masks(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    for scene in scenes:
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        save_mask(root / f"masks/{scene.split}/{scene.name}.png", scene.label_hw)
    save_text(root / "classes.txt", "\n".join(classes))


def write_colour_masks(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    for scene in scenes:
        save_image(root / f"{scene.split}/images/{scene.name}.png", scene)
        path = root / f"{scene.split}/labels/{scene.name}_mask.png"
        save_mask(path, coloured(scene.label_hw, classes))
    save_text(root / "labelmap.txt", _label_map(classes))


def _label_map(classes: Sequence[str]) -> str:
    lines = [f"{name}:{r},{g},{b}::" for name, (r, g, b) in zip(classes, COLOURS, strict=False)]
    return "\n".join(["# label:color_rgb:parts:actions", *lines, "void:1,2,3::"])


def write_voc(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write CVAT's Segmentation mask 1.1."""
    lists: dict[str, list[str]] = {}
    for scene in scenes:
        save_image(root / f"JPEGImages/{scene.name}.png", scene)
        path = root / f"SegmentationClass/{scene.name}.png"
        save_mask(path, coloured(scene.label_hw, classes))
        lists.setdefault(scene.split, []).append(scene.name)
    for split, names in lists.items():
        save_text(root / f"ImageSets/Segmentation/{split}.txt", "\n".join(names))
    save_text(root / "labelmap.txt", _label_map(classes))


def write_coco(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write polygons, and each third area as run lengths of one kind or the other."""

    def annotate(number: int, scene: Scene) -> Iterator[dict[str, Any]]:
        found = areas(scene.label_hw)
        for place, area in reversed(list(enumerate(found))):
            segmentation: Any = [area.ring]
            if place % 3 or not area.is_whole:
                segmentation = run_length(area.inside_hw, compressed=place % 3 == 1)
            yield {
                "image_id": number,
                "category_id": 1 if area.label == VOID else 10 * area.label + 1,
                "iscrowd": int(area.label == VOID),
                "segmentation": segmentation,
            }

    categories = [{"id": 10 * i + 1, "name": name} for i, name in enumerate(classes)]
    _write_coco(root, "instances", scenes, categories, annotate)


def write_coco_panoptic(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    def annotate(number: int, scene: Scene) -> Iterator[dict[str, Any]]:
        segment_hw = 300 + 700 * scene.label_hw.astype(np.int32)
        segment_hw[scene.label_hw == VOID] = 0
        rgb_hwc = np.stack([segment_hw >> shift & 255 for shift in (0, 8, 16)], -1)
        name = f"{scene.name}.png"
        save_mask(root / f"annotations/panoptic_{scene.split}2017/{name}", rgb_hwc.astype(np.uint8))
        segments = [
            {"id": 300 + 700 * label, "category_id": label + 1, "iscrowd": 0}
            for label in np.unique(scene.label_hw).tolist()
            if label != VOID
        ]
        yield {"image_id": number, "file_name": name, "segments_info": segments}

    categories = [{"id": i + 1, "name": name} for i, name in enumerate(classes)]
    _write_coco(root, "panoptic", scenes, categories, annotate)


def _write_coco(
    root: Path,
    kind: str,
    scenes: Sequence[Scene],
    categories: list[dict[str, Any]],
    annotate: Callable[[int, Scene], Iterator[dict[str, Any]]],
) -> None:
    for split in {scene.split for scene in scenes}:
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number, scene in enumerate(scenes):
            if scene.split == split:
                file = f"{split}2017/{scene.name}.png"
                save_image(root / file, scene)
                height, width = scene.label_hw.shape
                size = {"height": height, "width": width}
                images.append({"id": number, "file_name": Path(file).name} | size)
                annotations += annotate(number, scene)
        content = {"images": images, "annotations": annotations, "categories": categories}
        save_text(root / f"annotations/{kind}_{split}2017.json", json.dumps(content))


def write_yolo(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    for scene in scenes:
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        height, width = scene.label_hw.shape
        lines = []
        for area in areas(scene.label_hw):
            sizes = [width, height] * (len(area.ring) // 2)
            values = [f"{v / size:.6f}" for v, size in zip(area.ring, sizes, strict=True)]
            label = min(area.label, len(classes))  # the last name is void
            lines.append(" ".join([str(label), *values]))
        save_text(root / f"labels/{scene.split}/{scene.name}.txt", "\n".join(lines[::-1]))
    names = "\n".join(f"  {i}: {name}" for i, name in enumerate([*classes, "void"]))
    save_text(
        root / "data.yaml",
        f"path: ../datasets/mine\ntrain: images/train\nval: images/val\nnames:\n{names}\n",
    )


def write_labelme(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write polygons, and each third area as a mask."""
    for scene in scenes:
        save_image(root / f"{scene.split}/{scene.name}.png", scene)
        height, width = scene.label_hw.shape
        shapes = []
        for place, area in enumerate(areas(scene.label_hw)):
            points = np.array(area.ring, float).reshape(-1, 2)
            shape: dict[str, Any] = {"label": named(area.label, classes), "shape_type": "polygon"}
            if place % 3 == 2:
                rows, columns = np.nonzero(area.inside_hw)
                top, left, bottom, right = rows.min(), columns.min(), rows.max(), columns.max()
                part = area.inside_hw[top : bottom + 1, left : right + 1]
                points = np.array([[left, top], [right, bottom]], float)
                shape |= {"shape_type": "mask", "mask": _base64(part)}
            shapes.append(shape | {"points": points.tolist()})
        content: dict[str, Any] = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imageData": None,
        }
        content |= {"imagePath": f"{scene.name}.png", "imageHeight": height, "imageWidth": width}
        save_text(root / f"{scene.split}/{scene.name}.json", json.dumps(content))


def write_via(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write a file for each split, as VIA 2 exports it."""
    for split in {scene.split for scene in scenes}:
        content = {}
        for scene in scenes:
            if scene.split == split:
                save_image(root / f"{split}/{scene.name}.png", scene)
                regions = []
                for area in areas(scene.label_hw):
                    xs, ys = area.ring[::2], area.ring[1::2]
                    shape = {"name": "polygon", "all_points_x": xs, "all_points_y": ys}
                    told = {"note": "", "class": named(area.label, classes)}
                    regions.append({"shape_attributes": shape, "region_attributes": told})
                entry: dict[str, Any] = {"filename": f"{scene.name}.png", "regions": regions}
                content[f"{scene.name}.png99"] = entry | {"size": 99, "file_attributes": {}}
        save_text(root / f"{split}/via_region_data.json", json.dumps(content))


def write_class_folders(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    for scene in scenes:
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        for label in np.unique(scene.label_hw).tolist():
            path = root / f"masks/{scene.split}/{named(label, classes)}/{scene.name}.png"
            save_mask(path, (scene.label_hw == label).astype(np.uint8) * 255)


def _base64(inside_hw: NDArray[np.bool_]) -> str:
    file = BytesIO()
    Image.fromarray(inside_hw.astype(np.uint8) * 255).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def write_cvat(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write polygons, each third area as a mask, in a wrong order that z_order mends."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations><version>1.1</version>"]
    labels = "".join(f"<label><name>{name}</name></label>" for name in classes)
    lines.append(f"<meta><task><labels>{labels}</labels></task></meta>")
    for number, scene in enumerate(scenes):
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        height, width = scene.label_hw.shape
        name = quoteattr(f"{scene.split}/{scene.name}.png")
        lines.append(
            f'<image id="{number}" name={name} subset="{scene.split}" width="{width}" '
            f'height="{height}">'
        )
        elements = [*_cvat_elements(scene, classes)]
        lines += [*elements[::-1], "</image>"]
    save_text(root / "annotations.xml", "\n".join([*lines, "</annotations>"]))


def _cvat_elements(scene: Scene, classes: Sequence[str]) -> Iterator[str]:
    for place, area in enumerate(areas(scene.label_hw)):
        start = f'label={quoteattr(named(area.label, classes))} z_order="{place}"'
        if place % 3 == 2:
            rows, columns = np.nonzero(area.inside_hw)
            top, left = int(rows.min()), int(columns.min())
            part = area.inside_hw[top : rows.max() + 1, left : columns.max() + 1]
            counts = run_length(part.T, compressed=False)["counts"]
            runs = ", ".join(map(str, counts))  # type: ignore[call-overload]
            height, width = part.shape
            yield (
                f'<mask {start} rle="{runs}" left="{left}" top="{top}" width="{width}" '
                f'height="{height}"></mask>'
            )
            continue
        pairs = zip(area.ring[::2], area.ring[1::2], strict=True)
        points = ";".join(f"{x:.2f},{y:.2f}" for x, y in pairs)
        yield f'<polygon {start} points="{points}"></polygon>'


def pack_brush(inside_hw: NDArray[np.bool_]) -> list[int]:
    """Pack an area as Label Studio does, in runs of at most 2048 values and some single values."""
    value_n = np.repeat(inside_hw.ravel(), 4).astype(np.uint8) * 255
    bits = f"{len(value_n):032b}" + f"{7:05b}" + "".join(f"{n - 1:04b}" for n in (3, 4, 8, 11))
    edges = [0, *(np.flatnonzero(np.diff(value_n)) + 1).tolist(), len(value_n)]
    for start, end in pairwise(edges):
        while start < end:
            count = min(2048, end - start)
            if count <= 8:  # as single values
                bits += "0" + "00" + f"{count - 1:03b}" + f"{value_n[start]:08b}" * count
            else:
                bits += "1" + "11" + f"{count - 1:011b}" + f"{value_n[start]:08b}"
            start += count
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


def write_label_studio(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    """Write polygons, and each third area as brush strokes."""
    tasks = []
    for number, scene in enumerate(scenes):
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        height, width = scene.label_hw.shape
        results = []
        for place, area in enumerate(areas(scene.label_hw)):
            name = [named(area.label, classes)]
            if place % 3 == 2:
                brush = {"format": "rle", "rle": pack_brush(area.inside_hw), "brushlabels": name}
                value: dict[str, Any] = brush
            else:
                scale = np.array([100 / width, 100 / height])
                points = np.array(area.ring, float).reshape(-1, 2) * scale
                value = {"points": points.tolist(), "polygonlabels": name, "closed": True}
            kind = "brushlabels" if place % 3 == 2 else "polygonlabels"
            size = {"original_width": width, "original_height": height}
            results.append({"type": kind, "value": value, "from_name": "tag"} | size)
        image = f"/data/upload/1/0a1b2c3d-{scene.name}.png"
        tasks.append(
            {"id": number + 1, "data": {"image": image}, "annotations": [{"result": results}]}
        )
    save_text(root / "project-1.json", json.dumps(tasks))


def write_label_studio_png(root: Path, scenes: Sequence[Scene], classes: Sequence[str]) -> None:
    tasks = []
    for number, scene in enumerate(scenes, 1):
        save_image(root / f"images/{scene.split}/{scene.name}.png", scene)
        for label in np.unique(scene.label_hw).tolist():
            name = f"task-{number}-annotation-{number + 7}-by-1-tag-{named(label, classes)}-0.png"
            save_mask(root / name, (scene.label_hw == label).astype(np.uint8) * 255)
        tasks.append({"id": number, "data": {"image": f"/data/upload/1/{scene.name}.png"}})
    save_text(root / "tasks.json", json.dumps(tasks))


EXPORTS: dict[str, Export] = {
    "coco": write_coco,
    "coco-panoptic": write_coco_panoptic,
    "cvat": write_cvat,
    "label-studio": write_label_studio,
    "label-studio-png": write_label_studio_png,
    "labelme": write_labelme,
    "via": write_via,
    "yolo": write_yolo,
    "voc": write_voc,
    "class-folders": write_class_folders,
    "colour-masks": write_colour_masks,
    "index-masks": write_index_masks,
}
