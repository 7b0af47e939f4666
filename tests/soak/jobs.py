"""Kill trainings and predictions at random moments, let them resume, and compare the results."""

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from reconet.data.scenes.generate import scene
from tests.faults.client import KILLED, ForkServer, Result, arguments, assert_readable
from tests.launch import assert_same_run
from tests.soak.tally import Tally

IMAGES = 30
MOST_KILLS = 40  # of one job: on a busy machine every try might end before it gets anywhere


class Jobs:
    """An undisturbed training and prediction, and ways to disturb more of them."""

    def __init__(self, place: Path, seed: int, tally: Tally) -> None:
        self.place, self.tally = place, tally
        self.rng = np.random.default_rng(seed)
        self.server = ForkServer()
        self.run, self.images = place / "undisturbed", place / "images"
        self.train_seconds = self._undisturbed(arguments(self.run))
        self.images.mkdir()
        for number in range(IMAGES):
            image_hwc, _ = scene(seed, number, (160, 240))
            Image.fromarray(image_hwc).save(self.images / f"{number:03}.png")
        self.masks = place / "masks"
        self.predict_seconds = self._undisturbed(self._predict_words(self.masks))

    def close(self) -> None:
        self.server.process.communicate()

    def train(self) -> None:
        """Kill a training until it is done, and compare it with the undisturbed one."""
        run = self.place / "run"
        result = self._disturb(arguments(run), self.train_seconds, "training", run)
        with self.tally.noting("training"):
            assert result.code == 0, result.output[-500:]
            assert_same_run(self.run, run)
            one, other = ((place / "best.safetensors").read_bytes() for place in (self.run, run))
            assert one == other, "best.safetensors differs"
        self._clean(run, "training")

    def predict(self) -> None:
        """Kill the prediction of a folder until it is done, and compare all files."""
        out = self.place / "out"
        result = self._disturb(self._predict_words(out), self.predict_seconds, "prediction", None)
        self.tally.check(result.code == 0, f"prediction: {result.output[-500:]}")
        for path in sorted(self.masks.rglob("*.png")):
            twin = out / path.relative_to(self.masks)
            same = twin.is_file() and twin.read_bytes() == path.read_bytes()
            self.tally.check(same, f"prediction: {twin.name} is not as without a kill")
        there, more = (len(list(folder.rglob("*"))) for folder in (self.masks, out))
        self.tally.check(there == more, f"prediction: {more} files, and {there} without a kill")
        self._clean(out, "prediction")

    def _undisturbed(self, words: list[str]) -> float:
        result = self.server.run(words)
        assert result.code == 0, result.output
        return result.seconds

    def _disturb(self, words: list[str], seconds: float, job: str, run: Path | None) -> Result:
        """Run a command again and again, with kills, until it ends by itself."""
        for _ in range(MOST_KILLS):
            moment = float(self.rng.uniform(0, 1.1 * seconds))
            result = self.server.run(words, kill_after=moment)
            if result.code != KILLED:
                break
            self.tally.counts[f"kills of a {job}"] += 1
            if run is not None:
                assert_readable(run)
        else:
            result = self.server.run(words)
        self.tally.counts[f"{job}s finished and compared"] += 1
        return result

    def _clean(self, folder: Path, job: str) -> None:
        left = sorted(path.name for path in folder.rglob("*.part"))
        self.tally.check(not left, f"{job}: half-written files are left: {left}")
        shutil.rmtree(folder, ignore_errors=True)

    def _predict_words(self, out: Path) -> list[str]:
        words = ["predict", str(self.run), str(self.images), f"--out={out}", "--no-overlay"]
        return [*words, "--device=cpu", "--precision=fp32"]
