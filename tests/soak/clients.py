"""Clients of a server on this machine: some well behaved, most not."""

import base64
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import psutil

from reconet.inference.predictor import Predictor
from tests.serve.helpers import PNG, decode, encode, image
from tests.serve.launch import RunningServer
from tests.soak.tally import Tally

OPTIONS = ("--queue=8", "--max-upload=2MB", "--max-pixels=4M")
CLIENTS = 12  # at once
BURST = 60  # requests
WARM_BURSTS = 3  # before memory is measured: the first answers make buffers that stay
GROWTH_BYTES = 48 * 2**20
MOST_NEW_FILES = 8  # connections of clients that left may still close
SIZES = ((48, 80), (64, 64), (90, 40), (300, 500))
BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\x08\2\0\0\0"  # 65536 x 65536 pixels
ANSWERED = {200, 201, 400, 403, 404, 405, 411, 413, 415, 421, 422, 431, 503}


class Clients:
    """Send bursts of requests to a server, and watch its memory."""

    def __init__(self, server: RunningServer, run: Path, seed: int, tally: Tally) -> None:
        self.server, self.tally = server, tally
        self.rng = np.random.default_rng(seed)
        self.process = psutil.Process(server.process.pid)
        self.bodies = [encode(image(number, size)) for number, size in enumerate(SIZES)]
        predictor = Predictor.from_run(run, device="cpu", precision="fp32")
        self.right = [predictor(image(n, size)).label_hw for n, size in enumerate(SIZES)]
        self.memory: list[int] = []
        self.files: list[int] = []

    def burst(self) -> None:
        """Send many requests at once. Then the server must be idle and answer correctly."""
        kinds = [self.good, *HOSTILE]
        chosen = [int(kind) for kind in self.rng.integers(0, len(kinds), BURST)]
        with ThreadPoolExecutor(CLIENTS) as many:
            done = list(many.map(lambda n: self._try(kinds[n]), chosen))
        for name, status in done:
            self.tally.counts[f"requests: {name}"] += 1
            self.tally.check(status in ANSWERED or status == 0, f"{name} got the status {status}")
        statuses = Counter(status for _, status in done if status)
        for status, count in sorted(statuses.items()):
            self.tally.counts[f"answers {status}"] += count
        self._wait_until_idle()
        self.tally.check(self.good(self.server) == 200, "an idle server does not answer")
        self.memory.append(self.process.memory_info().rss)
        self.files.append(self.process.num_fds())

    def finish(self) -> None:
        """Check that memory and open files have not grown since the first bursts."""
        while len(self.memory) < 2 * WARM_BURSTS:  # after a short soak
            self.burst()
        check_growth(self.memory, self.files, self.tally)

    def good(self, server: RunningServer) -> int:
        """Send an image and compare the labels."""
        number = int(self.rng.integers(0, len(SIZES)))
        answer = post(server, self.bodies[number])
        if answer.status_code == 200:
            label_hw = decode(base64.b64decode(answer.json()["labels_png"]))
            same = np.array_equal(label_hw, self.right[number])
            self.tally.check(same, f"other labels for image {number}")
        return answer.status_code

    def _try(self, send: Callable[[RunningServer], int]) -> tuple[str, int]:
        name = send.__name__.replace("_", " ")
        try:
            return name, send(self.server)
        except (httpx.TransportError, OSError) as error:
            alive = self.server.process.poll() is None
            self.tally.check(alive, f"{name}: the server has ended ({error})")
            return name, 0

    def _wait_until_idle(self) -> None:
        for _ in range(120):
            health = httpx.get(f"{self.server.url}/health", timeout=60).json()
            if health["waiting"] == 0:
                return
            time.sleep(0.5)
        self.tally.problems.append("places of the queue are not given back")


def check_growth(memory: list[int], files: list[int], tally: Tally) -> None:
    """Compare the bytes and the open files after the first bursts with those after the last."""
    first, last = memory[WARM_BURSTS - 1], memory[-1]
    tally.figures["server memory after warming up, MB"] = round(first / 1e6, 1)
    tally.figures["server memory at the end, MB"] = round(last / 1e6, 1)
    tally.figures["server's open files at the end"] = files[-1]
    tally.check(last - first < GROWTH_BYTES, f"memory grew by {(last - first) / 1e6} MB")
    grown = files[-1] - files[WARM_BURSTS - 1]
    tally.check(grown <= MOST_NEW_FILES, f"open files grew by {grown}")


def post(
    server: RunningServer, body: bytes | Iterator[bytes], path: str = "segment"
) -> httpx.Response:
    return httpx.post(f"{server.url}/api/{path}", content=body, headers=PNG, timeout=120)


def head(length: int) -> bytes:
    lines = "POST /api/segment HTTP/1.1", "Host: 127.0.0.1", "Content-Type: image/png"
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def talk(server: RunningServer, data: bytes, wait: float = 0) -> int:
    """Send bytes, wait, and leave without reading the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(data)
        time.sleep(wait)
    return 0


def half_a_request(server: RunningServer) -> int:
    return talk(server, head(100_000) + b"abc")


def a_slow_request(server: RunningServer) -> int:
    return talk(server, head(100_000)[:40], wait=1)


def leaves_before_the_answer(server: RunningServer) -> int:
    body = encode(image(3, (300, 500)))
    return talk(server, head(len(body)) + body)


def no_http(server: RunningServer) -> int:
    return talk(server, bytes(range(256)) * 20)


def endless_headers(server: RunningServer) -> int:
    return talk(server, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 30_000)


def says_a_terabyte(server: RunningServer) -> int:
    return talk(server, head(10**12) + b"\0" * 10_000)


def too_large(server: RunningServer) -> int:
    return post(server, bytes(5 * 10**6)).status_code


def too_large_in_pieces(server: RunningServer) -> int:
    return post(server, (bytes(10**6) for _ in range(5))).status_code


def no_image(server: RunningServer) -> int:
    return post(server, b"GIF89a or not").status_code


def image_bomb(server: RunningServer) -> int:
    return post(server, BOMB).status_code


def half_an_image(server: RunningServer) -> int:
    return post(server, encode(image())[:500]).status_code


def wrong_values(server: RunningServer) -> int:
    url = f"{server.url}/api/segment?alpha=NaN&width=-1&format=%00"
    return httpx.post(url, json={"image": [1] * 1000}, timeout=60).status_code


def wrong_address(server: RunningServer) -> int:
    url = f"{server.url}/api/examples/../../etc/passwd%00"
    return httpx.get(url, timeout=60).status_code


def wrong_method(server: RunningServer) -> int:
    return httpx.delete(f"{server.url}/api/segment", timeout=60).status_code


def another_host(server: RunningServer) -> int:
    headers = {"Host": "example.org", "Origin": "http://example.org"}
    return httpx.get(f"{server.url}/api/examples", headers=headers, timeout=60).status_code


def keeps_an_image(server: RunningServer) -> int:
    return post(server, encode(image()), "images").status_code


HOSTILE: tuple[Callable[[RunningServer], int], ...] = (
    *(half_a_request, a_slow_request, leaves_before_the_answer, no_http, endless_headers),
    *(says_a_terabyte, too_large, too_large_in_pieces, no_image, image_bomb, half_an_image),
    *(wrong_values, wrong_address, wrong_method, another_host, keeps_an_image),
)
