"""The paper's cost tables: exact digits, each with the assumption that it needs."""

from pathlib import Path

import pytest
import torch
from torch import nn

from reconet.cost.paper import HeadCost, PaperRow, head_costs, paper_claims, paper_rows
from reconet.cost.paper.rule import paper_cost
from reconet.models.attention import Attention, Product


@pytest.fixture(scope="module")
def rows() -> dict[str, PaperRow]:
    return {row.method: row for row in paper_rows()}


@pytest.fixture(scope="module")
def heads() -> list[HeadCost]:
    return head_costs()


def flops(row: PaperRow) -> int:
    return round(row.rule_g * 1e9)


def prints_what_the_paper_does(row: PaperRow) -> bool:
    digits = len(str(row.paper_g).partition(".")[2])
    same = f"{row.rule_g:.{digits}f}" == f"{row.paper_g:.{digits}f}"
    return same and (row.paper_mib is None or abs(row.rule_mib - row.paper_mib) <= 0.0051)


def test_every_row_of_both_tables_is_there(rows: dict[str, PaperRow]) -> None:
    methods = {"module": [], "network": []}  # type: dict[str, list[str]]
    for row in rows.values():
        name = row.method.split(",")[0]
        if name not in methods[row.table]:
            methods[row.table].append(name)
    modules = "Non-Local APCNet RCCA A2Net AFNB LatentGNN EMAUnit TGM+TRM"
    networks = "ResNet-101 DeepLabV3+ PSPNet DANet PSANet CCNet EMANet RecoNet"
    assert methods == {"module": modules.split(), "network": networks.split()}


def test_a_row_says_that_it_is_reproduced_if_it_prints_the_papers_digits(
    rows: dict[str, PaperRow],
) -> None:
    for row in rows.values():
        assert prints_what_the_paper_does(row) == (row.evidence != "not reproduced"), row.method
        assert ("assumes" in row.note) == (row.evidence == "assumed"), row.method


def test_rows_that_only_a_search_could_fit_say_so(rows: dict[str, PaperRow]) -> None:
    for row in rows.values():
        searched = row.method.startswith(("APCNet", "A2Net", "LatentGNN"))
        assert ("a fit exists, not an identification" in row.note) == searched


def test_exact_rows_are_those_of_the_formulas(rows: dict[str, PaperRow]) -> None:
    convolutions = 4 * 512 * 256 * 4096 + (3 * 256 + 512) * 4096
    products, pools = 2 * 2 * 4096 * 110 * 256, 2 * 4 * 256 * 4096
    assert flops(rows["Non-Local"]) == convolutions + 2 * 2 * 256 * 4096**2
    assert flops(rows["AFNB, attention only"]) == convolutions + products + pools
    assert flops(rows["TGM+TRM"]) == 64 * (512**2 + 64**2 + 64**2)  # the generators alone
    core = 17_301_504 + 64 * 512 * 64 * 64
    assert round(rows["TGM+TRM"].uniform_g * 1e9) == core  # seven times the paper's number
    assert rows["TGM+TRM"].params_m == (17_301_504 + 64) / 1e6
    assert "assumes one BatchNorm2d(512)" in rows["TGM+TRM, BN"].note


@pytest.mark.parametrize(
    ("method", "by_the_rule"),
    [
        ("Non-Local", 19_332_595_712),
        ("APCNet", 13_289_415_680),
        ("RCCA", 1_948_778_496),
        ("A2Net, 128", 1_345_847_296),
        ("A2Net, 256", 3_226_468_352),
        ("A2Net, 512", 8_598_323_200),
        ("LatentGNN", 810_606_592),
        ("LatentGNN, full width", 3_226_157_056),
        ("EMAUnit", 2_422_210_560),
        ("TGM+TRM, BN", 21_495_808),
        ("ResNet-101", 190_577_894_464),
        ("DeepLabV3+", 85_217_604_261),
        ("DeepLabV3+, one 3x3", 75_389_562_789),
        ("PSPNet, pooling", 77_454_277_632),
        ("DANet", 117_334_081_536),
        ("PSANet", 96_245_890_709),
        ("PSANet, summed", 56_298_767_360),
        ("CCNet", 98_648_543_232),
        ("EMANet", 47_387_147_925),
        ("EMANet, no last 3x3", 43_101_760_000),
        ("RecoNet", 41_906_078_720),
    ],
)
def test_each_row_has_its_flops_by_the_papers_rule(
    rows: dict[str, PaperRow], method: str, by_the_rule: int
) -> None:
    assert flops(rows[method]) == by_the_rule


def test_heads_by_one_rule_have_their_published_cost(heads: list[HeadCost]) -> None:
    assert {h.name: (h.macs, h.params) for h in heads} == {
        "EMANet, no last 3x3": (41_785_753_600, 9_974_805),
        "RecoNet": (42_071_752_704, 27_800_661),
        "EMANet": (46_595_571_712, 11_149_589),
        "DeepLabV3": (61_494_263_808, 15_540_501),
        "PSPNet": (77_405_880_320, 23_084_565),
        "DeepLabV3+": (82_900_942_848, 16_844_149),
        "PSANet": (93_863_280_640, 27_677_205),
        "CCNet": (99_969_138_688, 23_935_126),
        # In use: without the two classifiers of its branches, which cost 2 * 21 * 512 * 64 * 64.
        "DANet": (109_922_222_080 - 2 * 21 * 512 * 64 * 64, 23_957_697),
    }


def test_which_claims_of_the_paper_hold(rows: dict[str, PaperRow], heads: list[HeadCost]) -> None:
    claims = paper_claims(list(rows.values()), heads)
    assert [claim.holds for claim in claims] == [False, False, False, False, True]
    counted = " ".join(claim.counted for claim in claims)
    for figure in ("71 times", "4.6 to 86.5", "0.1515 G", "0.1342 G", "42.072 G", "41.786 G"):
        assert figure in counted


def test_the_page_on_costs_has_the_figures_that_are_printed(rows: dict[str, PaperRow]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
    for row in rows.values():
        figures = f"{row.uniform_g:.4f} | {row.params_m:.2f} | {row.evidence}"
        memory = "" if row.paper_mib is None else f" / {row.rule_mib:.2f}"
        line = f"{row.rule_g:.4f}{memory} | {figures}"
        assert line in text.replace("| the same |", "| not reproduced |"), row.method


def test_heads_at_513_by_one_rule(heads: list[HeadCost]) -> None:
    at_513 = {head.name: head.macs for head in head_costs(513)}
    assert at_513["EMANet, no last 3x3"] == 43_101_760_000
    assert at_513["RecoNet"] == 43_396_229_760
    assert list(at_513)[:2] == [head.name for head in heads][:2]


def test_the_papers_rule_counts_a_layer_at_its_last_call_only() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.relu(x)[:, :1])  # type: ignore[no-any-return]

    cost = paper_cost(Twice(), torch.empty(1, 3, 4, 5, device="meta"))
    assert (cost.flops, cost.memory_bytes) == (20, 80)


def test_a_product_layer_counts_two_for_each_multiply_add() -> None:
    left, right = torch.empty(1, 3, 5, device="meta"), torch.empty(1, 5, 7, device="meta")
    cost = paper_cost(Product(), left, right)
    assert (cost.flops, cost.memory_bytes) == (2 * 3 * 5 * 7, 4 * 3 * 7)


def test_an_attention_layer_is_two_products_and_the_map_between_them() -> None:
    query, key, value = (torch.empty(1, n, d, device="meta") for n, d in [(6, 4), (5, 4), (5, 3)])
    cost = paper_cost(Attention(), query, key, value)
    assert (cost.flops, cost.memory_bytes) == (2 * 6 * 5 * (4 + 3), 4 * 6 * (5 + 3))


def test_functions_count_only_if_asked_for() -> None:
    class Functions(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled = nn.functional.adaptive_avg_pool2d(x, 2)
            return nn.functional.interpolate(pooled @ pooled, size=(4, 4))

    x = torch.empty(1, 3, 6, 8, device="meta")
    assert paper_cost(Functions(), x).flops == 0
    assert paper_cost(Functions(), x, as_layers=["pooling"]).flops == 3 * 6 * 8
    assert paper_cost(Functions(), x, as_layers=["product"]).flops == 2 * 3 * 2 * 2 * 2
    assert paper_cost(Functions(), x, as_layers=["resizing"]).flops == 3 * 4 * 4
