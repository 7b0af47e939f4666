"""EncNet's encoding, gate and loss against slow and obvious versions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.context.encnet import (
    EncModule,
    EncNet,
    Encoding,
    classes_present,
    presence_loss,
)
from tests.models.context.helpers import SIZE, features, shuffled, stages, stir


def slow_encoding(encoding: Encoding, x_bcn: Tensor) -> Tensor:
    """Encode with a tensor of all differences: b n j c."""
    difference_bnjc = x_bcn.transpose(1, 2)[:, :, None] - encoding.code_jc
    energy_bnj = encoding.scale_j * difference_bnjc.square().sum(3)
    return (energy_bnj.softmax(2)[..., None] * difference_bnjc).sum(1)


def test_the_encoding_equals_the_sum_over_all_differences() -> None:
    encoding, x_bcn = Encoding(6, 4), torch.randn(2, 6, 35)
    nn.init.normal_(encoding.code_jc)
    torch.testing.assert_close(
        encoding(x_bcn), slow_encoding(encoding, x_bcn), atol=1e-4, rtol=1e-4
    )


def test_under_autocast_the_encoding_keeps_its_digits() -> None:
    encoding, x_bcn = Encoding(6, 4), 5 + torch.randn(2, 6, 35)
    exact = encoding(x_bcn)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(encoding(x_bcn), exact)


def test_one_codeword_gets_every_difference() -> None:
    encoding, x_bcn = Encoding(6, 1), torch.randn(2, 6, 35)
    by_hand = (x_bcn - encoding.code_jc[0][:, None]).sum(2)
    torch.testing.assert_close(encoding(x_bcn)[:, 0], by_hand, atol=1e-4, rtol=1e-4)


def test_scales_start_negative_so_that_near_is_much() -> None:
    encoding = Encoding(6, 100)
    assert encoding.scale_j.max() <= 0
    assert encoding.scale_j.min() >= -1
    assert encoding.code_jc.abs().max() <= 600**-0.5


def test_the_gate_is_the_same_at_every_position_and_adds_up_to_the_map_once_more() -> None:
    module, x_bchw = EncModule(6, 3, codes=4), torch.rand(2, 6, *SIZE) + 0.1
    stir(module)
    ratio_bchw = module(x_bchw) / x_bchw
    torch.testing.assert_close(ratio_bchw, ratio_bchw[..., :1, :1].expand_as(ratio_bchw))
    assert ((ratio_bchw > 1) & (ratio_bchw < 2)).all()
    torch.testing.assert_close(module(shuffled(x_bchw)), shuffled(module(x_bchw)))


def test_the_module_follows_its_layers() -> None:
    module, x_bchw = EncModule(6, 3, codes=4), torch.randn(2, 6, *SIZE)
    stir(module)
    norm = nn.BatchNorm1d(4).eval()  # the published one: over the codewords of b x j x c
    norm.load_state_dict(module.norm.state_dict())
    code_bjc = slow_encoding(module.encoding, module.project(x_bchw).flatten(2))
    code_bc = norm(code_bjc).relu().mean(1)
    gate_bc = module.gate(code_bc).sigmoid()
    extra: dict[str, Tensor] = {}
    y_bchw = module(x_bchw, extra)
    by_hand = (x_bchw + x_bchw * gate_bc[:, :, None, None]).relu()
    torch.testing.assert_close(y_bchw, by_hand, atol=1e-4, rtol=1e-4)
    assert module.presence is not None
    torch.testing.assert_close(extra["presence_bk"], module.presence(code_bc), atol=1e-4, rtol=1e-4)


def test_without_classes_there_is_no_layer_for_them() -> None:
    module, extra = EncModule(6, None), dict[str, Tensor]()
    module(torch.randn(2, 6, *SIZE), extra)
    assert extra == {}
    assert module.presence is None


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
