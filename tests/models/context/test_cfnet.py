"""CFNet's attention, against slow versions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models.context.cfnet import HEADS, CFNet, CoOccurrence
from tests.models.context.helpers import features, stages

STAGES = stages(64, (3, 4))

SIZE = (5, 7)  # odd: the pooled map is 3 x 4, not a quarter


def acf(mixtures: int = 1) -> CoOccurrence:
    module = CoOccurrence(16, mixtures=mixtures).eval()
    torch.nn.init.normal_(module.query_key.weight)  # attention far from uniform
    return module


def pooled(x_bchw: Tensor) -> Tensor:
    """Mean over those of the 3 x 3 cells around every second position that are inside."""
    return torch.stack(
        [
            x_bchw[:, :, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].mean(dim=(2, 3))
            for y in range(0, SIZE[0], 2)
            for x in range(0, SIZE[1], 2)
        ],
        dim=2,
    )


def slow_context(module: CoOccurrence, x_bchw: Tensor) -> Tensor:
    """Compute the attention head by head, with every attention map written down."""
    pooled_bcm1 = pooled(x_bchw).unsqueeze(3)
    query = module.query_key(x_bchw).flatten(2).chunk(HEADS, dim=1)
    key = module.query_key(pooled_bcm1).flatten(2).chunk(HEADS, dim=1)
    value = module.value(pooled_bcm1).flatten(2).chunk(HEADS, dim=1)
    heads = [
        value[a] @ slow_weights(module, query[a], key[a]).transpose(1, 2) for a in range(HEADS)
    ]
    context_bchw: Tensor = torch.cat(heads, dim=1).unflatten(2, SIZE)
    return context_bchw


def slow_weights(module: CoOccurrence, query_bdn: Tensor, key_bdm: Tensor) -> Tensor:
    """Compute the attention map of one head, mixture by mixture."""
    share_b = torch.ones(2, 1)
    if module.mixtures > 1:
        share_b = (query_bdn.mean(2) @ module.mixture_md.T).softmax(dim=1)
    total_bnm = torch.zeros(2, query_bdn.shape[2], key_bdm.shape[2])
    for index in range(module.mixtures):
        query, key = (x.chunk(module.mixtures, dim=1)[index] for x in (query_bdn, key_bdm))
        weight_bnm = (query.transpose(1, 2) @ key / query_bdn.shape[1] ** 0.5).softmax(dim=2)
        total_bnm += share_b[:, index, None, None] * weight_bnm
    torch.testing.assert_close(total_bnm.sum(2), torch.ones(2, query_bdn.shape[2]))
    return total_bnm


def test_the_attention_equals_a_loop_over_heads() -> None:
    module, x_bchw = acf(), torch.randn(2, 16, *SIZE)
    expected = x_bchw + module.restore(slow_context(module, x_bchw))
    torch.testing.assert_close(module(x_bchw), expected)


def test_mixtures_are_weighted_sums_of_attention_maps() -> None:
    module, x_bchw = acf(mixtures=3), torch.randn(2, 16, *SIZE)
    expected = x_bchw + module.restore(slow_context(module, x_bchw))
    torch.testing.assert_close(module(x_bchw), expected)
    weight_bam = module.mixture_weights(module.query_key(x_bchw))
    torch.testing.assert_close(weight_bam.sum(2), torch.ones(2, HEADS))


def test_queries_and_keys_come_from_one_convolution() -> None:
    module = acf()
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {
        "query_key",
        "value",
        "restore",
    }


def test_dropout_acts_on_the_attention_in_training_only() -> None:
    module, x_bchw = CoOccurrence(16, dropout=0.5), torch.randn(2, 16, *SIZE)
    norm = module.restore[1]
    assert isinstance(norm, torch.nn.BatchNorm2d)
    norm.eval()
    assert not torch.equal(module(x_bchw), module(x_bchw))
    module.eval()
    assert torch.equal(module(x_bchw), module(x_bchw))
    assert CFNet(STAGES, num_classes=3, attention_dropout=0.3).core.dropout == 0.3


def test_the_loss_on_present_classes_is_off_unless_asked_for() -> None:
    label_bhw = torch.randint(0, 3, (2, 12, 16))
    plain = CFNet(STAGES, num_classes=3)
    output = plain(features(STAGES))
    assert output.extra == {}
    assert plain.loss(output.extra, label_bhw) == 0
    context = CFNet(STAGES, num_classes=3, se_weight=0.5, lateral=True, mixtures=2)
    extra = context(features(STAGES)).extra
    present = [set(label_hw.flatten().tolist()) for label_hw in label_bhw]
    present_bk = torch.tensor([[float(k in classes) for k in range(3)] for classes in present])
    expected = 0.5 * F.binary_cross_entropy_with_logits(extra["presence_bk"], present_bk)
    torch.testing.assert_close(context.loss(extra, label_bhw), expected)
    assert context.eval()(features(STAGES)).extra == {}


def test_without_the_encoding_it_is_the_two_maps_side_by_side() -> None:
    context, maps = CFNet(STAGES, num_classes=3, enc=False).eval(), features(STAGES)
    x_bchw = context.reduce(maps.c4)
    expected = torch.cat([context.pool(x_bchw), context.core(x_bchw)], dim=1)
    assert torch.equal(context(maps).map_bdhw, expected)
