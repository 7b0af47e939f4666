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
CONSTANT = 0.1  # spread of the tensor below which the page calls it nearly constant
UNIFORM = 0.01  # spread of lambda below which the page calls it nearly uniform
EVERYWHERE = 0.9  # part of the image above which a rank looks at nearly all of it
MEANINGS = {
    "norm": "ranks, largest first, by the sum of their norms |{0}_i|",
    "energy": "ranks, largest first, by the sum of their squares |{0}_i|²",
    "singular": "patterns of the best approximation of {0} (along channels), by |{0}|²",
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
    words = analysis.words
    return [
        *nearly_constant(analysis),
        _tiles(analysis),
        section(
            words.title,
            tag("p", words.about),
            image(figures["figure.png"], "image, labels and the maps of some ranks"),
            _shown(analysis, classes),
        ),
        section(
            "Spectrum",
            image(figures["spectrum.png"], "lambda, cumulated norms and singular values"),
            _carried(analysis),
        ),
        section(
            words.curves_title,
            tag("p", words.curves_about),
            image(figures["fragments.png"], "factors along channels, rows and columns"),
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
    """Say so where the tensor or lambda hardly varies, or ranks are silent or look everywhere."""
    spread, lambdas = analysis.liveness.attention_spread, analysis.liveness.lambda_spread
    notes = []
    if spread < CONSTANT:
        mean, words = analysis.mean_tensor_hw.mean().item(), analysis.words
        notes.append(
            f"The {words.name} as a whole is nearly constant here: it varies by "
            f"{100 * spread:.1f} % around its mean of {mean:.3g}, {words.if_constant}"
        )
    if lambdas < UNIFORM and len(analysis.norm_r) > 1:
        notes.append(
            f"Lambda is nearly uniform: it varies by {100 * lambdas:.2g} %. The ranks of largest "
            "lambda hardly stand out. Any others could be shown as well (--ranks)."
        )
    silent = int((analysis.norm_r == 0).sum())
    if silent:
        notes.append(f"{silent} of {len(analysis.norm_r)} ranks add nothing to this image.")
    looked_r = analysis.looked_at()
    if looked_r is not None and looked_r.min() > EVERYWHERE:
        notes.append(
            "All ranks look at nearly the whole image, as global pooling does: the masks that "
            f"gather cover {100 * looked_r.min().item():.0f} % of it or more."
        )
    return [note(text) for text in notes]


def _tiles(analysis: RankAnalysis) -> Markup:
    alive = analysis.liveness
    figures = [
        (str(len(analysis.norm_r)), "ranks"),
        (
            f"{100 * alive.attention_spread:.1f} %",
            f"spread of the {analysis.words.name} around its mean",
        ),
        (f"{alive.effective_rank:.2f}", f"effective rank of the {analysis.words.name}"),
        (f"{100 * alive.lambda_spread:.2g} %", "spread of lambda around its mean"),
    ]
    return tiles(figures)


def _shown(analysis: RankAnalysis, classes: Sequence[str]) -> Markup:
    words, looked_r = analysis.words, analysis.looked_at()
    rows = []
    for one in analysis.shown:
        logit_k = analysis.contributions.logit_rk[one.rank]
        row = {
            "shown": f"rank {one.rank}",
            "lambda": f"{one.weight:.4g}",
            "of the norms": f"{100 * one.share:.2f} %",
            words.above.format("i"): "{:.3g} to {:.3g}".format(*value_range(one.upper_hw())),
            words.below.format("i"): "{:.3g} to {:.3g}".format(*value_range(one.tensor_hw)),
            "likeness to X": f"{one.likeness:.2f}",
        }
        if looked_r is not None:
            row["of the image"] = f"{100 * looked_r[one.rank].item():.0f} %"
        row["for"] = classes[int(logit_k.argmax())]
        row["against"] = classes[int(logit_k.argmin())]
        row["channels"] = ", ".join(map(str, one.channels))
        rows.append(row)
    caption = "The ranks shown; likeness is the correlation with X's mean"
    if looked_r is not None:
        caption += "; of the image: the part that the rank looks at"
    caption += "; for and against: the classes whose score it raises and lowers most"
    return table(tuple(rows[0]), [tuple(row.values()) for row in rows], caption=caption)


def _carried(analysis: RankAnalysis) -> Markup:
    rows = [
        (
            name,
            *(str(count) for count in counts.values()),
            MEANINGS[name].format(analysis.words.symbol),
        )
        for name, counts in analysis.carried().items()
    ]
    head = ("measure", *(f"{100 * share:g} %" for share in SHARES), "what is counted")
    return table(head, rows, caption=f"How many carry most of the {analysis.words.name}")


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
