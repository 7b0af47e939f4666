"""Write an explanation as one HTML page, in the style of the report."""

from collections.abc import Sequence

from reconet.explain.ranks import SHARES, RankAnalysis, strongest, value_range
from reconet.report.html import (
    Markup,
    embedded_image,
    html_page,
    note,
    scrolling,
    section,
    table,
    tag,
    tiles,
)

STRONGEST = 12  # contributions in the table
CONSTANT = 0.1  # spread of the attention below which the page calls it nearly constant
UNIFORM = 0.01  # spread of lambda below which the page calls it nearly uniform
MEANINGS = {
    "norm": "ranks, largest first, by the sum of their norms |A_i|",
    "energy": "ranks, largest first, by the sum of their squares |A_i|²",
    "singular": "patterns of the best approximation of A (along channels), by |A|²",
}


def frame(title: str, lead: str, parts: Sequence[Markup], command: str) -> str:
    """Put the parts of an explanation into a page."""
    about = section("How this was made", tag("code", command, class_="command"))
    head = [tag("h1", title), tag("p", lead, class_="lead")]
    return html_page(f"{title} - reconet explain", *head, *parts, about)


def image(png: bytes, alt: str) -> Markup:
    """Put a figure into the page. If it is wider than the page, it scrolls by itself."""
    style = "max-width:100%;min-width:min(44rem,160vw);height:auto;border-radius:.3rem"
    return scrolling(embedded_image(png, alt, style=style), alt)


def about_ranks(
    analysis: RankAnalysis, classes: Sequence[str], figures: dict[str, bytes]
) -> list[Markup]:
    """Write the parts of the page about a network with ranks. `figures` are by file name."""
    return [
        *nearly_constant(analysis),
        _tiles(analysis),
        section(
            "Sub-attention",
            tag(
                "p",
                "Above, each map is the mean over channels of A_i * X: what rank i alone would let "
                "through of the features X. Below it is A_i by itself, the mean over channels, "
                "which is an outer product of one column and one row. Each map has its own "
                "colours; its range stands over it.",
            ),
            image(figures["figure.png"], "image, labels and the maps of some ranks"),
            _shown(analysis),
        ),
        section(
            "Spectrum",
            image(figures["spectrum.png"], "lambda, cumulated norms and singular values"),
            _carried(analysis),
        ),
        section(
            "Fragments",
            tag(
                "p",
                "The gates that the outer products are made of: curves of the shown ranks, and "
                "below them every rank as one row.",
            ),
            image(figures["fragments.png"], "gates for channels, rows and columns"),
        ),
        section(
            "What each rank does for each class",
            tag(
                "p",
                "Each rank is switched off in turn (its lambda is zero, the others stay), and the "
                "rest of the network answers again. Shown is the mean over the image of the "
                "class's score, relative to the mean of all classes, with the rank minus without.",
            ),
            image(figures["contributions.png"], "change of every class's score by every rank"),
            _strongest(analysis, classes),
        ),
    ]


def nearly_constant(analysis: RankAnalysis) -> list[Markup]:
    """Say so where the attention or lambda hardly varies."""
    spread, lambdas = analysis.liveness.attention_spread, analysis.liveness.lambda_spread
    notes = []
    if spread < CONSTANT:
        mean = analysis.mean_attention_hw.mean().item()
        notes.append(
            f"The attention as a whole is nearly constant here: it varies by {100 * spread:.1f} % "
            f"around its mean of {mean:.3g}, so that A * X is nearly X, made smaller. Single ranks "
            "may vary more, but cancel in the sum. Where a map below resembles X (see its "
            "likeness), the pattern is X's own brightness and not the rank's choice."
        )
    if lambdas < UNIFORM and len(analysis.norm_r) > 1:
        notes.append(
            f"Lambda is nearly uniform: it varies by {100 * lambdas:.2g} %. The ranks of largest "
            "lambda hardly stand out. Any others could be shown as well (--ranks)."
        )
    return [note(text) for text in notes]


def _tiles(analysis: RankAnalysis) -> Markup:
    alive = analysis.liveness
    figures = [
        (str(len(analysis.norm_r)), "ranks"),
        (f"{100 * alive.attention_spread:.1f} %", "spread of the attention around its mean"),
        (f"{alive.effective_rank:.2f}", "effective rank of the attention"),
        (f"{100 * alive.lambda_spread:.2g} %", "spread of lambda around its mean"),
    ]
    return tiles(figures)


def _shown(analysis: RankAnalysis) -> Markup:
    rows = [
        (
            f"rank {one.rank}",
            f"{one.weight:.4g}",
            f"{100 * one.share:.2f} %",
            "{:.3g} to {:.3g}".format(*value_range(one.heat_hw)),
            "{:.3g} to {:.3g}".format(*value_range(one.attention_hw)),
            f"{one.likeness:.2f}",
        )
        for one in analysis.shown
    ]
    head = ("shown", "lambda", "of the norms", "A_i * X", "A_i", "likeness to X")
    return table(head, rows, caption="The ranks shown; likeness is the correlation with X's mean")


def _carried(analysis: RankAnalysis) -> Markup:
    rows = [
        (name, *(str(count) for count in counts.values()), MEANINGS[name])
        for name, counts in analysis.carried().items()
    ]
    head = ("measure", *(f"{100 * share:g} %" for share in SHARES), "what is counted")
    return table(head, rows, caption="How many carry most of the attention")


def _strongest(analysis: RankAnalysis, classes: Sequence[str]) -> Markup:
    given = analysis.contributions
    rows = []
    for rank, number, value in strongest(given.logit_rk, STRONGEST):
        places = int(given.places_k[number])
        changed = f"{100 * given.changed_rk[rank, number]:.1f} %" if places else "-"
        probability = 100 * given.probability_rk[rank, number]
        rows.append(
            (
                f"rank {rank}",
                classes[number],
                f"{value:+.4f}",
                f"{probability:+.3f}",
                changed,
                f"{places:,}",
            )
        )
    head = ("off", "class", "score", "probability, points", "labels lost", "places with its label")
    return table(head, rows, caption="The strongest, by score")


def about_maps(
    figures: dict[str, bytes], ranges: Sequence[tuple[str, float, float]], description: str
) -> list[Markup]:
    """Write the parts of the page about the attention of another context."""
    rows = [(name, f"{low:.3g}", f"{high:.3g}") for name, low, high in ranges]
    parts = [tag("p", description)]
    if "figure.png" in figures:
        parts.append(image(figures["figure.png"], "image, labels and the attention's maps"))
    if "gates.png" in figures:
        parts.append(image(figures["gates.png"], "gates, each in its order"))
    parts.append(table(("map", "least", "most"), rows, caption="Ranges"))
    return [section("Attention", *parts)]
