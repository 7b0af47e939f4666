"""The interface for programs: images in, labels out, and clear refusals."""

import base64
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image as Pillow

from reconet import Predictor
from reconet.models import load_trained
from reconet.serve import open_server
from reconet.serve.about import ExampleImages
from tests.factories import smooth_image, tiny_network, tiny_recipe, write_run
from tests.serve.helpers import (
    LIMITS,
    NAMES,
    PNG,
    client_of,
    decode,
    encode,
    image,
    lively_run,
    store,
)

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


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("image/*;q=0.8", "image/png"),
        ("application/json, image/png", "application/json"),
        ("image/png, application/json", "image/png"),
    ],
)
def test_json_unless_a_png_is_asked_for(client: TestClient, accept: str, kind: str) -> None:
    headers = PNG | {"Accept": accept}
    answer = client.post("/api/segment", content=encode(IMAGE), headers=headers)
    assert answer.headers["content-type"] == kind


def test_an_overlay_is_the_tinted_image(client: TestClient, predictor: Predictor) -> None:
    answer = client.post("/api/segment?overlay=0.3", content=encode(IMAGE), headers=PNG)
    tinted = np.array(predictor(IMAGE).overlay(0.3))
    np.testing.assert_array_equal(decode(answer.content), tinted)


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


def test_the_model_tells_its_facts_but_no_paths(client: TestClient) -> None:
    model = client.get("/api/model").json()
    assert (model["context"], model["rank"], model["score"]) == ("reconet", 4, {"miou": 0.25})
    assert [one["name"] for one in model["classes"]] == list(NAMES)
    assert model["params"] > 0
    assert model["macs"] > 0
    assert "root" not in model["recipe"]["data"]
    assert {"parameters", "multiply-adds", "mean IoU", "runs as"} <= {
        one["name"] for one in model["facts"]
    }


def test_the_model_does_not_tell_where_the_files_of_its_training_are(tmp_path: Path) -> None:
    options = {"classes": list(NAMES), "pairs": "/home/me/secret/pairs.tsv"}
    run = lively_run(
        tmp_path,
        "data.name=folder",
        "data.root=/home/me/secret/voc",
        "train.init_from=/home/me/secret/first",
        "model.weights=/home/me/secret/resnet.safetensors",
        f"data.options={json.dumps(options)}",
    )
    with client_of(Predictor.from_run(run, device="cpu", precision="fp32")) as one:
        answer = one.get("/api/model")
    assert answer.status_code == 200
    assert "secret" not in answer.text
    assert answer.json()["recipe"]["data"]["options"]["pairs"] == "pairs.tsv"


def test_examples_can_be_sent_back(client: TestClient) -> None:
    listed = client.get("/api/examples").json()["examples"]
    assert len(listed) == 8
    data = client.get(listed[-1]["url"]).content
    assert decode(data).shape == (64, 64, 3)
    assert client.post("/api/segment", content=data, headers=PNG).status_code == 200
    assert client.get("/api/examples/8.png").status_code == 422


def test_a_run_on_own_images_offers_those_of_its_val_split(tmp_path: Path) -> None:
    for folder in ("images", "masks"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for number in range(3):
        Pillow.fromarray(smooth_image(number)).save(tmp_path / f"data/images/{number}.png")
        Pillow.fromarray(smooth_image(number)[..., 0] % 2).save(
            tmp_path / f"data/masks/{number}.png"
        )
    options = 'data.options={"classes": ["a", "b"], "val_fraction": 0.6}'
    recipe = tiny_recipe("data.name=folder", f"data.root={tmp_path / 'data'}", options)
    run = write_run(tmp_path / "run", tiny_network(recipe))
    server = open_server(run, port=0, device="cpu", precision="fp32")
    server.listener.close()
    with TestClient(server.app, base_url="http://127.0.0.1") as client:
        listed = client.get("/api/examples").json()
        assert listed["about"].startswith("Images of data, val, on which this network was")
        assert len(listed["examples"]) == 2
        name = listed["examples"][1]["name"]
        shown = decode(client.get(listed["examples"][1]["url"]).content)
        np.testing.assert_array_equal(shown, smooth_image(int(name)))
        assert client.get("/api/examples/5.png").status_code == 404
        (tmp_path / f"data/images/{name}.png").unlink()
        assert client.get(listed["examples"][1]["url"]).status_code == 404
    (tmp_path / "data").rename(tmp_path / "gone")
    assert "Generated scenes" in ExampleImages(load_trained(run).info, own=True).listed().about


def test_a_size_that_a_stranger_asks_for_is_not_drawn() -> None:
    for size in ("[100000, 100000]", '["a", "b"]', "[5]", "[0, 0]"):
        recipe = tiny_recipe(f"data.options.size={size}")
        info = replace(tiny_network().info, recipe=recipe)
        assert ExampleImages(info).draw(0).shape == (240, 320, 3)
