"""Example images can be sent back to be segmented."""

from fastapi.testclient import TestClient

from tests.serve.helpers import PNG, decode


def test_examples_can_be_sent_back(client: TestClient) -> None:
    listed = client.get("/api/examples").json()["examples"]
    assert len(listed) == 8
    data = client.get(listed[-1]["url"]).content
    assert decode(data).shape == (64, 64, 3)
    assert client.post("/api/segment", content=data, headers=PNG).status_code == 200
    assert client.get("/api/examples/8.png").status_code == 422
