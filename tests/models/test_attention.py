"""What several attention modules share, against slow and obvious versions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models.attention import attend
from reconet.models.layers import PooledBN, full_precision
from reconet.models.losses import side_loss


def slow_attention(query_dn: Tensor, key_dm: Tensor, value_cm: Tensor, scale: float) -> Tensor:
    """Compute attention position by position, with one head."""
    columns = []
    for query_d in query_dn.T:
        weight_m = (scale * (key_dm.T @ query_d)).exp()
        columns.append(value_cm @ (weight_m / weight_m.sum()))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("scale", [None, 1.0])
def test_attend_equals_a_loop_over_positions_and_heads(heads: int, scale: float | None) -> None:
    query_bdhw, key_bdm, value_bcm = (
        torch.randn(2, 4, 3, 5),
        torch.randn(2, 4, 6),
        torch.randn(2, 8, 6),
    )
    slow_scale = (4 / heads) ** -0.5 if scale is None else scale
    result_bchw = attend(query_bdhw, key_bdm, value_bcm, heads=heads, scale=scale)
    for b in range(2):
        for head, part_chw in enumerate(result_bchw[b].chunk(heads)):
            expected_cn = slow_attention(
                query_bdhw[b].flatten(1).chunk(heads)[head],
                key_bdm[b].chunk(heads)[head],
                value_bcm[b].chunk(heads)[head],
                slow_scale,
            )
            torch.testing.assert_close(part_chw, expected_cn.view_as(part_chw))


def test_products_keep_full_precision_under_autocast() -> None:
    x = torch.rand(4, 1000)
    with torch.autocast("cpu", torch.bfloat16), full_precision(x):
        assert (x @ x.T).dtype == torch.float32
    with full_precision(torch.empty(1, device="meta")):
        pass


def test_side_loss_is_the_mean_over_images_of_the_mean_over_their_labelled_pixels() -> None:
    logits_bkhw, label_bhw = torch.randn(3, 3, 2, 3), torch.randint(0, 3, (3, 4, 6))
    label_bhw[0, :, :4] = 255
    label_bhw[2] = 255
    full_bkhw = F.interpolate(logits_bkhw, (4, 6), mode="bilinear", align_corners=False)
    means = []
    for full_khw, label_hw in zip(full_bkhw[:2], label_bhw[:2], strict=True):
        places = (label_hw != 255).nonzero().tolist()
        terms = [-full_khw[:, y, x].log_softmax(0)[label_hw[y, x]] for y, x in places]
        means.append(torch.stack(terms).mean())
    torch.testing.assert_close(side_loss(logits_bkhw, label_bhw), sum(means) / torch.tensor(3))


def test_a_batch_of_void_has_no_side_loss_but_a_gradient_of_zero() -> None:
    logits_bkhw = torch.randn(2, 3, 2, 3, requires_grad=True)
    loss = side_loss(logits_bkhw, torch.full((2, 4, 6), 255))
    loss.backward()
    assert loss == 0
    assert logits_bkhw.grad is not None  # other processes wait for it
    assert not logits_bkhw.grad.any()


def test_pooled_norm_uses_its_running_statistics_for_a_single_value() -> None:
    norm = PooledBN(4)
    norm(torch.randn(8, 4, 1, 1))
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    x_bchw = torch.randn(1, 4, 1, 1)
    assert torch.equal(norm(x_bchw), norm.eval()(x_bchw))
    assert all(torch.equal(value, before[key]) for key, value in norm.state_dict().items())
