"""Segment a video, or what a camera sees, into one video of overlays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from reconet.errors import DataError, OutputError
from reconet.inference.plan import CAMERA
from reconet.inference.predictor import Predictor
from reconet.system.files import staged_write
from reconet.system.progress import SILENT, Progress

FRAMES_PER_SECOND = 25.0  # of a source that does not say


@dataclass(frozen=True, kw_only=True)
class VideoResult:
    """A video of overlays, and how many frames it has."""

    source: str
    path: Path
    frames: int


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
        count, rate = (int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), capture.get(cv2.CAP_PROP_FPS))
        progress.start(max(0, count) if most is None else most, "predict")
        with staged_write(path) as temporary:
            writer = None
            try:
                while (most is None or done < most) and (frame := capture.read())[0]:
                    image_hwc = np.asarray(cv2.cvtColor(frame[1], cv2.COLOR_BGR2RGB), np.uint8)
                    mixed_hwc = np.asarray(predictor(image_hwc).overlay())
                    if writer is None:
                        size, code = mixed_hwc.shape[1::-1], cv2.VideoWriter.fourcc(*"mp4v")
                        rate = rate if rate > 0 else FRAMES_PER_SECOND
                        writer = cv2.VideoWriter(str(temporary), code, rate, size)
                        if not writer.isOpened():
                            raise OutputError(f"OpenCV cannot write videos here: {path.name}.")
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
    if source.startswith(CAMERA) and not number.isdecimal():
        raise DataError(f"a camera is {CAMERA} and its number, such as camera:0, got {source}.")
    if not source.startswith(CAMERA) and not Path(source).is_file():
        raise DataError(f"no such video: {source}.")
    capture = cv2.VideoCapture(int(number) if source.startswith(CAMERA) else source)
    try:
        if not capture.isOpened():
            raise DataError(f"OpenCV cannot open {source}.")
        yield capture
    finally:
        capture.release()
