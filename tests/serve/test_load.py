"""A real server under more than it can do: right answers or honest refusals, bounded memory."""

import base64
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from reconet import Predictor
from tests.serve.conftest import WAITING
from tests.serve.helpers import PNG, decode, encode, image
from tests.serve.launch import RunningServer, serving

SIZES = ((48, 80), (64, 64), (90, 40), (300, 500))


def post(url: str, body: bytes) -> httpx.Response:
    return httpx.post(f"{url}/api/segment", content=body, headers=PNG, timeout=120)


def test_fifty_at_once_are_answered_right_or_turned_away(
    server: RunningServer, predictor: Predictor
) -> None:
    images = [image(number, size) for number, size in enumerate(SIZES)]
    right = [predictor(image_hwc).label_hw for image_hwc in images]
    bodies = [encode(image_hwc) for image_hwc in images]
    process = psutil.Process(server.process.pid)
    for body in bodies:  # the first answers make buffers that stay
        assert post(server.url, body).status_code == 200
    before = process.memory_info().rss
    with ThreadPoolExecutor(50) as many:
        answers = list(many.map(lambda n: post(server.url, bodies[n % len(SIZES)]), range(50)))
    statuses = Counter(answer.status_code for answer in answers)
    assert statuses.keys() <= {200, 503}, statuses
    assert statuses[200] >= WAITING + 1  # all places were used
    for number, answer in enumerate(answers):
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0
            continue
        label_hw = decode(base64.b64decode(answer.json()["labels_png"]))
        np.testing.assert_array_equal(label_hw, right[number % len(SIZES)])
    # Every place may hold an upload (2 MB) and its answer; the rest is what 50 connections and
    # threads leave in the allocator. One image of the largest kind kept for each request would
    # be more than this.
    assert process.memory_info().rss - before < 150 * 2**20
    assert httpx.get(f"{server.url}/health").json() == {"status": "ok", "waiting": 0}


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_body_is_refused_without_being_kept(server: RunningServer, declared: bool) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss

    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield bytes(10**6)

    body = bytes(30 * 10**6) if declared else pieces()
    answer = httpx.post(f"{server.url}/api/segment", content=body, headers=PNG, timeout=60)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["detail"]
    assert process.memory_info().rss - before < 20 * 2**20


def test_who_leaves_early_costs_no_place(server: RunningServer) -> None:
    head = b"POST /api/segment HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
    for _ in range(2 * WAITING):
        with socket.create_connection(("127.0.0.1", server.port)) as lost:
            lost.sendall(head + b"Content-Length: 100000\r\n\r\nabc")
    assert post(server.url, encode(image())).status_code == 200
    assert httpx.get(f"{server.url}/health").json()["waiting"] == 0


def test_a_server_that_is_ended_finishes_requests_or_answers_503(run: Path, tmp_path: Path) -> None:
    asked, go = 8, tmp_path / "go"
    slow = f"""
import pathlib, time
from reconet.inference import Predictor
best, begun = Predictor.best, []
def slow(*given):
    begun.append(1)
    while len(begun) > 1 or not pathlib.Path({str(go)!r}).exists():
        time.sleep(0.02)
    return best(*given)
Predictor.best = slow
"""
    with ThreadPoolExecutor(asked) as many, serving(run, setup=slow) as ended:
        body = encode(image())
        answers = [many.submit(post, ended.url, body) for _ in range(asked)]
        while httpx.get(f"{ended.url}/health").json()["waiting"] < asked:
            assert not any(answer.done() for answer in answers)
        ended.process.send_signal(signal.SIGTERM)
        go.touch()  # now one request can be finished, and the next one cannot
        statuses = Counter(answer.result().status_code for answer in answers)
    assert statuses == {200: 1, 503: asked - 1}
    assert all(answer.result().json() for answer in answers)


@pytest.fixture(scope="module")
def hasty(run: Path) -> Iterator[RunningServer]:
    """Start a server that takes few connections and waits for a second only."""
    setup = (
        "from reconet.serve import security, server\n"
        "server.MOST_CONNECTIONS, server.HEADER_SECONDS, security.ANSWER_SECONDS = 9, 1, 1"
    )
    with serving(run, setup=setup) as one:
        yield one


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: 127"])
def test_connections_that_send_no_request_are_closed(hasty: RunningServer, sent: bytes) -> None:
    idle = [socket.create_connection(("127.0.0.1", hasty.port), timeout=30) for _ in range(9)]
    for connection in idle:
        connection.sendall(sent)
    for connection in idle:
        with connection, suppress(ConnectionResetError):
            assert connection.recv(99) == b""
    assert httpx.get(f"{hasty.url}/health").status_code == 200


def test_a_connection_that_reads_no_answer_is_closed(hasty: RunningServer) -> None:
    asked = b"GET /view.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    deaf = socket.create_connection(("127.0.0.1", hasty.port), timeout=30)
    with deaf, pytest.raises(ConnectionError):
        deaf.sendall(asked * 300_000)  # more than the buffers of the system hold


def test_images_of_many_sizes_leave_no_holes_in_memory(hasty: RunningServer) -> None:
    sides = np.random.default_rng(0).integers(32, 1200, (25, 2))
    process = psutil.Process(hasty.process.pid)
    assert post(hasty.url, encode(image())).status_code == 200  # it makes buffers that stay
    before = process.memory_info().rss
    for height, width in sides:
        body = encode(np.zeros((height, width, 3), np.uint8))
        assert post(hasty.url, body).status_code == 200
    assert process.memory_info().rss - before < 50 * 2**20
