"""Contexts that gather descriptors of the image, against slow versions."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.context.acfnet import class_centres, class_features
from reconet.models.context.emanet import ExpectationMaximisation
from reconet.models.context.encnet import (
    EncNet,
    classes_present,
    presence_loss,
)
from reconet.models.context.latentgnn import LatentGNNBlock, LatentGraph, adjacency, unit
from reconet.models.context.psanet import PointAttention
from tests.launch import in_two_processes
from tests.models.helpers import SIZE, features, part, stages, stir

SMALL = (3, 4)
STAGES = stages(64, SMALL)


def test_class_features_equal_a_loop_over_classes_and_pixels() -> None:
    feature_bchw, p_bkhw = torch.randn(2, 5, *SMALL), torch.randn(2, 3, *SMALL).softmax(1)
    expected = torch.zeros_like(feature_bchw)
    pixels = [(y, x) for y in range(SMALL[0]) for x in range(SMALL[1])]
    for b in range(2):
        for k in range(3):
            total = sum(p_bkhw[b, k, y, x] * feature_bchw[b, :, y, x] for y, x in pixels)
            centre_c = total / sum(p_bkhw[b, k, y, x] for y, x in pixels)
            for y, x in pixels:
                expected[b, :, y, x] += p_bkhw[b, k, y, x] * centre_c
    torch.testing.assert_close(class_features(feature_bchw, p_bkhw), expected)


def test_hard_predictions_give_each_pixel_the_mean_of_its_class_and_an_absent_class_no_nan() -> (
    None
):
    feature_bchw = torch.randn(1, 5, *SMALL)
    class_hw = torch.randint(0, 2, SMALL)  # of 3 classes: the last has no pixel
    one_hot_bkhw = torch.nn.functional.one_hot(class_hw, 3).permute(2, 0, 1)[None].float()
    result = class_features(feature_bchw, one_hot_bkhw)
    for k in range(2):
        mean_c = feature_bchw[0, :, class_hw == k].mean(1)
        torch.testing.assert_close(
            result[0, :, class_hw == k], mean_c[:, None].expand(-1, int((class_hw == k).sum()))
        )
    centre_bck = class_centres(feature_bchw.flatten(2), one_hot_bkhw.flatten(2))
    assert not centre_bck[0, :, 2].any()


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


def test_presence_equals_a_set_of_labels() -> None:
    label_bhw = torch.randint(-1, 6, (4, 3, 5))
    label_bhw[0] = 255  # a crop of void
    label_bhw[1, 0, :2] = 255
    present_bk = classes_present(label_bhw, 5)
    for label_hw, present_k in zip(label_bhw, present_bk, strict=True):
        seen = set(label_hw.flatten().tolist())
        assert present_k.tolist() == [float(k in seen) for k in range(5)]


def test_the_loss_is_a_mean_over_images_with_its_weight() -> None:
    net = EncNet(stages(), num_classes=5)
    logits_bk, label_bhw = torch.randn(3, 5), torch.randint(0, 5, (3, 4, 2))
    by_hand = 0.0
    for logits_k, label_hw in zip(logits_bk, label_bhw, strict=True):
        for k in range(5):
            there = bool((label_hw == k).any())
            probability = logits_k[k].sigmoid()
            by_hand -= (probability if there else 1 - probability).log().item()
    loss = net.loss({"presence_bk": logits_bk}, label_bhw)
    assert loss.item() == pytest.approx(0.2 * by_hand / 15, rel=1e-5)
    parts = [presence_loss(logits_bk[i : i + 1], label_bhw[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(loss, 0.2 * torch.stack(parts).mean())


def test_lateral_joins_c2_and_c3_at_any_output_stride() -> None:
    of = stages()
    net = EncNet(of, num_classes=3, lateral=True)
    stir(net)
    x = features(of)
    lateral = net.lateral
    assert lateral is not None
    reduced_bchw = net.reduce(x.c4)
    joined = lateral.join(torch.cat([lateral.c2(x.c2), lateral.c3(x.c3), reduced_bchw], 1))
    torch.testing.assert_close(net(x).map_bdhw, net.core(joined))
    larger = x._replace(c2=F.interpolate(x.c2, scale_factor=2))
    assert net(larger).map_bdhw.shape == (2, 8, *SIZE)


def unit_maps() -> tuple[Tensor, Tensor]:
    return unit(torch.randn(2, 8, *SIZE), dim=1), unit(torch.randn(2, 8, *SIZE), dim=1)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_graph_is_an_affinity_of_low_rank_between_positions(symmetric: bool) -> None:
    graph = LatentGraph(8, 3, symmetric=symmetric).eval().double()
    sender_bchw, receiver_bchw = (x.double() for x in unit_maps())
    send_bdn, receive_bdn = graph.weights(sender_bchw, receiver_bchw)
    for b in range(2):
        feature_cn = sender_bchw[b].flatten(1)
        latent_dc = send_bdn[b] @ feature_cn.T
        adjacency_dd = adjacency(latent_dc.unsqueeze(0))[0]
        affinity_nn = receive_bdn[b].T @ adjacency_dd @ send_bdn[b]
        assert torch.linalg.matrix_rank(affinity_nn, rtol=1e-6) <= 3
        expected_cn = (affinity_nn @ feature_cn.T).T
        result_cn = graph(sender_bchw, receiver_bchw)[b].flatten(1)
        torch.testing.assert_close(result_cn, expected_cn)


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_block_begins_as_the_identity_and_sums_over_its_kernels(symmetric: bool) -> None:
    block = LatentGNNBlock(16, nodes=3, kernels=2, symmetric=symmetric).eval()
    x_bchw = torch.randn(2, 16, *SIZE)
    assert torch.equal(block(x_bchw), x_bchw)
    torch.nn.init.ones_(block.gamma)
    sender = unit(block.down(x_bchw), dim=1)
    receiver = sender if block.down_receive is None else unit(block.down_receive(x_bchw), dim=1)
    visible = torch.cat([kernel(sender, receiver) for kernel in block.kernels], dim=1)
    torch.testing.assert_close(block(x_bchw), x_bchw + block.up(visible))


def slow_by_position(energy_bohw: Tensor, mask: tuple[int, int]) -> Tensor:
    """Mask index (i, j) at position (p, q) belongs to the partner (p + i - half, q + j - half)."""
    batch, _, height, width = energy_bohw.shape
    (mask_h, mask_w), half = mask, [(side - 1) // 2 for side in mask]
    result = torch.zeros(batch, height * width, height * width)
    for p in range(height):
        for q in range(width):
            for i in range(mask_h):
                for j in range(mask_w):
                    s, t = p + i - half[0], q + j - half[1]
                    if 0 <= s < height and 0 <= t < width:
                        value_b = energy_bohw[:, i * mask_w + j, p, q]
                        result[:, s * width + t, p * width + q] = value_b
    return result


@pytest.mark.parametrize("collect", [True, False])
def test_a_branch_collects_or_distributes_pixel_by_pixel(collect: bool) -> None:
    branch = PointAttention(8, 4, (7, 9), collect=collect)
    stir(branch)
    nn.init.normal_(part(branch, "predict.1").weight)
    c4_bchw = torch.randn(2, 8, 8, 10)
    x_bchw = nn.functional.avg_pool2d(branch.reduce(c4_bchw), 2)  # bilinear by 2 is that
    energy_bsp = slow_by_position(branch.predict(x_bchw), (7, 9))
    if not collect:
        energy_bsp = energy_bsp.mT
    by_hand = torch.zeros(2, 4, 20)
    for b in range(2):
        for target in range(20):
            weight_s = energy_bsp[b, :, target].exp()
            weight_s = weight_s / weight_s.sum()
            for source in range(20):
                by_hand[b, :, target] += weight_s[source] * x_bchw[b].flatten(1)[:, source]
    torch.testing.assert_close(branch(c4_bchw), by_hand.view(2, 4, 4, 5), atol=1e-5, rtol=1e-4)
