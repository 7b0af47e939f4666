"""What the interface answers: to images, to garbage, to strangers."""

import base64
import json
import sys
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from reconet.cli import main
from reconet.cli.arguments import parse_amount
from reconet.data.images.draw import overlay
from reconet.errors import RecipeError
from reconet.inference.predictor import Predictor
from reconet.serve.app import create_app
from reconet.serve.explore import Explorer
from reconet.serve.facts import short
from reconet.serve.routes import wants_png
from reconet.serve.segment import VIEW_SIDE, shrunk, thinned
from reconet.serve.server import listen
from tests.serve.conftest import LIMITS
from tests.serve.small import NAMES, image, make_run, png, unpacked

PNG = {"Content-Type": "image/png"}
IMAGE = image()


def test_json_holds_labels_and_shares_as_the_predictor_says(
    client: TestClient, predictor: Predictor
) -> None:
    answer = client.post("/api/segment", content=png(IMAGE), headers=PNG)
    assert answer.status_code == 200
    told, label_hw = answer.json(), predictor(IMAGE).label_hw
    assert (told["width"], told["height"]) == (80, 48)
    np.testing.assert_array_equal(unpacked(base64.b64decode(told["labels_png"])), label_hw)
    shares = {one["name"]: one["pixels"] for one in told["classes"]}
    assert shares == {
        NAMES[k]: int((label_hw == k).sum()) for k in np.unique(label_hw)
    }  # and those absent are not there
    assert sum(one["share"] for one in told["classes"]) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "GIF"])
def test_png_holds_class_numbers(client: TestClient, predictor: Predictor, kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    headers = {"Content-Type": f"image/{kind.lower()}", "Accept": "image/png"}
    data = png(IMAGE, kind, **options)
    answer = client.post("/api/segment", content=data, headers=headers)
    assert answer.headers["content-type"] == "image/png"
    seen_hwc = IMAGE
    if kind == "GIF":
        seen_hwc = np.array(Image.open(BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(unpacked(answer.content), predictor(seen_hwc).label_hw)


def test_an_overlay_is_the_tinted_image(client: TestClient, predictor: Predictor) -> None:
    answer = client.post("/api/segment?overlay=0.3", content=png(IMAGE), headers=PNG)
    label_hw, palette = predictor(IMAGE).label_hw, predictor.network.info.palette
    np.testing.assert_array_equal(unpacked(answer.content), overlay(IMAGE, label_hw, palette, 0.3))


def test_a_form_is_as_good_as_a_body(client: TestClient) -> None:
    by_form = client.post("/api/segment", files={"image": ("a.png", png(IMAGE), "image/png")})
    by_body = client.post("/api/segment", content=png(IMAGE), headers=PNG)
    assert by_form.json()["labels_png"] == by_body.json()["labels_png"]


def test_images_are_turned_as_their_camera_says(client: TestClient) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    answer = client.post("/api/segment", content=png(IMAGE, exif=exif), headers=PNG)
    assert (answer.json()["width"], answer.json()["height"]) == (48, 80)


def bomb() -> bytes:
    """A small PNG of 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, check = len(data).to_bytes(4, "big"), zlib.crc32(kind + data).to_bytes(4, "big")
        return size + kind + data + check

    head = (60_000).to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    return start + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")


FORM = "multipart/form-data; boundary=x"
BAD: dict[str, tuple[bytes, str, int]] = {
    "too many bytes": (bytes(300_000), "image/png", 413),
    "too many pixels": (png(np.zeros((400, 400, 3), np.uint8)), "image/png", 413),
    "a bomb": (bomb(), "image/png", 413),
    "text": (b"hello", "text/plain", 415),
    "no type": (png(IMAGE), "", 415),
    "a vector image": (b"<svg/>", "image/svg+xml", 415),
    "garbage": (b"\x00garbage" * 99, "image/jpeg", 422),
    "cut off": (png(IMAGE)[:900], "image/png", 422),
    "a cut-off photograph": (png(IMAGE, "JPEG")[:900], "image/jpeg", 422),
    "nothing": (b"", "image/png", 422),
    "a form without an end": (b"--x\r\nnonsense", FORM, 422),
    "a form without a file": (
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',
        FORM,
        422,
    ),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("url", ["/api/segment", "/api/images"])
@pytest.mark.parametrize("what", BAD)
def test_bad_uploads_get_a_status_and_one_line(client: TestClient, url: str, what: str) -> None:
    body, kind, status = BAD[what]
    answer = client.post(url, content=body, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
    assert "\n" not in answer.json()["detail"]
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "[::1"}, 400),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "http://["}, 403),
        ({"Host": "localhost", "Content-Length": "9" * 5000}, 413),
        ({"Host": "localhost:80", "Origin": "http://localhost:80"}, 200),
    ],
)
def test_only_this_machine_and_this_page_are_answered(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.get("/health", headers=headers).status_code == status


def test_a_server_for_others_answers_to_any_name(predictor: Predictor) -> None:
    with TestClient(create_app(predictor, LIMITS, hosts=()), base_url="http://gpu.lan") as open_one:
        assert open_one.get("/health").status_code == 200


def test_every_answer_tells_browsers_to_load_nothing_from_elsewhere(client: TestClient) -> None:
    for url in ("/", "/page.js", "/api/model", "/nothing"):
        headers = client.get(url).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    for url in ("/docs", "/redoc"):
        assert client.get(url).status_code == 404


def test_the_page_names_no_other_place(client: TestClient) -> None:
    for url in ("/", "/page.js", "/view.js", "/ranks.js", "/asking.js", "/page.css"):
        answer = client.get(url)
        assert answer.status_code == 200
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "innerHTML" not in answer.text


def test_the_model_tells_its_facts_but_no_paths(client: TestClient) -> None:
    told = client.get("/api/model").json()
    assert (told["context"], told["rank"], told["score"]) == ("reconet", 4, {"miou": 0.25})
    assert [one["name"] for one in told["classes"]] == list(NAMES)
    assert told["params"] > 0
    assert told["macs"] > 0
    assert "root" not in told["recipe"]["data"]
    assert {"parameters", "multiply-adds", "mean IoU", "runs as"} <= {
        one["name"] for one in told["facts"]
    }


def test_the_model_does_not_tell_where_the_files_of_its_training_are(tmp_path: Path) -> None:
    options = {"classes": list(NAMES), "pairs": "/home/me/secret/pairs.tsv"}
    run = make_run(
        tmp_path,
        "data.name=folder",
        "data.root=/home/me/secret/voc",
        "train.init_from=/home/me/secret/first",
        "model.weights=/home/me/secret/resnet.safetensors",
        f"data.options={json.dumps(options)}",
    )
    predictor = Predictor.from_run(run, device="cpu", precision="fp32")
    with TestClient(create_app(predictor, LIMITS), base_url="http://127.0.0.1") as one:
        told = one.get("/api/model")
    assert told.status_code == 200
    assert "secret" not in told.text
    assert told.json()["recipe"]["data"]["options"]["pairs"] == "pairs.tsv"


def test_examples_can_be_sent_back(client: TestClient) -> None:
    listed = client.get("/api/examples").json()["examples"]
    assert len(listed) == 8
    data = client.get(listed[-1]["url"]).content
    assert unpacked(data).shape == (64, 64, 3)
    assert client.post("/api/segment", content=data, headers=PNG).status_code == 200
    assert client.get("/api/examples/8.png").status_code == 422


def test_the_document_describes_every_route_and_the_image_body(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/segment", "/api/images", "/api/model", "/health"} <= paths.keys()
    body = paths["/api/segment"]["post"]["requestBody"]["content"]
    assert {"image/png", "image/jpeg", "multipart/form-data"} <= body.keys()
    assert {"413", "415", "422", "503"} <= paths["/api/segment"]["post"]["responses"].keys()


# ------------------------------------------------------------------ images and their ranks


def send(client: TestClient, image_hwc: Any = IMAGE) -> str:
    answer = client.post("/api/images", content=png(image_hwc), headers=PNG)
    assert answer.status_code == 201, answer.text
    return f"/api/images/{answer.json()['id']}"


def test_hovering_reads_class_and_probability(client: TestClient, predictor: Predictor) -> None:
    hover_hwc = unpacked(client.get(f"{send(client)}/hover.png").content)
    said = predictor(IMAGE, with_probabilities=True)
    assert said.probability_khw is not None
    np.testing.assert_array_equal(hover_hwc[..., 0], said.label_hw)
    np.testing.assert_allclose(hover_hwc[..., 1] / 255, said.probability_khw.max(0), atol=0.003)


def test_switching_the_rank_that_matters_off_changes_the_segmentation(client: TestClient) -> None:
    url = send(client)
    ranks = client.get(f"{url}/ranks").json()["ranks"]
    assert ranks[0]["rank"] == 2  # by construction
    assert sum(one["weight"] for one in ranks) == pytest.approx(1)
    assert sum(one["share"] for one in ranks) == pytest.approx(1)
    none = client.post(f"{url}/ranks", json={"off": []}).json()
    assert (none["changed"], none["by_class"], none["pixels"]) == (0, [], 48 * 80)
    before_hw = unpacked(base64.b64decode(none["hover_png"]))[..., 0]
    told = client.post(f"{url}/ranks", json={"off": [2]}).json()
    now_hw = unpacked(base64.b64decode(told["hover_png"]))[..., 0]
    assert told["changed"] == (before_hw != now_hw).sum() > 100
    for one in told["by_class"]:
        was_hw, is_hw = before_hw == one["index"], now_hw == one["index"]
        assert one["gained"] == (is_hw & ~was_hw).sum()
        assert one["lost"] == (was_hw & ~is_hw).sum()


def test_all_ranks_on_is_the_prediction_itself_over_several_windows(predictor: Predictor) -> None:
    large_hwc = image(5, (70, 150))
    own = Predictor(
        predictor.network,
        protocol=replace(predictor.protocol, relative_to="original"),
        device="cpu",
    )
    explorer = Explorer(own, large_hwc)
    assert len(explorer.windows) > 2
    said_hw = own(large_hwc).label_hw
    assert (explorer.whole.label_hw != said_hw).mean() < 0.002  # folded and not: rounding
    heat_hw = explorer.heat(2)
    assert heat_hw.shape == said_hw.shape
    assert 0 <= heat_hw.min() < heat_hw.max() <= 1
    explorer.without([2])  # what was kept can be used again
    np.testing.assert_array_equal(explorer.heat(2), heat_hw)


def test_a_heat_map_is_a_image_of_the_same_size(client: TestClient) -> None:
    url = send(client)
    heat_hwc = unpacked(client.get(f"{url}/heat/2.png").content)
    assert heat_hwc.shape == IMAGE.shape
    assert heat_hwc.std() > 1
    assert client.get(f"{url}/heat/4.png").status_code == 422


@pytest.mark.parametrize("body", [{"off": [4]}, {"off": [-1]}, {"off": "x"}, {}, [1]])
def test_wrong_ranks_are_refused_in_one_line(client: TestClient, body: Any) -> None:
    answer = client.post(f"{send(client)}/ranks", json=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


def test_a_question_that_is_not_text_is_refused_as_described(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"{send(client)}/ranks", content=b"\xff\xfe\xfd", headers=headers)
    paths = client.get("/openapi.json").json()["paths"]
    assert answer.status_code == 400
    assert "400" in paths["/api/images/{name}/ranks"]["post"]["responses"]


def test_old_images_are_forgotten_and_the_newest_are_not(client: TestClient) -> None:
    urls = [send(client) for _ in range(LIMITS.kept_images + 1)]
    statuses = [client.get(f"{url}/hover.png").status_code for url in urls]
    assert statuses == [404, 200, 200, 200]
    assert client.get("/api/images/unknown/ranks").status_code == 404


def test_networks_without_ranks_have_no_explorer(tmp_path: Path) -> None:
    fcn = make_run(tmp_path / "fcn", "model.context=fcn", "model.rank=null")
    app = create_app(Predictor.from_run(fcn, device="cpu"), LIMITS)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/api/model").json()["rank"] == 0
        url = send(client)
        for answer in (
            client.get(f"{url}/ranks"),
            client.post(f"{url}/ranks", json={"off": [0]}),
            client.get(f"{url}/heat/0.png"),
        ):
            assert answer.status_code == 404
            assert answer.json() == {"detail": "this network has no ranks."}
        assert client.get(f"{url}/hover.png").status_code == 200
        assert not any("ranks" in path for path in client.get("/openapi.json").json()["paths"])


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
    answer = client.request(method, url, content=png(IMAGE), headers=PNG)
    name = url.rpartition("?")[2].rpartition("&")[2].partition("=")[0]
    assert answer.status_code == 422
    assert (
        answer.json()["detail"] == f"unknown query parameter {name!r}; this address takes {takes}."
    )


def test_another_method_is_answered_with_those_that_there_are(client: TestClient) -> None:
    answer = client.get("/api/segment")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


# ------------------------------------------------------------------ small things


def test_what_the_page_sees_of_a_large_image_fits() -> None:
    label_hw = np.arange(2000, dtype=np.uint16)[:, None].repeat(3300, 1).astype(np.uint8)
    image_hwc = np.zeros((2000, 3300, 3), np.uint8)
    assert thinned(label_hw).shape == shrunk(image_hwc).shape[:2]
    assert max(thinned(label_hw).shape) == VIEW_SIDE
    np.testing.assert_array_equal(thinned(label_hw[:50, :70]), label_hw[:50, :70])


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


def test_amounts_have_units() -> None:
    assert [parse_amount(t, "--x") for t in ("20MB", "1.5k", "7")] == [20_000_000, 1500, 7]
    assert parse_amount("2GiB", "--x", least=64) == 2**31
    for wrong in ("", "0", "-3", "many", "3TB"):
        with pytest.raises(RecipeError, match=r"--x (takes an amount|must be at least 1)"):
            parse_amount(wrong, "--x")
    assert [short(n) for n in (0, 999, 1000, 1_778_582, 25e9)] == [
        "0",
        "999",
        "1 k",
        "1.78 M",
        "25 G",
    ]


def test_a_missing_network_and_a_taken_port_are_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--port=0"]) == 2
    with listen("127.0.0.1", 0) as taken:
        assert main(["serve", str(run), f"--port={taken.getsockname()[1]}"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "no trained network" in first
    assert "address already in use; try another --port" in second


def test_without_the_extra_the_verb_names_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "reconet.serve.app", None)
    assert main(["serve", str(run)]) == 2
    assert "pip install 'reconet[serve]'" in capsys.readouterr().err
