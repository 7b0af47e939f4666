"""What the server tells about its network."""

import json
from pathlib import Path

from fastapi.testclient import TestClient

from reconet.inference.predictor import Predictor
from reconet.serve.app import create_app
from reconet.serve.model_info import abbreviate
from tests.serve.conftest import LIMITS
from tests.serve.helpers import NAMES, lively_run


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
    predictor = Predictor.from_run(run, device="cpu", precision="fp32")
    with TestClient(create_app(predictor, LIMITS), base_url="http://127.0.0.1") as one:
        answer = one.get("/api/model")
    assert answer.status_code == 200
    assert "secret" not in answer.text
    assert answer.json()["recipe"]["data"]["options"]["pairs"] == "pairs.tsv"


def test_large_numbers_have_units() -> None:
    written = [abbreviate(number) for number in (0, 999, 1000, 1_778_582, 25e9)]
    assert written == ["0", "999", "1 k", "1.78 M", "25 G"]
