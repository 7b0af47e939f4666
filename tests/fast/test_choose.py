"""Which way is chosen: the fastest whose labels agree."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.fast import choose
from reconet.fast.choose import EAGER, Agreement, Search
from reconet.fast.images import ProbeImage, ProbeImages, find_probe_images
from reconet.fast.ways import Candidate, Subject
from reconet.inference.windows import Forward
from reconet.models.trained import TrainedNetwork
from tests.factories import smooth_image, tiny_network, tiny_recipe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained() -> TrainedNetwork:
    return tiny_network(tiny_recipe("data.crop=32", "data.base_size=48"), decided=True)


@pytest.fixture
def search(trained: TrainedNetwork, tmp_path: Path) -> Search:
    images = ProbeImages(
        origin="of a test",
        calibrated=[smooth_image(1)],
        compared=[ProbeImage(image_hwc=smooth_image(2)), ProbeImage(image_hwc=smooth_image(3))],
    )
    return Search(trained, CPU, images, tmp_path)


def flip_rows(forward: Forward, share: float) -> Forward:
    """Give other labels in a share of the rows."""

    def other(image_bchw: torch.Tensor) -> torch.Tensor:
        logits_bkij = forward(image_bchw).clone()
        rows = round(share * logits_bkij.shape[2])
        logits_bkij[:, :, :rows] *= -1
        return logits_bkij

    return other


def fake(search: Search, name: str, share: float = 0.0) -> Candidate:
    return Candidate(name=name, way="exported", forward=flip_rows(search.eager, share))


def choose_among(
    search: Search, speeds: dict[str, float], wrong: dict[str, float], patch: pytest.MonkeyPatch
) -> tuple[Candidate | None, str]:
    """Run a search among ways with given speeds and shares of wrong labels."""
    ways = {name: lambda _, name=name: fake(search, name, wrong.get(name, 0)) for name in speeds}
    patch.setattr(choose, "WAYS", ways)
    patch.setattr(search, "_time", lambda made: {one.name: speeds[one.name] for one in made})
    return search.run(can_compile=False)


def test_the_fastest_way_that_agrees_is_taken(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"slow": 1.3, "wrong": 9.0, "best": 4.0}
    best, text = choose_among(search, speeds, {"wrong": 0.5}, monkeypatch)
    assert best is not None
    assert best.name == "best"
    assert text.startswith("best, 4.00 times as fast as eager fp32, 100.00 % of the labels agree")
    assert "on 2 images of a test" in text


def test_eager_stays_where_nothing_is_faster_or_agrees(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"slow": 1.05, "wrong": 3.0}
    best, text = choose_among(search, speeds, {"wrong": 0.5}, monkeypatch)
    assert best is None
    assert text.startswith(f"{EAGER}, since nothing else pays here")
    assert "slow: 1.05 times" in text
    assert "wrong: 3.00 times" in text


def test_a_way_that_rounds_too_much_is_tried_again_with_less_rounding(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {"int8": 5.0, "gentle": 3.0, "fp32": 2.0}

    def rough(_: Subject) -> Candidate:
        return replace(fake(search, "int8", 0.5), gentler=lambda _: fake(search, "gentle"))

    monkeypatch.setattr(choose, "WAYS", {"int8": rough, "fp32": lambda _: fake(search, "fp32")})
    monkeypatch.setattr(search, "_time", lambda made: {one.name: speeds[one.name] for one in made})
    best, _ = search.run(can_compile=False)
    assert best is not None
    assert best.name == "gentle"


def test_a_way_that_fails_is_left_out_with_its_reason(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Subject) -> Candidate:
        raise RuntimeError("no such\nluck")

    monkeypatch.setattr(choose, "WAYS", {"broken": fail})
    best, text = search.run(can_compile=False)
    assert best is None
    assert "(broken: no such)" in text


def test_a_full_disk_is_no_reason_to_give_a_way_up(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Subject) -> Candidate:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(choose, "WAYS", {"full": fail})
    with pytest.raises(OSError, match="No space"):
        search.run(can_compile=False)


def test_the_score_counts_where_labels_are_known(trained: TrainedNetwork, tmp_path: Path) -> None:
    images = find_probe_images(trained.info, ())
    assert not images.is_generated  # scenes are this network's own dataset
    compared = Search(trained, CPU, images, tmp_path)
    same = compared.compare(compared.eager)
    assert same.same == 1.0
    assert same.before == same.after is not None
    worse = compared.compare(flip_rows(compared.eager, 0.5))
    assert worse.same < 0.9
    assert not worse.is_good


@pytest.mark.parametrize(
    ("same", "before", "after", "good"),
    [
        (0.99, None, None, True),
        (0.979, None, None, False),
        (0.99, 0.600, 0.596, True),
        (0.99, 0.600, 0.594, False),
        (0.99, 0.600, 0.700, True),
        (0.99, 0.600, 0.0, False),
    ],
)
def test_agreement_and_score_have_limits(
    same: float, before: float | None, after: float | None, good: bool
) -> None:
    assert Agreement(same=same, before=before, after=after).is_good is good


def test_images_at_hand_serve_where_the_dataset_is_not_here(
    trained: TrainedNetwork, tmp_path: Path
) -> None:
    from PIL import Image as Pillow

    data = trained.info.recipe.data.model_copy(update={"name": "unknown"})
    info = replace(trained.info, recipe=trained.info.recipe.model_copy(update={"data": data}))
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths[1:]):
        Pillow.fromarray(smooth_image(number)).save(path)
    paths[0].write_text("no image")
    images = find_probe_images(info, paths)
    assert images.origin == "at hand"
    assert len(images.calibrated) == 2
    assert len(images) == 4  # three of the five, and one of them stretched
    assert images.description == "3 images at hand"
    shown = [one.image_hwc.tobytes() for one in images.compared[:3]]
    assert not any(image.tobytes() in shown for image in images.calibrated)
    assert images.compared[3].image_hwc.shape != images.compared[0].image_hwc.shape
    assert images.compared[3].image_hwc.dtype == np.uint8
    assert find_probe_images(info, paths[:1]).is_generated
