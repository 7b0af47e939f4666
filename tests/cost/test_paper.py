"""The paper's cost tables: exact digits, each with the assumption that it needs."""

from pathlib import Path

import pytest

from reconet.cost.paper import HeadCost, PaperRow, head_costs, paper_claims, paper_rows


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
