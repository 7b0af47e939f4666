from pathlib import Path

import cv2

from reconet.bench.modules import ModuleBench
from reconet.bench.plot import plot_module


def measured(name: str) -> ModuleBench:
    return ModuleBench(
        name=name,
        reach="whole map",
        params=1,
        macs=1,
        forward_ms=5,
        forward_backward_ms=10,
        forward_peak_maps=2,
        forward_backward_peak_maps=4,
    )


def test_the_plot_is_an_image(tmp_path: Path) -> None:
    path = tmp_path / "cores.png"
    plot_module([measured("reconet"), measured("danet")], "title", path)
    image = cv2.imread(str(path))
    assert image is not None
    assert image.shape == (750, 1200, 3)
    assert image.std() > 10
