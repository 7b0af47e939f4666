"""Ranks switched off: what changes is counted right, and the windows are those of a prediction."""

import base64
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from reconet import Predictor
from reconet.serve.explore import Explorer, count_ranks
from reconet.serve.images import (
    VIEW_SIDE,
    ImageStore,
    PixelMap,
    StoredImage,
    shrink_for_view,
    subsample_for_view,
)
from tests.serve.helpers import client_of, decode, image, lively_run, store

IMAGE = image()


def test_switching_the_rank_that_matters_off_changes_the_segmentation(client: TestClient) -> None:
    url = store(client, IMAGE)
    ranks = client.get(f"{url}/ranks").json()["ranks"]
    assert ranks[0]["rank"] == 2  # by construction
    assert sum(one["weight"] for one in ranks) == pytest.approx(1)
    assert sum(one["share"] for one in ranks) == pytest.approx(1)
    none = client.post(f"{url}/ranks", json={"off": []}).json()
    assert (none["changed"], none["by_class"], none["pixels"]) == (0, [], 48 * 80)
    before_hw = decode(base64.b64decode(none["hover_png"]))[..., 0]
    change = client.post(f"{url}/ranks", json={"off": [2]}).json()
    now_hw = decode(base64.b64decode(change["hover_png"]))[..., 0]
    assert change["changed"] == (before_hw != now_hw).sum() > 100
    for one in change["by_class"]:
        was_hw, is_hw = before_hw == one["index"], now_hw == one["index"]
        assert one["gained"] == (is_hw & ~was_hw).sum()
        assert one["lost"] == (was_hw & ~is_hw).sum()
    heat_hwc = decode(client.get(f"{url}/heat/2.png").content)
    assert heat_hwc.shape == IMAGE.shape
    assert heat_hwc.std() > 1
    assert client.get(f"{url}/heat/4.png").status_code == 422


def test_all_ranks_on_is_the_prediction_itself_over_several_windows(predictor: Predictor) -> None:
    large_hwc = image(5, (70, 150))
    own = Predictor(
        predictor.network,
        protocol=replace(predictor.protocol, mode="slide", relative_to="original"),
        device="cpu",
    )
    explorer = Explorer(own, large_hwc)
    assert len(explorer.windows) > 2
    label_hw = own(large_hwc).label_hw
    assert (explorer.all_ranks.label_hw != label_hw).mean() < 0.002  # folded and not: rounding
    heat_hw = explorer.heat(2)
    assert heat_hw.shape == label_hw.shape
    assert 0 <= heat_hw.min() < heat_hw.max() <= 1
    explorer.without([2])  # what was kept can be used again
    np.testing.assert_array_equal(explorer.heat(2), heat_hw)


@pytest.mark.parametrize("body", [{"off": [4]}, {"off": [-1]}, {"off": "x"}, {}, [1]])
def test_wrong_ranks_are_refused_in_one_line(client: TestClient, body: Any) -> None:
    answer = client.post(f"{store(client, IMAGE)}/ranks", json=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


def test_the_ranks_of_reconet_plus_are_explored_too(tmp_path: Path) -> None:
    run = lively_run(tmp_path / "plus", "model.context=reconet_plus")
    predictor = Predictor.from_run(run, device="cpu")
    assert count_ranks(predictor.network.model) == 4
    explorer = Explorer(predictor, IMAGE)
    assert sum(explorer.shares()) == pytest.approx(1)
    assert min(explorer.shares()) >= 0
    assert explorer.weights()[2] < 0  # by construction
    heat_hw = explorer.heat(2)
    assert 0 <= heat_hw.min() < heat_hw.max() <= 1
    silent = explorer.without(range(4)).label_hw
    assert (silent != explorer.all_ranks.label_hw).any()


def test_networks_without_ranks_have_no_explorer(tmp_path: Path) -> None:
    fcn = lively_run(tmp_path / "fcn", "model.context=fcn", "model.rank=null")
    with client_of(Predictor.from_run(fcn, device="cpu"), "http://localhost") as client:
        assert client.get("/api/model").json()["rank"] == 0
        url = store(client, IMAGE)
        for answer in (
            client.get(f"{url}/ranks"),
            client.post(f"{url}/ranks", json={"off": [0]}),
            client.get(f"{url}/heat/0.png"),
        ):
            assert answer.status_code == 404
            assert answer.json() == {"detail": "this network has no ranks."}
        assert client.get(f"{url}/hover.png").status_code == 200
        assert not any("ranks" in path for path in client.get("/openapi.json").json()["paths"])


def test_an_image_that_grows_pushes_others_out_and_stays_itself() -> None:
    def stored() -> StoredImage:
        nothing = np.zeros((0, 0), np.uint8)
        return StoredImage(
            image_hwc=np.zeros((10, 10, 3), np.uint8), pixel_map=PixelMap(nothing, nothing)
        )

    store = ImageStore(most=9, most_bytes=900)
    ids = [store.add(stored()) for _ in range(3)]
    last = store.get(ids[2])
    assert last is not None
    explorer: Any = SimpleNamespace(nbytes=10_000)
    last.explorer = explorer
    store.trim()
    assert [store.get(name) is last for name in ids] == [False, False, True]


def test_a_large_image_fits_into_the_page() -> None:
    label_hw = np.arange(2000, dtype=np.uint16)[:, None].repeat(3300, 1).astype(np.uint8)
    image_hwc = np.zeros((2000, 3300, 3), np.uint8)
    assert subsample_for_view(label_hw).shape == shrink_for_view(image_hwc).shape[:2]
    assert max(subsample_for_view(label_hw).shape) == VIEW_SIDE
    np.testing.assert_array_equal(subsample_for_view(label_hw[:50, :70]), label_hw[:50, :70])
