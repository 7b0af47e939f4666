"""Cost figures are exact: most of them are checked by hand here."""

import pytest
import torch
from torch import nn

from reconet.cost import PeakMemory, model_cost, module_cost, parameters
from reconet.cost_paper import Row, paper_cost, paper_rows
from reconet.errors import RecipeError
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec
from reconet.models.layers import Attention
from reconet.models.segmenter import create_model


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.method: row for row in paper_rows()}


def test_resnet_101_has_the_papers_flops_without_any_free_choice(rows: dict[str, Row]) -> None:
    row = rows["ResNet-101"]
    assert round(row.rule_g * 1e9) == 190_577_894_464
    assert f"{row.rule_g:.1f}" == f"{row.paper_g}"
    assert row.params_m == 42.623936
    assert row.rule_mib == pytest.approx(2603.28, abs=0.005)
    assert row.evidence == "exact"


def test_the_papers_rule_sees_only_the_generators_of_tgm_trm(rows: dict[str, Row]) -> None:
    row = rows["TGM+TRM"]
    assert round(row.rule_g * 1e9) == 64 * (512**2 + 64**2 + 64**2) == 17_301_504
    assert row.rule_mib == 0.3125
    assert row.evidence == "not reproduced"


def test_every_product_of_tgm_trm_counted_is_seven_times_the_papers_number(
    rows: dict[str, Row],
) -> None:
    row = rows["TGM+TRM"]
    assert round(row.uniform_g * 1e9) == 17_301_504 + 64 * 512 * 64 * 64 == 151_519_232
    assert row.uniform_g / row.paper_g > 7
    assert row.params_m == (17_301_504 + 64) / 1e6


def test_the_papers_tgm_trm_needs_an_assumed_batch_norm(rows: dict[str, Row]) -> None:
    row = rows["TGM+TRM, BN"]
    assert round(row.rule_g * 1e9) == 21_495_808
    assert f"{row.rule_g:.4f}" == "0.0215"
    assert f"{row.rule_mib:.2f}" == "8.31"
    assert "assumes one BatchNorm2d(512)" in row.note
    assert row.evidence == "assumed"


def test_the_reconet_head_has_the_papers_flops(rows: dict[str, Row]) -> None:
    row = rows["RecoNet"]
    assert round(row.rule_g * 1e9) == 41_906_078_720
    assert f"{row.rule_g:.1f}" == f"{row.paper_g}"


def test_the_papers_rule_counts_a_layer_at_its_last_call_only() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.relu(x)[:, :1])  # type: ignore[no-any-return]

    cost = paper_cost(Twice(), torch.empty(1, 3, 4, 5, device="meta"))
    assert (cost.flops, cost.memory_bytes) == (20, 80)


def test_parameters_of_the_head_are_those_of_its_layers() -> None:
    with torch.device("meta"):
        model = create_model("reconet", num_classes=21, backbone="resnet101")
    reduce, fuse = 2048 * 512 * 9 + 2 * 512, 1536 * 512 + 2 * 512
    expected = reduce + 17_301_568 + (512 * 512 + 512) + fuse + (512 * 21 + 21)
    assert parameters(model.context) + parameters(model.classify) == expected == 27_800_661


def test_model_cost_counts_every_convolution_once() -> None:
    model = create_model("fcn", backbone="resnet18", width=0.125, num_classes=3, crop=64)
    by_hand = 0
    hooks = []

    def on_call(layer: nn.Module, args: object, result: torch.Tensor) -> None:
        nonlocal by_hand
        assert isinstance(layer, nn.Conv2d)
        by_hand += result.numel() * layer.weight[0].numel()

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            hooks.append(layer.register_forward_hook(on_call))
    model.eval()(torch.rand(1, 3, 48, 80))
    for hook in hooks:
        hook.remove()
    cost = model_cost(model, (48, 80))
    assert cost.total.macs == by_hand
    in_use = parameters(model) - parameters(model.aux)  # type: ignore[arg-type]
    assert cost.total.params == in_use


def test_training_keeps_more_than_its_parts_the_loss_included() -> None:
    model = create_model("fcn", backbone="resnet18", width=0.125, num_classes=3, crop=64)
    cost = model_cost(model, (64, 64))
    parts = {part.name: part.saved_bytes for part in cost.parts}
    logits_bytes = 4 * 3 * 64 * 64
    assert cost.training_bytes >= sum(parts.values()) + 2 * logits_bytes
    assert cost.total.saved_bytes == sum(parts.values()) - parts["aux"]


def test_gradients_can_be_left_out_of_the_peak() -> None:
    weight = torch.zeros(1000, requires_grad=True)
    with PeakMemory() as memory:
        weight.exp().sum().backward()
    assert weight.grad is not None
    assert (
        memory.peak_bytes() >= 8000
    )  # the result, which the backward pass needs, and the gradient
    assert 4000 <= memory.peak_bytes(without=[weight.grad]) < 8000


def test_too_small_an_input_is_refused() -> None:
    model = create_model("fcn", backbone="resnet18", width=0.125, num_classes=3, crop=64)
    with pytest.raises(RecipeError, match="at least 33 x 33"):
        model_cost(model, (8, 64))


def test_cost_leaves_the_model_as_it_was() -> None:
    model = create_model("plain", backbone="resnet18", width=0.125, num_classes=3, crop=64).eval()
    model_cost(model, (64, 64))
    assert not model.training
    assert next(model.parameters()).device.type == "cpu"


def test_saved_bytes_are_what_the_backward_pass_needs() -> None:
    # Two multiplications by a constant save nothing, a square saves its input once.
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            return y * y * 3

    x = torch.empty(10, 10, device="meta", requires_grad=True)
    assert module_cost(Square(), x).saved_bytes == 400


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_fused_attention_counts_its_two_products(device: str) -> None:
    query, key, value = (torch.empty(1, n, 8, device=device) for n in (30, 20, 20))
    assert module_cost(Attention(), query, key, value).macs == 2 * 30 * 20 * 8


def test_peak_memory_is_the_most_alive_at_once() -> None:
    x = torch.zeros(1000)
    with PeakMemory() as memory:
        y = x + 1  # 4000 bytes
        y = y + 1  # two alive
        z = torch.cat([y, y])  # y and 8000
        del y
        z = z[:10] + 1  # a view of z, and 40
    assert memory.peak_bytes() == 12_000
    assert z.shape == (10,)


def test_no_intermediate_of_the_core_is_larger_than_a_few_maps() -> None:
    core = TensorReconstruction(FeatureSpec(channels=512, height=64, width=64), rank=64).to("meta")
    x_bchw = torch.empty(1, 512, 64, 64, device="meta")
    with torch.no_grad(), PeakMemory() as memory:
        core(x_bchw)
    assert memory.peak_bytes() < 3 * 4 * x_bchw.numel()
