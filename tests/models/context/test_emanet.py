"""EMANet's bases: how they are fitted, and how they move over training."""

from pathlib import Path

import torch
from torch import Tensor

from reconet.models.context.emanet import EMANet, ExpectationMaximisation
from tests.launch import in_two_processes
from tests.models.context.helpers import features, stages

STAGES = stages(64, (3, 4))

SIZE = (5, 7)
SHARES = (3, 1)  # images of each process: not the same number


def emau(**options: int) -> ExpectationMaximisation:
    torch.manual_seed(1)
    return ExpectationMaximisation(16, **{"bases": 4, **options})


def batch() -> Tensor:
    return torch.randn(4, 16, *SIZE, generator=torch.Generator().manual_seed(0))


def slow_fit(module: ExpectationMaximisation, x_chw: Tensor) -> tuple[Tensor, Tensor]:
    """Run EM for one image, position by position and basis by basis."""
    feature_cn = module.project(x_chw.unsqueeze(0))[0].flatten(1)
    bases_ck = module.bases_ck
    for _ in range(module.iterations):
        share_nk = torch.stack([(bases_ck.T @ x_c).softmax(0) for x_c in feature_cn.T])
        columns = []
        for k in range(bases_ck.shape[1]):
            mean_c = sum(share_nk[n, k] * feature_cn[:, n] for n in range(len(share_nk)))
            mean_c = mean_c / (1e-6 + share_nk[:, k].sum())
            columns.append(mean_c / (1e-6 + mean_c.norm()))
        bases_ck = torch.stack(columns, dim=1)
    return bases_ck, share_nk


def test_the_fit_and_the_output_equal_em_done_by_hand() -> None:
    module, x_bchw = emau().eval(), batch()
    for b in range(2):
        bases_ck, share_nk = slow_fit(module, x_bchw[b])
        rebuilt_chw = (bases_ck @ share_nk.T).relu().view(16, *SIZE)
        expected = (x_bchw[b] + module.restore(rebuilt_chw.unsqueeze(0))[0]).relu()
        torch.testing.assert_close(module(x_bchw[b : b + 1])[0], expected)


def test_fitted_bases_have_length_one_and_rebuild_a_map_of_their_rank() -> None:
    module = emau().double()
    bases_bck, share_bnk = module.fit(10 * batch().double().flatten(2))
    torch.testing.assert_close(bases_bck.norm(dim=1), torch.ones(4, 4).double(), atol=5e-6, rtol=0)
    torch.testing.assert_close(share_bnk.sum(2), torch.ones(4, 35).double())
    rebuilt_bcn = bases_bck @ share_bnk.transpose(1, 2)
    assert (torch.linalg.matrix_rank(rebuilt_bcn) <= 4).all()


def test_one_step_moves_the_bases_a_tenth_of_the_way_to_the_mean_of_the_batch() -> None:
    module, x_bchw = emau(), batch()
    old = module.bases_ck.clone()
    mean_ck = torch.stack([slow_fit(module, x_chw)[0] for x_chw in x_bchw]).mean(0)
    module(x_bchw)
    assert torch.equal(module.bases_ck, old)  # not in the forward pass
    module.update()
    torch.testing.assert_close(module.bases_ck, 0.9 * old + 0.1 * mean_ck)


def test_parts_of_a_batch_move_the_bases_once_and_like_the_whole() -> None:
    whole, parts = emau(), emau()
    whole(batch())
    for part_bchw in batch().split(SHARES):
        parts(part_bchw)
    for module in (whole, parts):
        module.update()
    torch.testing.assert_close(parts.bases_ck, whole.bases_ck)
    before = parts.bases_ck.clone()
    parts.update()  # nothing seen since
    assert torch.equal(parts.bases_ck, before)


def test_bases_stay_as_they_are_in_use() -> None:
    module = emau().eval()
    before = module.bases_ck.clone()
    module(batch())
    module.update()
    assert torch.equal(module.bases_ck, before)


def test_running_bases_never_grow_longer_than_one() -> None:
    module = emau()
    for _ in range(30):
        module(torch.randn(2, 16, *SIZE))
        module.update()
    assert (module.bases_ck.norm(dim=0) <= 1 + 1e-6).all()


def test_the_state_dict_is_all_there_is_between_steps() -> None:
    module, twin = emau(), emau()
    module(batch())
    module.update()
    assert "bases_ck" in module.state_dict()
    twin.load_state_dict(module.state_dict())
    for one in (module, twin):
        one(batch().flip(0))
        one.update()
    assert torch.equal(twin.bases_ck, module.bases_ck)


def test_the_first_convolution_is_frozen_and_gets_no_gradient() -> None:
    context = EMANet(STAGES, num_classes=3)
    context(features(STAGES)).map_bdhw.square().sum().backward()
    assert all(not p.requires_grad and p.grad is None for p in context.core.project.parameters())
    assert all(p.grad is not None for p in context.parameters() if p.requires_grad)


def test_em_runs_in_full_precision_under_autocast() -> None:
    module = emau().eval()
    feature_bcn = module.project(batch()).flatten(2)
    exact, _ = module.fit(feature_bcn)
    with torch.autocast("cpu", torch.bfloat16):
        module.train()(batch())
    rough_ck = module.seen_ck / module.seen_images
    assert rough_ck.dtype == torch.float32
    torch.testing.assert_close(rough_ck, exact.mean(0), atol=0.02, rtol=0)


def work(rank: int) -> Tensor:
    module = emau()
    module(batch().split(SHARES)[rank])
    module.update()
    return module.bases_ck


def test_two_processes_agree_with_one_on_the_whole_batch(tmp_path: Path) -> None:
    first, second = in_two_processes(work, tmp_path)
    assert torch.equal(first, second)
    alone = emau()
    alone(batch())
    alone.update()
    torch.testing.assert_close(first, alone.bases_ck)
