"""A trial is trained once, scored at its last step, and its attention is measured."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from reconet.data import open_dataset
from reconet.engine import read_log
from reconet.errors import TrainingError
from reconet.evaluation.metrics import confusion_matrix
from reconet.models.context.low_rank import Factors, reconstruct
from reconet.models.context.reconet import RecoNet, TensorReconstruction
from reconet.models.segmenter import Segmenter, build_model
from reconet.recipes import apply_overrides
from reconet.study import StudyResult
from reconet.study.run_trial import (
    count_with_mean,
    measure_spectrum,
    run_trial,
)
from reconet.study.trial import read_result
from tests.factories import tiny_model, tiny_recipe
from tests.study.tiny_study import trials_in

CROP = (64, 96)
RECIPE = tiny_recipe(
    "data.options.size=[64, 96]",
    "data.crop=[64, 96]",
    "data.base_size=96",
    "data.options.val=3",
    "model.rank=5",
)


def test_scoring_again_trains_nothing_and_looks_at_the_same_network(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    again = rows["ms_flip"].trials[0]
    assert again.images_per_second is None
    assert again.params == rows["aux"].trials[0].params
    assert "with mirror images" in again.protocol
    assert not (finished.out / "ms_flip" / "seed0" / "log.jsonl").exists()


def test_a_network_that_was_not_trained_is_not_scored(tmp_path: Path) -> None:
    trial = trials_in(tmp_path, "fcn", seeds=1)[0]
    elsewhere = tmp_path / "aux" / "seed0"
    with pytest.raises(TrainingError, match="the network to score was not trained"):
        run_trial(trial.recipe, trial.directory, variant="fcn", network=elsewhere, device="cpu")


@pytest.mark.parametrize("relative_to", ["base_size", "original"])
def test_the_score_is_that_of_the_last_step_by_the_protocol_of_the_recipe(
    tmp_path: Path, relative_to: str
) -> None:
    trial = trials_in(tmp_path, "fcn", seeds=1)[0]
    changes = ["eval.mode=whole", f"eval.relative_to={relative_to}", "data.base_size=48"]
    recipe = apply_overrides(trial.recipe, changes)
    result = run_trial(recipe, trial.directory, variant="fcn", network=None, device="cpu")
    assert result is not None
    last = [line for line in read_log(trial.directory) if line["kind"] == "val"][-1]
    assert last["step"] == 4
    # A training scores images of base_size, and these are larger.
    assert (result.figures["miou"] == last["miou"]) == (relative_to == "base_size")
    assert ("long side of 48" in result.protocol) == (relative_to == "base_size")
    assert result == read_result(trial.directory)


def test_liveness_and_ranks_of_the_attention_are_there(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    trial = rows["tgm_trm"].trials[0]
    assert [line["step"] for line in trial.trajectory] == [2, 4]
    assert all(line["attention_spread"] > 0 for line in trial.trajectory)
    assert trial.spectrum is not None
    assert trial.spectrum.rank == 4
    assert rows["fcn"].trials[0].spectrum is None


def network(monkeypatch: pytest.MonkeyPatch, *, alive: bool) -> Segmenter:
    """Build a network whose attention is 20 for some images and 0 for others, or 20 for all."""
    torch.manual_seed(0)
    model = tiny_model("reconet", rank=2, gpm=False, aux=False, crop=CROP).eval()
    torch.nn.init.normal_(model.classify.weight, std=1)
    core = model.context.core
    assert isinstance(core, TensorReconstruction)
    own = core.factors
    levels: list[float] = []

    def factors(x_bchw: Tensor) -> Factors:
        if len(levels) < len(images()):  # the first time that the images are shown
            levels.append(x_bchw.mean().item())
        is_bright = x_bchw.mean().item() > sum(levels) / len(levels)
        gate = 20.0 if is_bright or not alive else 0.0
        made = Factors(*(torch.ones_like(factor) for factor in own(x_bchw)))
        return made._replace(weight_r=made.weight_r * gate / len(made.weight_r))

    monkeypatch.setattr(core, "factors", factors)
    labels(model)
    return model


def images() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(1, 3, *CROP, generator=generator) * k / 4 for k in (1, 2, 3, 4)]


@torch.no_grad()
def labels(model: Segmenter) -> list[Tensor]:
    return [model.coarse(image_bchw).argmax(1)[0].to(torch.uint8) for image_bchw in images()]


@pytest.mark.parametrize("alive", [False, True])
def test_only_an_attention_that_depends_on_the_image_loses_by_its_mean(
    monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    model = network(monkeypatch, alive=alive)
    truth = labels(model)  # so that the network itself is always right

    def count(model: Segmenter) -> Tensor:
        pairs = zip(truth, labels(model), strict=True)
        return torch.stack([confusion_matrix(true, found, 3) for true, found in pairs]).sum(0)

    own_kk, mean_kk = count(model), count_with_mean(model, CROP, count)
    assert mean_kk is not None
    assert own_kk.diagonal().sum() == own_kk.sum()
    assert torch.equal(mean_kk, own_kk) == (not alive)


def test_the_spectrum_is_that_of_the_unfolded_attention() -> None:
    model = build_model(RECIPE, 14).eval()
    context = model.context
    assert isinstance(context, RecoNet)
    core = context.core
    assert isinstance(core, TensorReconstruction)
    torch.nn.init.normal_(core.rank_logits_r)
    dataset = open_dataset("scenes", "val", None, RECIPE.data.options)
    found = measure_spectrum(model, dataset, RECIPE.data, torch.device("cpu"))
    assert found is not None
    ranks: dict[str, list[float]] = {"channel": [], "row": [], "column": []}
    for index in range(3):
        image_bchw = torch.from_numpy(dataset[index].image_hwc).permute(2, 0, 1)[None]
        with torch.no_grad():
            x_bchw = context.reduce(model.backbone(model.normalise(image_bchw)).c4)
            attention_chw = reconstruct(core.factors(x_bchw))[0].double()
        for axis, name in enumerate(ranks):
            value_n = torch.linalg.svdvals(attention_chw.movedim(axis, 0).flatten(1))
            share_n = value_n / value_n.sum()
            ranks[name].append(torch.special.entr(share_n).sum().exp().item())
    for name, values in ranks.items():
        assert found.effective[name] == pytest.approx(sum(values) / 3, rel=1e-3)
    share_r = core.rank_logits_r.detach().double().softmax(0)
    by_hand = torch.special.entr(share_r).sum().exp().item()
    assert found.effective["lambda"] == pytest.approx(by_hand, rel=1e-5)
