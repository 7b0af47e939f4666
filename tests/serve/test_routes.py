"""The interface for programs: images in, labels out, and clear refusals."""

import base64
from io import BytesIO

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image as Pillow

from reconet.data.images.draw import overlay
from reconet.inference.predictor import Predictor
from reconet.serve.routes import wants_png
from tests.serve.conftest import LIMITS
from tests.serve.helpers import NAMES, PNG, decode, encode, image, store

IMAGE = image()


def test_json_holds_labels_and_shares_as_the_predictor_does(
    client: TestClient, predictor: Predictor
) -> None:
    answer = client.post("/api/segment", content=encode(IMAGE), headers=PNG)
    assert answer.status_code == 200
    segmentation, label_hw = answer.json(), predictor(IMAGE).label_hw
    assert (segmentation["width"], segmentation["height"]) == (80, 48)
    np.testing.assert_array_equal(decode(base64.b64decode(segmentation["labels_png"])), label_hw)
    shares = {one["name"]: one["pixels"] for one in segmentation["classes"]}
    assert shares == {
        NAMES[k]: int((label_hw == k).sum()) for k in np.unique(label_hw)
    }  # and those absent are not there
    assert sum(one["share"] for one in segmentation["classes"]) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "GIF"])
def test_png_holds_class_numbers(client: TestClient, predictor: Predictor, kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    headers = {"Content-Type": f"image/{kind.lower()}", "Accept": "image/png"}
    data = encode(IMAGE, kind, **options)
    answer = client.post("/api/segment", content=data, headers=headers)
    assert answer.headers["content-type"] == "image/png"
    sent_hwc = IMAGE
    if kind == "GIF":
        sent_hwc = np.array(Pillow.open(BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decode(answer.content), predictor(sent_hwc).label_hw)


def test_an_overlay_is_the_tinted_image(client: TestClient, predictor: Predictor) -> None:
    answer = client.post("/api/segment?overlay=0.3", content=encode(IMAGE), headers=PNG)
    label_hw, palette = predictor(IMAGE).label_hw, predictor.network.info.palette
    np.testing.assert_array_equal(decode(answer.content), overlay(IMAGE, label_hw, palette, 0.3))


def test_a_form_is_as_good_as_a_body(client: TestClient) -> None:
    by_form = client.post("/api/segment", files={"image": ("a.png", encode(IMAGE), "image/png")})
    by_body = client.post("/api/segment", content=encode(IMAGE), headers=PNG)
    assert by_form.json()["labels_png"] == by_body.json()["labels_png"]


def test_images_are_turned_as_their_camera_says(client: TestClient) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    answer = client.post("/api/segment", content=encode(IMAGE, exif=exif), headers=PNG)
    assert (answer.json()["width"], answer.json()["height"]) == (48, 80)


def test_hovering_reads_class_and_probability(client: TestClient, predictor: Predictor) -> None:
    hover_hwc = decode(client.get(f"{store(client, IMAGE)}/hover.png").content)
    prediction = predictor(IMAGE, with_probabilities=True)
    assert prediction.probability_khw is not None
    np.testing.assert_array_equal(hover_hwc[..., 0], prediction.label_hw)
    np.testing.assert_allclose(
        hover_hwc[..., 1] / 255, prediction.probability_khw.max(0), atol=0.003
    )


def test_old_images_are_dropped_and_the_newest_are_not(client: TestClient) -> None:
    urls = [store(client, IMAGE) for _ in range(LIMITS.kept_images + 1)]
    statuses = [client.get(f"{url}/hover.png").status_code for url in urls]
    assert statuses == [404, 200, 200, 200]
    assert client.get("/api/images/unknown/ranks").status_code == 404


@pytest.mark.parametrize(
    ("method", "url", "takes"),
    [
        ("POST", "/api/segment?overlays=0.5", "overlay"),
        ("POST", "/api/segment?overlay=0.5&x", "overlay"),
        ("GET", "/api/model?full=1", "none"),
        ("GET", "/health?x=", "none"),
        ("GET", "/api/examples/0.png?size=5", "none"),
    ],
)
def test_unknown_parameters_are_named_and_not_ignored(
    client: TestClient, method: str, url: str, takes: str
) -> None:
    answer = client.request(method, url, content=encode(IMAGE), headers=PNG)
    name = url.rpartition("?")[2].rpartition("&")[2].partition("=")[0]
    assert answer.status_code == 422
    assert (
        answer.json()["detail"] == f"unknown query parameter {name!r}; this address takes {takes}."
    )


def test_another_method_is_answered_with_the_allowed_ones(client: TestClient) -> None:
    answer = client.get("/api/segment")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_the_document_describes_every_route_and_the_image_body(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/segment", "/api/images", "/api/model", "/health"} <= paths.keys()
    body = paths["/api/segment"]["post"]["requestBody"]["content"]
    assert {"image/png", "image/jpeg", "multipart/form-data"} <= body.keys()
    assert {"413", "415", "422", "503"} <= paths["/api/segment"]["post"]["responses"].keys()


@pytest.mark.parametrize(
    ("accept", "png_wanted"),
    [
        ("", False),
        ("*/*", False),
        ("image/png", True),
        ("image/*;q=0.8", True),
        ("application/json, image/png", False),
        ("image/png, application/json", True),
    ],
)
def test_json_unless_a_png_is_asked_for(accept: str, png_wanted: bool) -> None:
    assert wants_png(accept) is png_wanted
