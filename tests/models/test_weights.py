"""Weight files: what fits loads completely, what does not says why. The hub is never waited for."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from reconet.errors import CheckpointError
from reconet.models import ResNet, load_backbone, read_tensors, weights

SHARED = Path(__file__).parents[3] / "shared"


def published_state(stem: Literal["deep", "plain"]) -> dict[str, Tensor]:
    """Make a ResNet-50 checkpoint as timm (deep stem) or torchvision (plain) names and shapes it.

    It is written down here independently of our own network, at full width.
    """
    state: dict[str, Tensor] = {}

    def conv(name: str, out: int, into: int, kernel: int) -> None:
        state[f"{name}.weight"] = torch.randn(out, into, kernel, kernel) * 0.01

    def norm(name: str, channels: int) -> None:
        state[f"{name}.weight"], state[f"{name}.bias"] = torch.rand(channels), torch.rand(channels)
        state[f"{name}.running_mean"] = torch.rand(channels)
        state[f"{name}.running_var"] = torch.rand(channels) + 0.5
        state[f"{name}.num_batches_tracked"] = torch.tensor(7)

    if stem == "deep":
        conv("conv1.0", 64, 3, 3)
        norm("conv1.1", 64)
        conv("conv1.3", 64, 64, 3)
        norm("conv1.4", 64)
        conv("conv1.6", 128, 64, 3)
        norm("bn1", 128)
    else:
        conv("conv1", 64, 3, 7)
        norm("bn1", 64)
    into = 128 if stem == "deep" else 64
    for stage, (blocks, channels) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            conv(f"{name}.conv1", channels, into, 1)
            norm(f"{name}.bn1", channels)
            conv(f"{name}.conv2", channels, channels, 3)
            norm(f"{name}.bn2", channels)
            conv(f"{name}.conv3", 4 * channels, channels, 1)
            norm(f"{name}.bn3", 4 * channels)
            if block == 0:
                conv(f"{name}.downsample.0", 4 * channels, into, 1)
                norm(f"{name}.downsample.1", 4 * channels)
            into = 4 * channels
    state["fc.weight"], state["fc.bias"] = torch.randn(1000, 2048), torch.randn(1000)
    return state


def small() -> ResNet:
    return ResNet("resnet18", width=0.125)


@pytest.mark.parametrize("stem", ["deep", "plain"])
@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_published_checkpoint_loads_with_nothing_missing(
    tmp_path: Path, stem: Literal["deep", "plain"], suffix: str
) -> None:
    state, path = published_state(stem), tmp_path / f"resnet50{suffix}"
    if suffix == ".pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    net = ResNet("resnet50", stem=stem)
    report = load_backbone(net, str(path))
    assert not report.problems
    assert report.ignored == ("fc.bias", "fc.weight")
    assert set(report.loaded) == set(net.state_dict())
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_a_checkpoint_without_step_counters_or_in_half_precision_loads(tmp_path: Path) -> None:
    net, other = small(), small()
    state = {k: v.half() for k, v in other.state_dict().items() if "num_batches" not in k}
    save_file(state, tmp_path / "w.safetensors")
    assert not load_backbone(net, str(tmp_path / "w.safetensors")).problems
    assert net.conv1[0].weight.dtype == torch.float  # type: ignore[index]


def test_a_checkpoint_wrapped_by_a_training_script_loads(tmp_path: Path) -> None:
    state = {f"module.{key}": value for key, value in small().state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "w.pth")
    assert not load_backbone(small(), str(tmp_path / "w.pth")).problems


def test_another_network_is_refused_whole_and_every_key_is_accounted_for(tmp_path: Path) -> None:
    state = small().state_dict()
    del state["layer2.0.conv1.weight"]
    state["extra.weight"] = torch.zeros(3)
    state["bn1.bias"] = torch.zeros(5)
    save_file(state, tmp_path / "w.safetensors")
    net = small()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with pytest.raises(CheckpointError) as raised:
        load_backbone(net, str(tmp_path / "w.safetensors"))
    for key in ("layer2.0.conv1.weight", "extra.weight", "bn1.bias"):
        assert key in str(raised.value)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_a_file_with_the_other_stem_says_which_setting_to_change(tmp_path: Path) -> None:
    save_file(
        ResNet("resnet18", width=0.125, stem="plain").state_dict(), tmp_path / "w.safetensors"
    )
    with pytest.raises(CheckpointError, match=r"its stem is plain: set model\.stem=plain"):
        load_backbone(small(), str(tmp_path / "w.safetensors"))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_truncated_empty_and_foreign_files_are_one_line(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole{suffix}"
    state = small().state_dict()
    save_file(state, whole) if suffix == ".safetensors" else torch.save(state, whole)
    content = whole.read_bytes()
    for name, broken in {"half": content[: len(content) // 2], "empty": b"", "text": b"hi"}.items():
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(broken)
        with pytest.raises(CheckpointError) as raised:
            load_backbone(small(), str(path))
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)


class Malicious:
    """Runs a command when it is unpickled by a careless reader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (str(self.path), "w"))


def test_code_in_a_torch_file_is_never_run(tmp_path: Path) -> None:
    torch.save({"weight": Malicious(tmp_path / "owned")}, tmp_path / "evil.pth")
    with pytest.raises(CheckpointError, match="never run"):
        read_tensors(tmp_path / "evil.pth")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "content",
    [{1: torch.zeros(3)}, {"a": torch.zeros(3).to_sparse()}, [torch.zeros(3)], {"a": "text"}],
)
def test_a_torch_file_of_something_else_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(CheckpointError, match="something else than named tensors"):
        read_tensors(tmp_path / "w.pth")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    state = small().state_dict()
    state["bn1.bias"][3] = value
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(CheckpointError, match=r"bn1\.bias holds values that are not finite"):
        load_backbone(small(), str(tmp_path / "w.safetensors"))


def test_a_missing_file_and_an_unavailable_network_are_named() -> None:
    for name in ("nowhere.pth", "/nowhere/w.bin", "./w"):
        with pytest.raises(CheckpointError, match=f"no weight file {name}"):
            load_backbone(small(), name)
    with pytest.raises(CheckpointError, match="no ImageNet weights for resnet18 with a deep stem"):
        load_backbone(small(), "imagenet")


def test_offline_the_hub_is_one_clear_line(tmp_path: Path) -> None:
    code = (
        "from reconet.models import ResNet, load_backbone\n"
        "from reconet.errors import CheckpointError\n"
        "try: load_backbone(ResNet('resnet50', width=0.125), 'imagenet')\n"
        "except CheckpointError as error: print(error)\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "timm/resnet50s.gluon_in1k" in done.stdout
    assert "set model.weights" in done.stdout


def test_a_file_in_the_hub_cache_is_used_without_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def fake_download(repo_id: str, filename: str, *, local_files_only: bool) -> str:
        assert (repo_id, filename) == ("timm/resnet18.tv_in1k", "model.safetensors")
        return str(tmp_path / "model.safetensors")

    source = ResNet("resnet18", width=0.125, stem="plain")
    save_file(source.state_dict(), tmp_path / "model.safetensors")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake_download)
    net = ResNet("resnet18", width=0.125, stem="plain")
    assert not load_backbone(net, "imagenet").problems
    assert torch.equal(net.conv1.weight, source.conv1.weight)  # type: ignore[arg-type]


@pytest.fixture
def _ask_anew() -> Iterator[None]:
    clear = weights.hub_answers.cache_clear
    clear()
    yield
    clear()


@pytest.mark.usefixtures("_ask_anew")
def test_a_hub_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()

    def listen(*_: object, **__: object) -> None:
        heard.wait(60)
        raise URLError("too late")

    monkeypatch.setattr(weights, "PATIENCE", 0.01)
    monkeypatch.setattr(weights, "urlopen", listen)
    assert not weights.hub_answers()
    heard.set()


@pytest.mark.usefixtures("_ask_anew")
def test_any_answer_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {
        HTTPError("x", 403, "no", None, None): True,  # type: ignore[arg-type]
        URLError("no such host"): False,
        TimeoutError(): False,
    }
    for error, answers in errors.items():

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(weights, "urlopen", fail)
        weights.hub_answers.cache_clear()
        assert weights.hub_answers() == answers, error


# VOC class -> the ImageNet classes of the same animal.
ANIMALS = {3: [*range(7, 25), *range(80, 147)], 8: range(281, 286), 12: range(151, 269)}


@pytest.mark.skipif(not (SHARED / "weights").exists(), reason="needs ../shared/weights")
def test_real_imagenet_weights_recognise_birds_cats_and_dogs() -> None:
    """Check a plain stem with the stride on the 1x1. A wrong network recognises nothing."""
    file = SHARED / "weights" / "resnet50_imagenet1k_caffe.safetensors"
    net = ResNet("resnet50", stem="plain", stride_on="1x1", output_stride=32).eval()
    assert not load_backbone(net, str(file)).problems
    fc = read_tensors(file)
    voc = SHARED / "data/voc12/VOCdevkit/VOC2012"
    seen = right = 0
    for label in sorted((voc / "SegmentationClass").glob("*.png")):
        animals = set(np.unique(np.asarray(Image.open(label)))) - {0, 255}
        if len(animals) != 1 or not animals <= ANIMALS.keys() or seen == 24:
            continue
        image = Image.open(voc / "JPEGImages" / f"{label.stem}.jpg").resize((224, 224))
        image_bchw = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None] / 255
        mean, std = torch.tensor([net.input_mean, net.input_std]).view(2, 3, 1, 1)
        normal = (image_bchw - mean) / std
        with torch.no_grad():
            logits = net(normal).c4.mean((2, 3)) @ fc["fc.weight"].float().T + fc["fc.bias"]
        seen += 1
        right += int(logits.argmax()) in ANIMALS[animals.pop()]
    assert seen == 24
    assert right >= 18
