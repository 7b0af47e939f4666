"""Commands and calls from Python run on a GPU: no tensors of two devices meet. It is pretended."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as Pillow

import reconet
from reconet.cli import main
from reconet.engine import read_log
from tests.factories import smooth_image, tiny_model, tiny_network, tiny_recipe, write_run
from tests.pretend_gpu import Gpu, pretend_gpu
from tests.study.tiny_study import SETTINGS

FROZEN = ["model.frozen=true", "model.project=8", "model.aux=false", "loss.stride=4"]


@pytest.fixture(autouse=True, params=["cuda", "mps"])
def gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Gpu]:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    with pretend_gpu(request.param) as gpu:
        yield gpu


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write the run of a network that was not trained."""
    recipe = tiny_recipe("data.options.train=4", "data.options.val=3")
    return write_run(tmp_path / "run", tiny_network(recipe, decided=True), log=True)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Pillow.fromarray(smooth_image(0, 70, 90)).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize(
    "settings",
    [
        ["train.precision=fp16", "train.ema=0.9", "optim.clip=1", "optim.kind=adamw"],
        ["train.precision=bf16", *FROZEN],
        [*FROZEN, "data.crop=64", "data.views=1"],
    ],
)
def test_a_training_resumes(tmp_path: Path, gpu: Gpu, settings: list[str]) -> None:
    words = [
        "train",
        "scenes/tiny",
        f"--out={tmp_path / 'run'}",
        f"--device={gpu.device.type}",
    ]
    words += [f"--set={setting}" for setting in (*SETTINGS, *settings)]
    assert main([*words, "--set=train.steps=2"]) == 0
    assert main([*words, "--set=train.steps=4", "--resume"]) == 0
    log = read_log(tmp_path / "run")
    assert [line["step"] for line in log if line["kind"] == "val"] == [2, 4]


@pytest.mark.parametrize(
    "protocol",
    [
        ["--mode=whole", "--scales=0.75,1", "--flip"],
        ["--mode=slide", "--scales=1,1.5", "--flip"],
    ],
)
def test_evaluate(run: Path, gpu: Gpu, protocol: list[str]) -> None:
    assert main(["evaluate", str(run), f"--device={gpu.device.type}", *protocol]) == 0


def test_a_predictor_is_evaluated_where_it_is(run: Path, gpu: Gpu) -> None:
    on_cpu = reconet.Predictor.from_run(run, device="cpu")
    on_gpu = reconet.Predictor.from_run(run, device=gpu.device.type)
    one, other = reconet.evaluate(on_cpu), reconet.evaluate(on_gpu)
    assert one is not None
    assert other is not None
    assert one.figures == other.figures


def test_predict(run: Path, photo: Path, tmp_path: Path, gpu: Gpu) -> None:
    device = gpu.device.type
    words = ["predict", str(run), str(photo), f"--device={device}", "--scales=1,1.5", "--flip"]
    assert main([*words, f"--out={tmp_path / 'out'}", "--precision=bf16"]) == 0
    assert main([*words, f"--out={tmp_path / 'probabilities'}", "--as=coco"]) == 0
    predictor = reconet.Predictor(tiny_model(), classes=["a", "b", "c"], device=device)
    first, second = predictor([photo, photo], with_probabilities=True)
    assert (first.label_hw == second.label_hw).all()
    predictor.best(photo)


@pytest.mark.parametrize("verb", ["explain", "suggest", "report"])
def test_pages(run: Path, verb: str, tmp_path: Path, gpu: Gpu) -> None:
    words = ["val:1"] if verb == "explain" else [f"--out={tmp_path / 'out'}"]
    assert main([verb, str(run), f"--device={gpu.device.type}", *words]) == 0


def test_prune_waits_for_the_gpu_before_it_reads_the_clock(
    run: Path, tmp_path: Path, gpu: Gpu
) -> None:
    device = f"--device={gpu.device.type}"
    assert main(["prune", str(run), "--rank=2", f"--out={tmp_path / 'cut'}", device]) == 0
    assert sum(gpu.waits.values()) >= 2 * 7
