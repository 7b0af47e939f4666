"""Videos become videos of overlays, and what cannot be read is one line."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from reconet.errors import DataError, OutputError
from reconet.inference import Predictor, is_video
from reconet.inference.video import predict_video
from tests.factories import ProgressRecorder, tiny_network, write_run, write_video
from tests.launch import run_main


def read_video(path: Path) -> list[np.ndarray]:
    capture, frames = cv2.VideoCapture(str(path)), []
    while (frame := capture.read())[0]:
        frames.append(frame[1])
    return frames


def test_every_frame_is_segmented_into_one_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", tiny_network())
    write_video(tmp_path / "clip.avi", 3)
    arguments = ["predict", str(run), str(tmp_path / "clip.avi"), f"--out={tmp_path / 'out'}"]
    code, out, err = run_main(capsys, *arguments, "--device=cpu")
    assert code == 0, err
    path = tmp_path / "out" / "clip.overlay.mp4"
    assert f"{path}: 3 frames" in out
    assert [frame.shape for frame in read_video(path)] == [(48, 64, 3)] * 3
    code, _, err = run_main(capsys, *arguments, "--device=cpu")
    assert code == 2
    assert "is there already; --overwrite" in err
    for option in ("--probabilities", "--no-overlay"):
        code, _, err = run_main(capsys, *arguments, option)
        assert code == 2
        assert f"{option} is not for videos" in err
    code, _, err = run_main(capsys, *arguments, "--memory=1kB")
    assert "--memory must be at least" in err
    code, _, err = run_main(capsys, *arguments, str(tmp_path / "photo.jpg"))
    assert "name images or videos, not both" in err


def test_what_is_no_video_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    segment = Predictor(tiny_network().model, classes=[str(k) for k in range(14)], device="cpu")
    (tmp_path / "a.mp4").write_bytes(b"no video")
    for source, message in {
        str(tmp_path / "a.mp4"): "OpenCV cannot open|no frame",
        str(tmp_path / "none.mp4"): "no such video",
        "camera:x": "a camera is camera: and its number",
    }.items():
        assert is_video(source)
        with pytest.raises((DataError, OutputError), match=message):
            predict_video(segment, source, tmp_path / "out", progress=ProgressRecorder())
    assert not (tmp_path / "out" / "a.overlay.mp4").exists()
    assert not is_video("photo.jpg")
