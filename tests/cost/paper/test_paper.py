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
    assert methods == {
        "module": [
            "Non-Local",
            "APCNet",
            "RCCA",
            "A2Net",
            "AFNB",
            "LatentGNN",
            "EMAUnit",
            "TGM+TRM",
        ],
        "network": [
            "ResNet-101",
            "DeepLabV3+",
            "PSPNet",
            "DANet",
            "PSANet",
            "CCNet",
            "EMANet",
            "RecoNet",
        ],
    }


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


def test_the_non_local_block_has_the_papers_flops_and_memory_without_any_free_choice(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["Non-Local"]
    convolutions = 4 * 512 * 256 * 4096 + (3 * 256 + 512) * 4096
    assert flops(row) == convolutions + 2 * 2 * 256 * 4096**2 == 19_332_595_712
    assert row.rule_mib == 88.00
    assert row.evidence == "exact"


def test_emau_has_the_papers_flops_and_memory_without_any_free_choice(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["EMAUnit"]
    assert flops(row) == 2_422_210_560
    assert row.rule_mib == 24.125
    assert row.evidence == "exact"


def test_afnb_has_the_papers_flops_if_only_its_attention_is_counted(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["AFNB, attention only"]
    layers = 4 * 512 * 256 * 4096 + (3 * 256 + 512) * 4096
    products, pools = 2 * 2 * 4096 * 110 * 256, 2 * 4 * 256 * 4096
    assert flops(row) == layers + products + pools == 2_622_488_576
    assert row.rule_mib == 25.93359375
    assert round(row.uniform_g * 1e9) == 2_378_170_368
    assert row.params_m == 0.525568


def test_pspnet_has_the_papers_flops_at_512_if_pooling_and_resizing_count(
    rows: dict[str, PaperRow],
) -> None:
    assert flops(rows["PSPNet, pooling"]) == 77_454_277_632


def test_danet_has_the_papers_flops_at_512_if_products_of_channels_do_not_count(
    rows: dict[str, PaperRow],
) -> None:
    assert flops(rows["DANet"]) == 117_334_081_536


def test_psanet_has_the_papers_flops_at_513_if_it_adds_and_only_convolutions_count(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["PSANet, summed"]
    assert flops(row) == 56_298_767_360
    classifier = 21 * 512 * 65 * 65
    assert round(row.uniform_g * 1e9) + classifier == 57_558_577_664
    assert round(row.params_m * 1e6) + 21 * 513 == 18_502_165


def test_emanet_has_the_papers_flops_at_513_without_its_last_3x3_by_the_uniform_count(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["EMANet, no last 3x3"]
    assert flops(row) == 43_101_760_000
    assert row.params_m == 9.974805


@pytest.mark.parametrize(
    ("method", "by_the_rule"),
    [
        ("APCNet", 13_289_415_680),
        ("RCCA", 1_948_778_496),
        ("A2Net, 128", 1_345_847_296),
        ("A2Net, 256", 3_226_468_352),
        ("A2Net, 512", 8_598_323_200),
        ("LatentGNN", 810_606_592),
        ("LatentGNN, full width", 3_226_157_056),
        ("DeepLabV3+", 85_217_604_261),
        ("DeepLabV3+, one 3x3", 75_389_562_789),
        ("PSANet", 96_245_890_709),
        ("CCNet", 98_648_543_232),
        ("EMANet", 47_387_147_925),
    ],
)
def test_a_published_network_that_does_not_give_the_papers_number_shows_its_own(
    rows: dict[str, PaperRow], method: str, by_the_rule: int
) -> None:
    assert flops(rows[method]) == by_the_rule
    assert rows[method].evidence == "not reproduced"


def test_resnet_101_has_the_papers_flops_without_any_free_choice(rows: dict[str, PaperRow]) -> None:
    row = rows["ResNet-101"]
    assert round(row.rule_g * 1e9) == 190_577_894_464
    assert f"{row.rule_g:.1f}" == f"{row.paper_g}"
    assert row.params_m == 42.623936
    assert row.rule_mib == pytest.approx(2603.28, abs=0.005)
    assert row.evidence == "exact"


def test_the_papers_rule_sees_only_the_generators_of_tgm_trm(rows: dict[str, PaperRow]) -> None:
    row = rows["TGM+TRM"]
    assert round(row.rule_g * 1e9) == 64 * (512**2 + 64**2 + 64**2) == 17_301_504
    assert row.rule_mib == 0.3125
    assert row.evidence == "not reproduced"


def test_every_product_of_tgm_trm_counted_is_seven_times_the_papers_number(
    rows: dict[str, PaperRow],
) -> None:
    row = rows["TGM+TRM"]
    assert round(row.uniform_g * 1e9) == 17_301_504 + 64 * 512 * 64 * 64 == 151_519_232
    assert row.uniform_g / row.paper_g > 7
    assert row.params_m == (17_301_504 + 64) / 1e6


def test_the_papers_tgm_trm_needs_an_assumed_batch_norm(rows: dict[str, PaperRow]) -> None:
    row = rows["TGM+TRM, BN"]
    assert round(row.rule_g * 1e9) == 21_495_808
    assert f"{row.rule_g:.4f}" == "0.0215"
    assert f"{row.rule_mib:.2f}" == "8.31"
    assert "assumes one BatchNorm2d(512)" in row.note
    assert row.evidence == "assumed"


def test_the_reconet_head_has_the_papers_flops(rows: dict[str, PaperRow]) -> None:
    row = rows["RecoNet"]
    assert round(row.rule_g * 1e9) == 41_906_078_720
    assert f"{row.rule_g:.1f}" == f"{row.paper_g}"


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
    text = (Path(__file__).parents[3] / "docs" / "cost.md").read_text()
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
