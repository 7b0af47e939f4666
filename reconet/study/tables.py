"""The results of a study as tables of text: scores and costs, and what the attention does."""

from collections.abc import Iterable
from typing import NamedTuple

from reconet.study.paper_scores import PAPER
from reconet.study.result import StudyResult, VariantResult
from reconet.study.spread import Spread
from reconet.study.stats import Estimate
from reconet.study.trial import LIVENESS

SCORE_COLUMNS = (
    *("variant", "mIoU %", "95 %", "seeds", "to baseline", "95 %"),
    *("params M", "MACs G", "img/s", "paper %"),
)
ATTENTION_COLUMNS = (
    *("variant", "mIoU %", "with mean A %", "lost", "95 %"),
    *("spread of A", "eff. rank", "spread of lambda"),
)
LIVENESS_DIGITS = (3, 2, 4)


class TextTable(NamedTuple):
    """A table for the terminal, the report and Markdown. Missing values are dashes."""

    columns: tuple[str, ...]
    rows: list[list[str]]
    caption: list[str]  # lines that explain the columns, without full stops


def study_tables(result: StudyResult) -> list[TextTable]:
    """Return the scores, and what the attention does if there is one."""
    tables = [score_table(result), attention_table(result)]
    return [table for table in tables if table.rows]


def score_table(result: StudyResult) -> TextTable:
    """Return scores, differences to the baseline, and costs."""
    caption = [
        f"baseline: {result.baseline}",
        "95 %: half of Student's interval over seeds; one of twenty is expected to miss",
        _difference_caption(result.spread),
        "params, MACs: of one crop, in use",
        "img/s: median in training and over seeds, beside whatever else the machines did",
    ]
    if result.study.name in PAPER:
        caption.append(f"paper: {PAPER[result.study.name].source}")
    rows = [_score_texts(row, row.variant == result.baseline) for row in result.rows]
    return TextTable(SCORE_COLUMNS, rows, caption)


def attention_table(result: StudyResult) -> TextTable:
    """Return how the variants with a low-rank tensor use it."""
    caption = [
        "with mean A: A (of RecoNet+: Y) replaced by its mean over the scored images",
        "lost: the score minus that, seed by seed; nothing lost: A is dead",
        "spread: standard deviation over mean",
    ]
    rows = [_attention_texts(row) for row in result.rows if row.with_mean() is not None]
    return TextTable(ATTENTION_COLUMNS, rows, caption)


def _difference_caption(spread: Spread | None) -> str:
    if spread is None:
        return "to baseline: taken seed by seed, each with an interval of its own"
    return (
        "to baseline: taken seed by seed; its interval is from the spread that all variants "
        f"share, {100 * spread.deviation:.2f} points ({spread.freedom} degrees of freedom)"
    )


def _score_texts(row: VariantResult, is_baseline: bool) -> list[str]:
    first = row.trials[0] if row.trials else None
    return [
        row.variant,
        _percent(row.score),
        _half(row.score),
        str(len(row.trials)),
        "baseline" if is_baseline else _percent(row.difference, sign=True),
        _half(row.difference),
        _number(None if first is None else first.params / 1e6, 3),
        _number(None if first is None else first.macs / 1e9, 3),
        _number(row.speed(), 1),
        "-" if row.paper is None else f"{row.paper:g}",
    ]


def _attention_texts(row: VariantResult) -> list[str]:
    return [
        row.variant,
        _percent(row.score),
        _percent(row.with_mean()),
        _percent(row.lost(), sign=True),
        _half(row.lost()),
        *(
            _number(row.last_liveness(name), digits)
            for name, digits in zip(LIVENESS, LIVENESS_DIGITS, strict=True)
        ),
    ]


def _percent(value: Estimate | None, *, sign: bool = False) -> str:
    return _number(None if value is None else 100 * value.mean, 2, sign=sign)


def _half(value: Estimate | None) -> str:
    if value is None or value.half_width is None:
        return "-"
    return f"± {100 * value.half_width:.2f}"


def _number(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+z.{digits}f}" if sign else f"{value:z.{digits}f}"  # z: no -0.00


def markdown_lines(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table in Markdown."""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
