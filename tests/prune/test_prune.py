"""Fewer ranks: the kept ones do exactly what they did, and the result is a network like any."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from reconet.cli import main
from reconet.cli.tables.results import ratio
from reconet.models.decompose import look_inside, reconstruction
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.prune.prune import spread
from reconet.prune.ranks import best_ranks, cut, importance
from reconet.prune.measure import in_turns
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.system.run_files import BEST
from tests.explain.test_explain import make_run

KEPT = (0, 2, 3)


def lively(*settings: str) -> TrainedNetwork:
    recipe = apply_overrides(find_recipe("scenes/tiny"), ["model.rank=5", *settings])
    model = build_model(recipe, 3, pretrained=False).eval()
    with torch.no_grad():
        reconstruction(model).rank_logits_r.copy_(torch.tensor([0.0, -1.0, 2.0, 1.0, -4.0]))
        model.classify.weight.normal_()
    palette = ((0, 0, 0),) * 3
    return TrainedNetwork(
        model=model,
        info=NetworkInfo(recipe=recipe, classes=("a", "b", "c"), palette=palette, step=1, score={}),
    )


def random_image() -> Tensor:
    return torch.randint(0, 256, (1, 3, 96, 64), dtype=torch.uint8)


def test_the_kept_ranks_keep_their_lambda() -> None:
    before = lively()
    old = reconstruction(before.model).rank_logits_r.softmax(0)[list(KEPT)]
    core = reconstruction(cut(before, KEPT).model)
    assert core.weight_sum is not None
    torch.testing.assert_close(core.rank_logits_r.softmax(0) * core.weight_sum, old)
    assert core.weight_sum < 1


@pytest.mark.parametrize("size", [(64, 64), (96, 64)])
def test_a_pruned_network_is_the_old_one_with_the_other_ranks_off(size: tuple[int, int]) -> None:
    before, image = lively(), random_image()[:, :, : size[0], : size[1]]
    keep_r = torch.tensor([rank in KEPT for rank in range(5)])
    expected = look_inside(before.model, image).logits(keep_r)
    with torch.no_grad():
        got = cut(before, KEPT).model.coarse(image)
        whole = before.model.coarse(image)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(got, whole, atol=1e-4)


def test_pruning_twice_is_pruning_once_to_what_is_left() -> None:
    before, image = lively(), random_image()
    twice, once = cut(cut(before, KEPT), (0, 2)), cut(before, (0, 3))
    with torch.no_grad():
        torch.testing.assert_close(twice.model.coarse(image), once.model.coarse(image))


def test_a_network_that_was_not_pruned_has_the_weights_that_it_always_had() -> None:
    names = lively().model.state_dict().keys()
    assert not [name for name in names if "weight_sum" in name]
    assert "context.core.weight_sum" in cut(lively(), KEPT).model.state_dict()


def test_a_rank_matters_as_much_as_the_answers_change_without_it() -> None:
    before = lively()
    images = [random_image() for _ in range(2)]
    squares = torch.zeros(5)
    for image in images:
        with torch.no_grad():
            whole = before.model.coarse(image)
            for rank in range(5):
                off = cut_out(before, rank).model.coarse(image)
                change = (whole - off) - (whole - off).mean(1, keepdim=True)
                squares[rank] += change.square().mean() / 2
    got_r = importance(before.model, images).float()
    torch.testing.assert_close(got_r, squares.sqrt(), rtol=1e-2, atol=1e-6)
    assert 4 not in best_ranks(got_r, 4)  # its lambda is next to nothing


def cut_out(before: TrainedNetwork, rank: int) -> TrainedNetwork:
    return cut(before, [other for other in range(5) if other != rank])


def test_the_best_ranks_come_in_the_networks_order() -> None:
    assert best_ranks(torch.tensor([0.1, 0.5, 0.2, 0.4]), 3) == (1, 2, 3)


def test_calibration_images_are_spread_over_the_split() -> None:
    assert spread(100, 3) == [0, 50, 99]
    assert spread(2, 64) == [0, 1]


def test_times_are_ratios_to_the_first() -> None:
    ratios = in_turns({"one": lambda: sum(range(10)), "two": lambda: sum(range(100_000))}, 5)
    assert ratios["one"] == (1.0, (1.0, 1.0))
    assert ratios["two"].median > 1.0
    low, high = ratios["two"].range
    assert low <= ratios["two"].median <= high


@pytest.mark.parametrize(
    ("median", "extent", "text"),
    [
        (1.0, (1.0, 1.0), "1"),
        (0.94, (0.91, 0.98), "0.94 (0.91-0.98)"),
        (0.94, (0.91, 1.2), "~0.94 (0.91-1.20)"),
    ],
)
def test_a_time_that_may_be_noise_is_marked(
    median: float, extent: tuple[float, float], text: str
) -> None:
    assert ratio(median, extent) == text


def test_all_folders_are_looked_at_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "cut"
    for name in ("rank1", "rank2"):
        (out / name).mkdir(parents=True)
        (out / name / "mine.txt").touch()
    monkeypatch.setattr("reconet.prune.prune.importance", lambda *given: pytest.fail("computed"))
    assert main(["prune", str(run), "--rank", "3,2,1", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert f"{out / 'rank2'} and {out / 'rank1'} are there and not empty; leave out" in error
    (tmp_path / "file").touch()
    assert main(["prune", str(run), "--rank", "3", "--out", str(tmp_path / "file")]) == 2
    assert "--out names a folder; " in capsys.readouterr().err


def test_a_folder_of_a_former_pruning_is_written_again_unless_trained_in(tmp_path: Path) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "cut"
    options = ["--images", "1", "--out", str(out)]
    assert main(["prune", str(run), "--rank", "2,1", *options]) == 0
    (out / "rank2" / BEST).unlink()
    assert main(["prune", str(run), "--rank", "3,2", *options]) == 0
    assert load_trained(out / "rank2").info.recipe.model.rank == 2
    (out / "rank2" / "log.jsonl").touch()
    assert main(["prune", str(run), "--rank", "3,2", *options]) == 2


def test_the_verb_writes_a_network_that_other_verbs_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "small"
    options = ["--rank", "2", "--images", "3", "--out", str(out), "--json"]
    assert main(["prune", str(run), *options]) == 0
    values = json.loads(capsys.readouterr().out)
    before, after = values["networks"]
    assert (before["rank"], after["rank"]) == (4, 2)
    assert after["params"] < before["params"]
    assert after["core_params"] * 2 == before["core_params"]
    assert after["core_macs"] < before["core_macs"]
    assert after["file_bytes"] == (out / BEST).stat().st_size < before["file_bytes"]
    assert before["time"] == 1.0
    low, high = after["time_range"]
    assert low <= after["time"] <= high
    assert len(values["kept"]["2"]) == 2
    assert main(["evaluate", str(out), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)["figures"]["miou"]
    assert scored == pytest.approx(after["figures"]["miou"])
    assert load_trained(out).info.score["miou"] == pytest.approx(scored)
    assert main(["explain", str(out), "val:0", "--ranks", "2"]) == 0


def test_a_pruned_network_can_be_trained_further(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    options = ["--rank", "3,2", "--images", "1", "--out", str(tmp_path / "cut")]
    assert main(["prune", str(run), *options]) == 0
    recipe = str(tmp_path / "cut" / "rank2" / "recipe.json")
    tuned = tmp_path / "tuned"
    settings = ["--set", "train.steps=1", "--set", "train.eval_every=1"]
    assert main(["train", recipe, "--out", str(tuned), *settings, "--device", "cpu"]) == 0
    start, end = (load_trained(path) for path in (tmp_path / "cut" / "rank2", tuned))
    sums = [reconstruction(one.model).weight_sum for one in (start, end)]
    assert torch.equal(*sums)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ([], ["--rank", "4"], "at least 1 and below 4"),
        ([], ["--rank", "0"], "--rank takes numbers above 0"),
        ([], ["--rank", "many"], "--rank takes numbers above 0"),
        (["model.context=fcn"], ["--rank", "2"], "has no ranks"),
        ([], ["--rank", "2", "--split", "vale"], "unknown split of scenes 'vale'"),
        ([], ["--rank", "2", "--out", "."], "not empty"),
    ],
)
def test_mistakes_are_one_line(
    settings: list[str],
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = make_run(tmp_path / "run", *settings)
    monkeypatch.chdir(tmp_path)
    assert main(["prune", str(run), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
