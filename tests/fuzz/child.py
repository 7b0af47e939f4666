"""Use damaged and hostile files in a process with little memory, and print each broken promise.

Usage: python -m tests.fuzz.child KIND,KIND... SEED COUNT. The damage is a function of (seed,
number), so that a finding can be repeated. A reader may succeed or raise a ReconetError of one
line. Everything else is printed: a case that takes very long too, and one that leaves a process,
a temporary file, or a file elsewhere.
"""

import atexit
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import psutil
import torch
from PIL import Image
from safetensors.torch import save as safetensors_bytes

from reconet.data import open_dataset
from reconet.data.formats import folder_options, keep, read_folder
from reconet.data.formats.draw import draw
from reconet.data.images.read import ORIENTATION, read_image, read_mask, read_mat, read_upright
from reconet.data.labels import LabelReader, in_order
from reconet.data.prepare import read_json
from reconet.engine import read_log, run_weights
from reconet.errors import ReconetError
from reconet.export import export
from reconet.inference.backends import open_exported
from reconet.models import trained as trained_file
from reconet.models.trained import TrainedNetwork, load_trained, save_compact, save_trained
from reconet.models.weights import read_tensors
from reconet.recipes import dump_recipe, read_recipe
from reconet.system.user_cache import ROOT_VARIABLE
from tests.data.formats.exports import EXPORTS, Scene
from tests.factories import tiny_network, tiny_recipe
from tests.fuzz import graphs, hostile
from tests.fuzz.hostile import HOSTILE_KINDS

MEMORY = 3 * 2**30  # of data. Of addresses, a build of torch for GPUs takes many more
SECONDS = 20  # of work
RNG = np.random.default_rng(0)
IMAGE = Image.fromarray(RNG.integers(0, 256, (24, 31, 3), np.uint8))
BATCH = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
RECIPE = tiny_recipe("model.rank=2", "model.aux=false")
TENSORS = {"a.weight": torch.ones(3, 4), "b": torch.arange(5)}
MASK = Image.fromarray(RNG.integers(0, 5, (24, 31), np.uint8))

LABELS = RNG.integers(0, 3, (6, 8)).astype(np.uint8).repeat(4, 0).repeat(4, 1)[:, :31]
SCENE = Scene("a", "train", np.asarray(IMAGE), LABELS)


def encoded(image: Image.Image, form: str) -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def photo() -> bytes:
    """Make a JPEG that is to be turned, as cameras write it."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    file = io.BytesIO()
    IMAGE.save(file, "JPEG", exif=exif)
    return file.getvalue()


def mat() -> bytes:
    from scipy.io import savemat  # type: ignore[import-untyped]

    file = io.BytesIO()
    savemat(file, {"S": np.asarray(MASK)}, do_compression=True)
    return file.getvalue()


def saved(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def trained(save: Callable[[Path, TrainedNetwork], None] = save_trained) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.safetensors"
        palette = ((0, 0, 0), (9, 9, 9))
        save(path, tiny_network(RECIPE, classes=("a", "b"), palette=palette))
        return path.read_bytes()


def compact_file() -> bytes:
    trained_file.SMALL = 0  # the layers of a tiny network count as large
    return trained(save_compact)


def last_pt() -> bytes:
    content = {"format": 1, "step": 3, "model": TENSORS, "ema": None, "progress": {}}
    return saved(content)


def coco_json() -> bytes:
    box = {"image_id": 1, "category_id": 2, "segmentation": [[0, 0, 9, 0, 9, 9]]}
    images = [{"id": 1, "file_name": "a.jpg", "height": 24, "width": 31}]
    return json.dumps({"images": images, "annotations": [box]}).encode()


def log_lines() -> bytes:
    return b"".join(
        json.dumps({"kind": "train", "step": n, "loss": 1 / n}).encode() + b"\n"
        for n in range(1, 9)
    )


@cache
def exported(form: str, suffix: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reconet-fuzz-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "best.safetensors").write_bytes(trained())
    return export(folder, format=form, out=folder / f"model{suffix}").path


def run_openvino(path: Path) -> object:
    """Run a damaged OpenVINO file. Its weights are in a second file, which is not damaged."""
    shutil.copy(exported("openvino", ".xml").with_suffix(".bin"), path.with_suffix(".bin"))
    return open_exported(path, trusted=True)(BATCH)


def into_run(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Make a reader of a run directory from a reader of its log."""

    def reader(path: Path) -> object:
        return read(path.rename(path.with_name("log.jsonl")).parent)

    return reader


def annotations(form: str, name: str) -> bytes:
    """Return the file of annotations of a tiny folder."""
    with tempfile.TemporaryDirectory() as folder:
        EXPORTS[form](Path(folder), [SCENE], ("road", "roof", "tree"))
        return next(Path(folder).rglob(name)).read_bytes()


def in_folder(form: str, name: str) -> Callable[[Path], object]:
    """Make a reader of a folder from the name of its file of annotations."""

    drawn = form not in ("voc", "colour-masks", "black-white-masks", "index-masks")
    scenes = [SCENE] if drawn else [SCENE, SCENE._replace(name="b", split="val")]

    def reader(path: Path) -> object:
        root = path.parent / "mine"
        EXPORTS[form](root, scenes, ("road", "roof", "tree"))
        path.rename(next(root.rglob(name)))
        data = read_folder(root, form).data
        if drawn:
            return [draw(one.labels) for one in data.images if not isinstance(one.labels, Path)]
        os.environ[ROOT_VARIABLE] = str(path.parent / "cache")
        keep(data, workers=0)
        splits = [open_dataset("folder", s, root, folder_options(data)) for s in ("train", "val")]
        return [split[number] for split in splits for number in range(len(split))]

    return reader


def own(form: str, name: str) -> tuple[Callable[[], bytes], str, Callable[[Path], object]]:
    return lambda: annotations(form, name), ".any", in_folder(form, name)


# kind: (a good file, the suffix it needs, what reads it)
KINDS: dict[str, tuple[Callable[[], bytes], str, Callable[[Path], object]]] = {
    "png": (lambda: encoded(IMAGE, "PNG"), ".png", read_image),
    "jpeg": (lambda: encoded(IMAGE, "JPEG"), ".jpg", read_image),
    "photo": (photo, ".jpg", read_upright),
    "tiff": (lambda: encoded(IMAGE, "TIFF"), ".tif", read_image),
    "webp": (lambda: encoded(IMAGE, "WEBP"), ".webp", read_image),
    "gif": (lambda: encoded(IMAGE, "GIF"), ".gif", read_image),
    "bmp": (lambda: encoded(IMAGE, "BMP"), ".bmp", read_image),
    "mask": (lambda: encoded(MASK, "PNG"), ".png", LabelReader(in_order(5), read_mask)),
    "mat": (mat, ".mat", lambda path: read_mat(path, "S")),
    "recipe": (lambda: dump_recipe(RECIPE).encode(), ".json", read_recipe),
    "coco": (coco_json, ".json", lambda path: read_json(path, "images", "annotations")),
    "log": (log_lines, ".jsonl", into_run(read_log)),
    "safetensors": (lambda: safetensors_bytes(TENSORS), ".safetensors", read_tensors),
    "trained": (trained, ".safetensors", load_trained),
    "compact": (compact_file, ".safetensors", load_trained),
    "torch": (lambda: saved(TENSORS), ".pth", read_tensors),
    "last": (last_pt, ".pt", run_weights),
    "onnx": (
        lambda: exported("onnx", ".onnx").read_bytes(),
        ".onnx",
        lambda path: open_exported(path, trusted=True)(BATCH),
    ),
    "openvino": (lambda: exported("openvino", ".xml").read_bytes(), ".xml", run_openvino),
}
KINDS |= {
    "own coco": own("coco", "*.json"),
    "own yolo": own("yolo", "*.txt"),
    "own yaml": own("yolo", "*.yaml"),
    "own labelme": own("labelme", "*.json"),
    "own cvat": own("cvat", "*.xml"),
    "own label studio": own("label-studio", "*.json"),
    "own label map": own("voc", "labelmap.txt"),
    "own panoptic": own("coco-panoptic", "*.json"),
    "own panoptic png": own("coco-panoptic", "panoptic_*/*.png"),
    "own label studio png": own("label-studio-png", "task-*.png"),
    "own index mask": own("index-masks", "masks/train/*.png"),
    "own colour mask": own("colour-masks", "*_mask.png"),
    "own voc mask": own("voc", "SegmentationClass/*.png"),
    "own classes": own("index-masks", "classes.txt"),
}
cached = cache(lambda make: make())
EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]


def mutate(good: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file once to four times.

    Flip a bit, cut, insert, repeat a part, or write an extreme number. Half of the damage falls
    into the first 512 bytes, where formats keep their lengths and types.
    """
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 5))):
        end = min(len(data), 512) if rng.random() < 0.5 else len(data)
        place = int(rng.integers(0, max(1, end)))
        size = int(rng.integers(1, 40))
        match int(rng.integers(0, 6)):
            case 0 if data:
                data[min(place, len(data) - 1)] ^= 1 << int(rng.integers(0, 8))
            case 1:
                del data[place : len(data) if rng.random() < 0.3 else place + size]
            case 2:
                data[place:place] = rng.bytes(size)
            case 3:
                data[place:place] = data[place : place + size] * int(rng.integers(1, 9))
            case 4:
                width = int(rng.choice([1, 2, 4, 8]))
                order: str = str(rng.choice(["little", "big"]))
                number = EXTREMES[int(rng.integers(0, len(EXTREMES)))] % 256**width
                data[place : place + width] = number.to_bytes(width, order)
            case _:
                data[place : place + size] = rng.bytes(size)
    return bytes(data)


def find_problem(use: Callable[[], object]) -> str | None:
    """Return what is wrong with how something was used, or None."""
    start = time.process_time()  # another program may keep the machine busy
    try:
        use()
    except ReconetError as error:
        if "\n" in str(error):
            return f"an error of several lines: {str(error)!r}"
    except BaseException as error:  # SystemExit of a reader would be a finding too
        return f"{type(error).__name__}: {str(error)[:200]!r} {_place(error)}"
    return None if time.process_time() - start < SECONDS else "it took very long"


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"in {Path(frame.filename).name}, line {frame.lineno}"


def find_leftovers(folder: Path) -> str | None:
    """Return what a case has left where nothing may be left, or None."""
    left = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    left = [
        line for line in left if "resource_tracker" not in line
    ]  # Python's own: it ends with us
    if left:
        return f"it left processes: {left}"
    temporary = sorted(path.name for path in (folder / "tmp").iterdir())
    if temporary:
        return f"it left temporary files: {temporary}"
    elsewhere = sorted(path.name for path in (folder / hostile.OUTSIDE).iterdir())
    if elsewhere != ["file"] or (folder / hostile.OUTSIDE / "file").read_text() != "private":
        return f"it wrote elsewhere: {elsewhere}"
    parts = [str(path.relative_to(folder)) for path in folder.rglob("*.part")]
    return f"it left half files: {parts}" if parts else None


def try_damaged(kind: str, rng: np.random.Generator, folder: Path, number: int) -> None:
    make, suffix, read = KINDS[kind]
    good = cached(make)
    path = folder / f"file{suffix}"
    path.write_bytes(mutate(good, rng) if number else good)
    read(path)


def main(kind: str, seed: int, count: int, first: int = 0) -> None:
    warnings.simplefilter("ignore")
    prepare(kind)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    accepted = 0
    for number in range(first, first + count):
        rng = np.random.default_rng([seed, number])
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "tmp").mkdir()
            (folder / hostile.OUTSIDE).mkdir()
            (folder / hostile.OUTSIDE / "file").write_text("private")
            tempfile.tempdir = str(folder / "tmp")
            use = (
                partial(HOSTILE_KINDS[kind], rng, folder)
                if kind in HOSTILE_KINDS
                else partial(try_damaged, kind, rng, folder, number)
            )
            wrong = find_problem(use) or find_leftovers(folder)
            tempfile.tempdir = None
        if wrong:
            print(f"{kind} {seed} {number}: {wrong}", flush=True)
        accepted += wrong is None
    print(f"done {accepted} of {count}")


def prepare(kind: str) -> None:
    """Make what all cases of a kind share, before memory is limited."""
    if kind in KINDS:
        cached(KINDS[kind][0])
        return
    hostile.finished_run()
    graphs.real_texts()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1].split(","):
        main(name, *map(int, sys.argv[2:]))
