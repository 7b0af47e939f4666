"""Train, predict and serve for some minutes, with kills and hostile clients, and check the results.

    .venv/bin/python -m tests.soak --minutes 30

Three tasks take turns until the time is over. A tiny network is trained, killed at random moments,
resumed, and compared with an undisturbed training to the bit. A folder is predicted in the same
way. A server on 127.0.0.1 gets requests of many clients, most of which misbehave. At the end its
memory and open files are checked, and that no temporary file and no process is left. The exit code
is 1 if anything was wrong.
"""

import argparse
import base64
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import psutil
from PIL import Image

from reconet import Predictor
from tests.factories import smooth_image
from tests.faults.client import KILLED, ForkServer, arguments, assert_readable
from tests.launch import ENVIRONMENT, assert_same_run
from tests.serve.helpers import PNG, decode, encode, image, lively_run
from tests.serve.launch import RunningServer, serving

IMAGES = 30
MOST_KILLS = 40  # of one job: on a busy machine every try might end before it gets anywhere
OPTIONS = ("--queue=8", "--max-upload=2MB", "--max-pixels=4M")
CLIENTS, BURST = 12, 60  # at once, and requests
WARM_BURSTS = 3  # before memory is measured: the first answers make buffers that stay
GROWTH_BYTES = 48 * 2**20
MOST_NEW_FILES = 8  # connections of clients that left may still close
SIZES = ((48, 80), (64, 64), (90, 40), (300, 500))
BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\x08\2\0\0\0"  # 65536 x 65536 pixels
ANSWERED = {0, 200, 201, 400, 403, 404, 405, 411, 413, 415, 421, 422, 431, 503}


class Tally:
    """What was done, and what was wrong."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.figures: dict[str, float] = {}
        self.problems: list[str] = []

    def check(self, right: bool, problem: str) -> None:
        if not right:
            self.problems.append(problem)

    @contextmanager
    def noting(self, task: str) -> Iterator[None]:
        """Keep a failed assertion as a problem, and go on."""
        try:
            yield
        except AssertionError as error:
            self.problems.append(f"{task}: {str(error)[:500]}")


class Jobs:
    """An undisturbed training and prediction, and ways to disturb more of them."""

    def __init__(self, place: Path, seed: int, tally: Tally) -> None:
        self.place, self.tally = place, tally
        self.rng = np.random.default_rng(seed)
        self.server = ForkServer()
        self.run, self.images, self.masks = (place / x for x in ("undisturbed", "images", "masks"))
        self.images.mkdir()
        for number in range(IMAGES):
            photo = Image.fromarray(smooth_image(number, 160, 240))
            photo.save(self.images / f"{number:03}.png")
        words = arguments(self.run), self._predict_words(self.masks)
        done = [self.server.run(one) for one in words]
        assert [one.code for one in done] == [0, 0], done
        self.seconds = [one.seconds for one in done]

    def train(self) -> None:
        """Kill a training until it is done, and compare it with the undisturbed one."""
        run = self.place / "run"
        self._disturb(arguments(run), self.seconds[0], "training", run)
        assert_same_run(self.run, run)
        one, other = ((place / "best.safetensors").read_bytes() for place in (self.run, run))
        assert one == other, "best.safetensors differs"
        self._clean(run)

    def predict(self) -> None:
        """Kill the prediction of a folder until it is done, and compare all files."""
        out = self.place / "out"
        self._disturb(self._predict_words(out), self.seconds[1], "prediction", None)
        for path in sorted(self.masks.rglob("*.png")):
            twin = out / path.relative_to(self.masks)
            same = twin.is_file() and twin.read_bytes() == path.read_bytes()
            assert same, f"{twin.name} is not as without a kill"
        there, more = (len(list(folder.rglob("*"))) for folder in (self.masks, out))
        assert there == more, f"{more} files, and {there} without a kill"
        self._clean(out)

    def _disturb(self, words: list[str], seconds: float, job: str, run: Path | None) -> None:
        """Run a command again and again, with kills, until it ends by itself."""
        for number in range(MOST_KILLS + 1):
            moment = float(self.rng.uniform(0, 1.1 * seconds))
            result = self.server.run(words, kill_after=moment if number < MOST_KILLS else None)
            if result.code != KILLED:
                break
            self.tally.counts[f"kills of a {job}"] += 1
            if run is not None:
                assert_readable(run)
        assert result.code == 0, result.output[-500:]
        self.tally.counts[f"{job}s finished and compared"] += 1

    def _clean(self, folder: Path) -> None:
        left = sorted(path.name for path in folder.rglob("*.part"))
        assert not left, f"half-written files are left: {left}"
        shutil.rmtree(folder)

    def _predict_words(self, out: Path) -> list[str]:
        words = ["predict", str(self.run), str(self.images), f"--out={out}", "--no-overlay"]
        return [*words, "--device=cpu", "--precision=fp32"]


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
        kinds = ["good", *HOSTILE]
        chosen = [kinds[int(kind)] for kind in self.rng.integers(0, len(kinds), BURST)]
        with ThreadPoolExecutor(CLIENTS) as many:
            statuses = list(many.map(self._try, chosen))
        for name, status in zip(chosen, statuses, strict=True):
            self.tally.counts[f"requests: {name}"] += 1
            self.tally.check(status in ANSWERED, f"{name} got the status {status}")
        for _ in range(120):
            if httpx.get(f"{self.server.url}/health", timeout=60).json()["waiting"] == 0:
                break
            time.sleep(0.5)
        else:
            self.tally.problems.append("places of the queue are not given back")
        self.tally.check(self._good() == 200, "an idle server does not answer")
        self.memory.append(self.process.memory_info().rss)
        self.files.append(self.process.num_fds())

    def finish(self) -> None:
        """Check that memory and open files have not grown since the first bursts."""
        while len(self.memory) < 2 * WARM_BURSTS:  # after a short soak
            self.burst()
        check_growth(self.memory, self.files, self.tally)

    def _good(self) -> int:
        """Send an image and compare the labels."""
        number = int(self.rng.integers(0, len(SIZES)))
        answer = post(self.server, self.bodies[number])
        if answer.status_code == 200:
            label_hw = decode(base64.b64decode(answer.json()["labels_png"]))
            same = np.array_equal(label_hw, self.right[number])
            self.tally.check(same, f"other labels for image {number}")
        return answer.status_code

    def _try(self, name: str) -> int:
        try:
            return self._good() if name == "good" else HOSTILE[name](self.server)
        except (httpx.TransportError, OSError) as error:
            alive = self.server.process.poll() is None
            self.tally.check(alive, f"{name}: the server has ended ({error})")
            return 0


def check_growth(memory: list[int], files: list[int], tally: Tally) -> None:
    """Compare the bytes and the open files after the first bursts with those after the last."""
    first, last = memory[WARM_BURSTS - 1], memory[-1]
    tally.figures["server memory after warming up, MB"] = round(first / 1e6, 1)
    tally.figures["server memory at the end, MB"] = round(last / 1e6, 1)
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


def get(server: RunningServer, path: str, host: str = "127.0.0.1") -> int:
    headers = {} if host == "127.0.0.1" else {"Host": host, "Origin": f"http://{host}"}
    return httpx.get(f"{server.url}/api/{path}", headers=headers, timeout=60).status_code


LARGE = encode(image(3, (300, 500)))
HOSTILE: dict[str, Callable[[RunningServer], int]] = {
    "half a request": lambda server: talk(server, head(100_000) + b"abc"),
    "a slow request": lambda server: talk(server, head(100_000)[:40], wait=1),
    "leaves before the answer": lambda server: talk(server, head(len(LARGE)) + LARGE),
    "no http": lambda server: talk(server, bytes(range(256)) * 20),
    "endless headers": lambda server: talk(server, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 30_000),
    "says a terabyte": lambda server: talk(server, head(10**12) + b"\0" * 10_000),
    "too large": lambda server: post(server, bytes(5 * 10**6)).status_code,
    "in pieces": lambda server: post(server, (bytes(10**6) for _ in range(5))).status_code,
    "no image": lambda server: post(server, b"GIF89a or not").status_code,
    "image bomb": lambda server: post(server, BOMB).status_code,
    "half an image": lambda server: post(server, encode(image())[:500]).status_code,
    "wrong address": lambda server: get(server, "examples/../../etc/passwd%00"),
    "another host": lambda server: get(server, "examples", "example.org"),
    "keeps an image": lambda server: post(server, encode(image()), "images").status_code,
}


def soak(place: Path, minutes: float, seed: int) -> Tally:
    """Let the three tasks take turns for some minutes."""
    tally = Tally()
    run = lively_run(place / "served")
    jobs = Jobs(place, seed, tally)
    with tally.noting("server"), serving(run, *OPTIONS) as server:
        clients = Clients(server, run, seed, tally)
        start = time.monotonic()
        while time.monotonic() - start < 60 * minutes:
            for task in (jobs.train, jobs.predict, clients.burst):
                with tally.noting(task.__name__):
                    task()
            wrong = f", {len(tally.problems)} WRONG" if tally.problems else ""
            passed = (time.monotonic() - start) / 60
            print(f"soak: {passed:.1f} min{wrong}", file=sys.stderr, flush=True)
        clients.finish()
    jobs.server.process.communicate()
    # Files, because torch makes an empty folder of its own.
    left = sorted(path.name for path in (place / "tmp").rglob("*") if not path.is_dir())
    tally.check(not left, f"temporary files are left: {left}")
    tally.check(not (ours := descendants()), f"processes are left: {ours}")
    return tally


def descendants() -> list[str]:
    """Return the commands of processes with our cache, also of those without a parent."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            same = process.environ().get("RECONET_CACHE") == os.environ["RECONET_CACHE"]
            if same and process.pid != os.getpid():
                found.append(" ".join(process.cmdline()))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long, by default 30")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other kills")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reconet-soak-") as folder:
        Path(folder, "tmp").mkdir()
        own = {"RECONET_CACHE": f"{folder}/cache", "TMPDIR": f"{folder}/tmp"}
        os.environ.update(own)
        ENVIRONMENT.update(own)
        tally = soak(Path(folder), options.minutes, options.seed)
    values = {"counts": tally.counts, "figures": tally.figures, "problems": tally.problems}
    print(json.dumps(values, indent=2))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
