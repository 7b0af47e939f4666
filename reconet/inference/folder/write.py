"""Write the files of one image. Each appears in one move, and none outside the output folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from reconet.data.images.write import write_mask
from reconet.errors import OutputError
from reconet.inference.folder.output_names import LONG_OVERLAY, MASK, OVERLAY, PROBABILITIES
from reconet.inference.predictor import Prediction
from reconet.system.files import write_atomic

JPEG_LONGEST = 65_500  # pixels of a side
QUALITY = 90


def write_outputs(
    out: Path, stem: str, prediction: Prediction, kinds: Sequence[str]
) -> dict[str, str]:
    """Write some kinds of files. Return their names, relative to the output folder."""
    return {kind: WRITERS[kind](out, stem, prediction) for kind in kinds}


def _write_mask(out: Path, stem: str, prediction: Prediction) -> str:
    write_mask(path_inside(out, stem + MASK), prediction.label_hw, prediction.palette)
    return stem + MASK


def _write_overlay(out: Path, stem: str, prediction: Prediction) -> str:
    image = prediction.overlay()
    name = stem + (OVERLAY if max(image.size) <= JPEG_LONGEST else LONG_OVERLAY)
    if name.endswith(".jpg"):
        write_atomic(path_inside(out, name), lambda file: image.save(file, "JPEG", quality=QUALITY))
    else:
        write_atomic(path_inside(out, name), lambda file: image.save(file, "PNG"))
    return name


def _write_probabilities(out: Path, stem: str, prediction: Prediction) -> str:
    """Write probability_khw in half precision, and the names of the classes, for numpy.load."""
    probability_khw = prediction.probability_khw
    assert probability_khw is not None
    name = stem + PROBABILITIES
    write_atomic(
        path_inside(out, name), lambda file: _write_npz(file, probability_khw, prediction.classes)
    )
    return name


def _write_npz(
    file: BinaryIO, probability_khw: NDArray[np.float32], classes: tuple[str, ...]
) -> None:
    """Write class by class, because another copy of all of them might not fit in memory."""
    header = {"descr": "<f2", "fortran_order": False, "shape": probability_khw.shape}
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("probability_khw.npy", "w", force_zip64=True) as member:
            npy.write_array_header_1_0(member, header)
            for probability_hw in probability_khw:
                member.write(probability_hw.astype("<f2").tobytes())
        with archive.open("classes.npy", "w") as member:
            npy.write_array(member, np.array(classes), allow_pickle=False)


def path_inside(out: Path, name: str) -> Path:
    """Return the path of an output file. Raise if a link leads it out of the folder."""
    path = out / name
    if path.is_symlink() or not path.resolve().is_relative_to(out.resolve()):
        raise OutputError(f"cannot write {path}: a link leads out of {out}.")
    return path


WRITERS: dict[str, Callable[[Path, str, Prediction], str]] = {
    "labels": _write_mask,
    "overlay": _write_overlay,
    "probabilities": _write_probabilities,
}
