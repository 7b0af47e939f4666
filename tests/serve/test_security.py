"""The server answers this machine and its own page, and its page loads nothing from elsewhere."""

import pytest
from fastapi.testclient import TestClient

from reconet import Predictor
from tests.serve.helpers import client_of


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
    with client_of(predictor, "http://gpu.lan", hosts=()) as client:
        assert client.get("/health").status_code == 200


def test_every_answer_tells_browsers_to_load_nothing_from_elsewhere(client: TestClient) -> None:
    for url in ("/", "/page.js", "/api/model", "/nothing"):
        headers = client.get(url).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    for url in ("/docs", "/redoc"):
        assert client.get(url).status_code == 404


def test_the_page_names_no_other_place(client: TestClient) -> None:
    for url in ("/", "/page.js", "/view.js", "/ranks.js", "/requests.js", "/page.css"):
        answer = client.get(url)
        assert answer.status_code == 200
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "innerHTML" not in answer.text
