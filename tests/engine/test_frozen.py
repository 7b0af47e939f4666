"""A frozen backbone stays as it is, with and without a cache, in one process and in several."""

import os
import shutil
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import torch
from safetensors.torch import save_file

from reconet.cache import list_cache
from reconet.engine import plan_features, read_log, run_training
from reconet.errors import OutputError, RecipeError
from reconet.models import load_trained
from reconet.recipes import Recipe, apply_overrides
from tests.factories import ProgressRecorder, tiny_model, tiny_recipe
from tests.launch import ENVIRONMENT, assert_same_run, command, kill_when, run, start, weights

FROZEN = (
    *("model.frozen=true", "model.project=8", "model.aux=false", "loss.stride=4"),
    *("data.options.train=8", "data.options.val=3", "train.steps=6", "train.eval_every=3"),
    *("train.save_every=2", "train.log_every=1", "train.deterministic=true", "data.views=2"),
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(ENVIRONMENT, "RECONET_CACHE", str(tmp_path / "cache"))


def frozen_recipe(*settings: str) -> Recipe:
    return apply_overrides(tiny_recipe(), [*FROZEN, *settings])


def trained(directory: Path, *settings: str) -> dict[str, torch.Tensor]:
    run_training(frozen_recipe(*settings), directory, device="cpu")
    return weights(directory)


def test_a_frozen_network_learns_only_after_its_trunk() -> None:
    model = tiny_model("fcn", project=8, frozen=True, aux=False).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    logits = model(torch.rand(2, 3, 64, 96))
    logits.main_bkhw.square().mean().backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        in_trunk = name.startswith(("backbone.", "project."))
        fixed = in_trunk or name in {"mean_c11", "std_c11"}
        assert torch.equal(value, before[name]) == fixed, name
    assert all(parameter.grad is None for parameter in model.trunk_parameters())


def test_features_give_the_logits_of_their_image() -> None:
    model = tiny_model("deeplabv3plus", frozen=True).eval()
    image_bchw = torch.rand(2, 3, 50, 70)
    direct = model(image_bchw).main_bkhw
    later = model(model.trunk(image_bchw), (50, 70)).main_bkhw
    torch.testing.assert_close(later, direct)


def test_a_cached_training_repeats_itself_and_leaves_the_backbone_alone(tmp_path: Path) -> None:
    cached = trained(tmp_path / "cached")
    again = trained(tmp_path / "again")
    assert all(torch.equal(cached[name], again[name]) for name in cached)
    fresh = trained(tmp_path / "fresh", "data.views=null", "train.steps=1")
    for name in cached:
        if name.startswith("backbone."):
            assert torch.equal(cached[name], fresh[name]), name


def test_the_score_from_features_is_the_score_from_images(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    network = load_trained(tmp_path / "run")
    trained(tmp_path / "images", "data.views=null", f"train.init_from={tmp_path / 'run'}",
            "train.steps=1", "optim.lr=1e-12")  # fmt: skip
    from_images = load_trained(tmp_path / "images").info.score["miou"]
    assert network.info.score["miou"] == pytest.approx(from_images, abs=2e-3)


def test_tensorboard_has_the_last_images_of_a_cached_training(tmp_path: Path) -> None:
    reader = import_module("tensorboard.backend.event_processing.event_accumulator")
    trained(tmp_path / "run")
    events = reader.EventAccumulator(str(tmp_path / "run")).Reload()
    drawn = {event.step for event in events.Images("val/0")}
    assert drawn == {max(line["step"] for line in read_log(tmp_path / "run"))}


def test_contexts_that_read_more_stages_share_the_last_one_with_others(tmp_path: Path) -> None:
    trained(tmp_path / "c4", "model.context=fcn")
    trained(tmp_path / "more", "model.context=deeplabv3plus", "model.aux=true")
    files = sorted(path.name for path in (tmp_path / "cache/features").rglob("*.bin"))
    assert files.count("c4.bin") == 2  # views, and whole images
    assert files.count("c1.bin") == 2
    assert files.count("c3.bin") == 1  # the auxiliary classifier has no part in validations


@pytest.mark.parametrize("name", ["encnet", "cfnet"])
def test_an_option_that_reads_more_stages_finds_them_in_the_cache(
    tmp_path: Path, name: str
) -> None:
    lateral = ("model.options.lateral=true", "train.steps=1")
    trained(tmp_path / "run", f"model.context={name}", *lateral)
    files = sorted(path.stem for path in (tmp_path / "cache/features").rglob("c*.bin"))
    files = [name for name in files if name != "checksums"]
    assert files == ["c2", "c2", "c3", "c3", "c4", "c4"]  # views, and whole images


def test_early_stages_are_those_of_the_whole_trunk() -> None:
    model = tiny_model("deeplabv3plus", project=8, frozen=True).eval()
    image_bchw = torch.rand(1, 3, 50, 70)
    whole, early = model.trunk(image_bchw), model.trunk(image_bchw, stages=2)
    assert torch.equal(early.c1, whole.c1)
    assert torch.equal(early.c2, whole.c2)
    assert early.c3.numel() == early.c4.numel() == 0


def feature_folders(*settings: str) -> set[Path]:
    stores = plan_features(frozen_recipe(*settings), device="cpu").stores
    return {store.directory for store in stores if store.name != "label"}


def test_options_that_change_the_images_find_other_features_in_both_splits() -> None:
    one, other = (feature_folders(f"data.options.seed={seed}") for seed in (0, 1))
    assert len(one) == len(other) == 2
    assert not one & other


def test_other_changes_of_the_images_find_other_features() -> None:
    def directory(*settings: str) -> Path:
        plan = plan_features(frozen_recipe("model.project=null", *settings), device="cpu")
        return plan.stores[0].directory

    assert directory() == directory("data.augment.rotation=0")
    assert directory() != directory("data.augment.rotation=9")


@pytest.mark.parametrize(
    ("backbone", "change"),
    [
        (["model.backbone=resnet50", "model.width=0.0625"], "model.stride_on=1x1"),
        (["model.output_stride=16"], "model.output_stride=8"),
    ],
)
def test_strides_that_no_weight_tells_find_other_features_and_another_projection(
    backbone: list[str], change: str
) -> None:
    one, other = (
        plan_features(frozen_recipe(*backbone, *settings), device="cpu")
        for settings in ([], [change])
    )
    weights = [plan.model.state_dict() for plan in (one, other)]
    names = [name for name in weights[0] if name.startswith("backbone.")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in names)
    assert not torch.equal(weights[0]["project.weight"], weights[1]["project.weight"])
    assert not feature_folders(*backbone) & feature_folders(*backbone, change)


def test_one_value_in_a_file_of_weights_finds_other_features(tmp_path: Path) -> None:
    state = plan_features(frozen_recipe(), device="cpu").model.backbone.state_dict()
    save_file(state, tmp_path / "one.safetensors")
    save_file(state, tmp_path / "copy.safetensors")
    name = next(name for name in state if name.endswith("weight"))
    state[name].view(-1)[0] += 0.001
    save_file(state, tmp_path / "other.safetensors")

    one, copy, other = (
        feature_folders(f"model.weights={tmp_path / file}.safetensors")
        for file in ("one", "copy", "other")
    )
    assert one == copy
    assert not one & other


def test_views_need_a_frozen_backbone(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"data\.views=2 caches .* set model\.frozen=true"):
        run_training(tiny_recipe("data.views=2"), tmp_path / "run", device="cpu")


def test_a_second_training_computes_no_features(tmp_path: Path) -> None:
    trained(tmp_path / "first")
    progress = ProgressRecorder()
    recipe = frozen_recipe("train.seed=0", "model.context=fcn")
    run_training(recipe, tmp_path / "second", device="cpu", progress=progress)
    assert not [line for line in progress.lines if "features of" in line]


def test_the_projection_of_another_split_can_be_taken() -> None:
    def projection(*settings: str) -> torch.Tensor:
        model = plan_features(frozen_recipe("data.options.val=8", *settings), device="cpu").model
        weight: torch.Tensor = model.state_dict()["project.weight"]
        return weight

    of_train = projection()
    taken = projection("data.train_split=val", "data.project_split=train")
    own = projection("data.train_split=val")
    assert torch.equal(taken, of_train)
    assert not torch.equal(own, of_train)


@pytest.mark.parametrize("file", ["c4.bin", "*.safetensors"])
@pytest.mark.parametrize("kind", ["flip", pytest.param("cut", marks=pytest.mark.slow)])
def test_damaged_files_are_found_and_computed_anew(tmp_path: Path, kind: str, file: str) -> None:
    before = trained(tmp_path / "before")
    paths = list((tmp_path / "cache").rglob(file))
    assert paths
    for path in paths:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if kind == "flip" else data[: len(data) // 2])
    after = trained(tmp_path / "after")
    assert all(torch.equal(before[name], after[name]) for name in before)


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def test_a_training_without_room_for_both_splits_computes_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, labels, _whole = plan_features(frozen_recipe(), device="cpu").stores
    free = views.bytes + labels.bytes  # for the images to learn from, and for no other
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(free, 0, free))
    with pytest.raises(OutputError, match="the features need"):
        trained(tmp_path / "run")
    assert not (tmp_path / "cache/features").exists()


def test_a_frozen_network_can_be_trained_further_as_an_ordinary_one(tmp_path: Path) -> None:
    before = trained(tmp_path / "frozen")
    more = ("model.frozen=false", "data.views=null", f"train.init_from={tmp_path / 'frozen'}")
    after = trained(tmp_path / "whole", *more, "optim.lr=0.01")
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert any(name.startswith("backbone.") for name in moved)
    assert "project.weight" in moved


def settings(*more: str) -> list[str]:
    return [f"--set={text}" for text in (*FROZEN, *more)]


def test_a_kill_while_training_from_the_cache_changes_no_bit(tmp_path: Path) -> None:
    run(command(tmp_path / "straight", *settings()))
    process = start(command(tmp_path / "killed", *settings(), "--resume"))
    kill_when(process, tmp_path / "killed", 4)
    run(command(tmp_path / "killed", *settings(), "--resume"))
    assert_same_run(tmp_path / "straight", tmp_path / "killed")


def test_two_processes_end_near_one_and_build_the_same_cache(tmp_path: Path) -> None:
    same = settings("model.options.dropout=0")  # it is drawn anew in each process
    run(command(tmp_path / "one", *same))
    shutil.move(tmp_path / "cache", tmp_path / "cache of one")
    run(command(tmp_path / "two", *same), processes=2)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4)
    assert scores(tmp_path / "two") == pytest.approx(scores(tmp_path / "one"), abs=0.01)
    assert_same_cache(tmp_path / "cache", tmp_path / "cache of one")


@pytest.mark.slow
def test_two_processes_learn_what_one_does_without_a_cache(tmp_path: Path) -> None:
    same = settings("model.options.dropout=0", "data.views=null")
    run(command(tmp_path / "one", *same))
    run(command(tmp_path / "two", *same), processes=2)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4)
        if name.startswith(("backbone.", "project.")):
            assert torch.equal(two[name], one[name]), name
    assert scores(tmp_path / "two") == pytest.approx(scores(tmp_path / "one"), abs=0.01)


def scores(directory: Path) -> list[float]:
    return [line["miou"] for line in read_log(directory) if line["kind"] == "val"]


def assert_same_cache(one: Path, other: Path) -> None:
    """Assert that two caches hold the same files, and features and labels are equal to the bit."""
    files = [sorted(p.relative_to(root) for p in root.rglob("*.*")) for root in (one, other)]
    assert files[0] == files[1]
    data = [path for path in files[0] if path.suffix in {".bin", ".safetensors"}]
    assert {"c4.bin", "label.bin", "checksums.bin"} <= {path.name for path in data}
    for path in data:
        assert (one / path).read_bytes() == (other / path).read_bytes(), path


@pytest.mark.slow
def test_a_kill_while_other_processes_build_the_cache_changes_no_bit(tmp_path: Path) -> None:
    many = settings("data.options.train=100", "data.views=4", "model.project=null")
    entries = 400  # enough for worker processes, and for a kill in the middle
    run(command(tmp_path / "straight", *many))
    shutil.move(tmp_path / "cache", tmp_path / "straight cache")
    process = start(command(tmp_path / "killed", *many, "--resume"))
    while written(tmp_path / "cache") < 20:
        time.sleep(0.002)
        assert process.poll() is None
    workers = [
        p for p in psutil.Process(process.pid).children() if "spawn_main" in str(p.cmdline())
    ]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()  # until the workers have ended too, which nobody told
    assert workers
    assert 20 <= written(tmp_path / "cache") < entries
    run(command(tmp_path / "killed", *many, "--resume"))
    assert_same_run(tmp_path / "straight", tmp_path / "killed")
    assert_same_cache(tmp_path / "cache", tmp_path / "straight cache")


def written(cache: Path) -> int:
    return sum(item.done for item in list_cache(cache))
