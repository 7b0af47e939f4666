"""Segment a video, or what a camera sees, into one video of overlays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from reconet.errors import DataError, OutputError
from reconet.inference.predictor import Predictor
from reconet.system.files import staged_write
from reconet.system.progress import SILENT, Progress
from reconet.types import Image

VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
CAMERA = "camera:"  # before the number of a camera, as in camera:0
FRAMES_PER_SECOND = 25.0  # of a source that does not say


@dataclass(frozen=True, kw_only=True)
class VideoResult:
    """A video of overlays, and how many frames it has."""

    source: str
    path: Path
    frames: int


def is_video(argument: str) -> bool:
    """Tell whether an argument names a video or a camera."""
    return argument.startswith(CAMERA) or argument.lower().endswith(VIDEOS)


def predict_video(
    predictor: Predictor,
    source: str,
    folder: Path,
    *,
    most: int | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> VideoResult:
    """Write the overlay of every frame to one video, `<name>.overlay.mp4`, in a folder.

    A camera runs until `most` frames are done, or until Ctrl-C, which keeps what there is.
    """
    name = source.replace(":", "-") if source.startswith(CAMERA) else Path(source).stem
    path, done = folder / f"{name}.overlay.mp4", 0
    if path.exists() and not overwrite:
        raise OutputError(f"{path} is there already; --overwrite (overwrite=True) replaces it.")
    with _open(source) as capture:
        count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        rate = capture.get(cv2.CAP_PROP_FPS)
        total = max(0, count) if most is None else most
        progress.start(total, "predict")
        with staged_write(path) as temporary:
            writer = None
            try:
                for image_hwc in _frames(capture, most):
                    mixed_hwc = np.asarray(predictor(image_hwc).overlay())
                    writer = writer or _open_writer(temporary, mixed_hwc, rate)
                    writer.write(cv2.cvtColor(mixed_hwc, cv2.COLOR_RGB2BGR))
                    done += 1
                    progress.advance()
            except KeyboardInterrupt:
                if not source.startswith(CAMERA):  # half a video is no result
                    raise
                progress.note(f"stopped after {done} frames")
            finally:
                if writer is not None:
                    writer.release()
            if not done:
                raise DataError(f"{source} has no frame that OpenCV can read.")
    return VideoResult(source=source, path=path, frames=done)


@contextmanager
def _open(source: str) -> Iterator[cv2.VideoCapture]:
    number = source.removeprefix(CAMERA)
    if source.startswith(CAMERA):
        if not number.isdecimal():
            raise DataError(f"a camera is {CAMERA} and its number, such as camera:0, got {source}.")
        capture = cv2.VideoCapture(int(number))
    else:
        if not Path(source).is_file():
            raise DataError(f"no such video: {source}.")
        capture = cv2.VideoCapture(source)
    try:
        if not capture.isOpened():
            raise DataError(f"OpenCV cannot open {source}.")
        yield capture
    finally:
        capture.release()


def _frames(capture: cv2.VideoCapture, most: int | None) -> Iterator[Image]:
    done = 0
    while most is None or done < most:
        there, frame_hwc = capture.read()
        if not there:
            return
        yield np.asarray(cv2.cvtColor(frame_hwc, cv2.COLOR_BGR2RGB), np.uint8)
        done += 1


def _open_writer(path: Path, image_hwc: Image, rate: float) -> cv2.VideoWriter:
    height, width = image_hwc.shape[:2]
    code = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(
        str(path), code, rate if rate > 0 else FRAMES_PER_SECOND, (width, height)
    )
    if not writer.isOpened():
        raise OutputError(f"OpenCV cannot write videos here: {path.name}.")
    return writer
