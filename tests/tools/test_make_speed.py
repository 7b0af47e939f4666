"""The table of speeds says what was measured, and the README quotes nothing else."""

from typing import Any

from tools.make_speed import page, stale_rows

VALUES: dict[str, Any] = {
    "machine": {"torch": "2.9", "processor": "a CPU, 2 threads of 2 cores"},
    "runs": 3,
    "figures": [
        {
            "what": "core",
            "command": "reconet bench module",
            "ratios": [15.6, 14.23],
            "smallest": 14.23,
        },
        {"what": "int8", "command": "reconet bench model", "ratios": [], "smallest": None},
    ],
}


def test_the_section_has_machine_ratios_and_the_smallest() -> None:
    text = page("a\n<!-- figures -->\nold\n<!-- end -->\nb\n", VALUES)
    assert "old" not in text
    assert "| core | **14.23** | 15.60, 14.23 | `reconet bench module` |" in text
    assert "| int8 | not here |  | `reconet bench model` |" in text
    assert "- processor: a CPU, 2 threads of 2 cores" in text
    assert text.startswith("a\n")
    assert text.endswith("<!-- end -->\nb\n")
    assert page(text, VALUES) == text


def test_rows_of_the_readme_that_quote_other_figures_are_named() -> None:
    rows = [
        "| The core is 14.2 times faster. | `reconet bench module` |",
        "| The core is 15.6 times faster. | `reconet bench module` |",
        "| int8 is 5.7 times as fast. | `reconet bench model` |",
        "| It costs 71 times less. | `reconet cost --paper` |",
    ]
    stale = stale_rows("\n".join(rows), VALUES["figures"])
    assert [row.split(" -> ")[0] for row in stale] == [
        "The core is 15.6 times faster.",
        "int8 is 5.7 times as fast.",
    ]
    assert "core: 14.23" in stale[0]
