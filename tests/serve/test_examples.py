"""Example images can be sent back to be segmented."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient
from PIL import Image

from reconet.models.trained import load_trained
from reconet.serve.examples import ExampleImages
from reconet.serve.server import open_server
from tests.factories import smooth_image, tiny_network, tiny_recipe, write_run
from tests.serve.helpers import PNG, decode


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
        Image.fromarray(smooth_image(number)).save(tmp_path / f"data/images/{number}.png")
        Image.fromarray(smooth_image(number)[..., 0] % 2).save(
            tmp_path / f"data/masks/{number}.png"
        )
    options = 'data.options={"classes": ["a", "b"], "val_fraction": 0.6}'
    recipe = tiny_recipe("data.name=folder", f"data.root={tmp_path / 'data'}", options)
    run = write_run(tmp_path / "run", tiny_network(recipe))
    server = open_server(run, port=0, device="cpu", precision="fp32")
    server.listener.close()
    with TestClient(server.app, base_url="http://127.0.0.1") as client:
        listed = client.get("/api/examples").json()
        assert listed["about"].startswith("Images of folder data val, on which this network was")
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
