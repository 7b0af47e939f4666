"""Results as tables for a terminal: values in, a table out. Costs and speeds: tables_bench.py."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reconet.data.check_report import Listing
from reconet.data.dataset import DatasetInfo
from reconet.evaluation.benchmarks import LABELS
from reconet.evaluation.evaluate import Evaluation
from reconet.export import Export
from reconet.export.int8 import Try
from reconet.inference.folder import Outcome
from reconet.prune import Pruning
from reconet.study.grids import Study
from reconet.study.result import HEAD, StudyResult, caption, conditions, table_rows
from reconet.study.run import Plan

MIB = 2**20


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """The first column is text and flush left, the others are figures and flush right."""
    result = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        result.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        result.add_row(*row)
    return result


def dataset_table(infos: Mapping[str, DatasetInfo]) -> Table:
    rows = []
    for name, info in infos.items():
        splits = ", ".join(f"{split} {count or '?'}" for split, count in info.splits.items())
        classes = str(len(info.classes)) if info.classes else "yours"
        rows.append([name, info.title, classes, splits, info.licence, info.source])
    columns = ["name", "what", "classes", "images", "licence", "source"]
    return _words(table("Datasets", columns, rows))


def listing(content: Listing) -> Table:
    result = table(content.title, content.columns, content.rows)
    return _words(result) if content.title == "Problems" else result


def prediction_tables(outcome: Outcome) -> list[RenderableType]:
    """How many, between lines of their own: in a narrow table long ones would be broken."""
    counts = [str(len(outcome.having(status))) for status in ("done", "skipped", "failed")]
    shown = table("", ["network", "done", "skipped", "failed"], [])
    shown.add_row(Text(outcome.network), *counts)
    return [
        Text(f"predictions in {outcome.out}", style="bold"),
        shown,
        Text(f"protocol: {outcome.protocol}"),
        Text(f"network run as: {outcome.how}"),
    ]


def score_tables(result: Evaluation) -> list[RenderableType]:
    """Every class, then the whole, then the protocol, without which a score means little."""
    shown: list[RenderableType] = []
    title = f"{result.dataset} {result.split}, {result.images} images"
    if result.figures:
        rows = [[name, _percent(iou)] for name, iou in result.iou.items()]
        known = [key for key in LABELS if key in result.figures]
        figures = [[LABELS[key], _percent(result.figures[key])] for key in known]
        shown += [table("IoU of each class", ["class", "%"], rows)]
        shown += [table(title, ["score", "%"], figures)]
    shown.append(Text(f"protocol: {result.protocol}"))
    if result.submission is not None:
        shown.append(Text(f"for the test server: {result.submission}"))
    return shown


def studies_table(studies: Iterable[Study]) -> Table:
    columns = ["study", "question", "variants"]
    rows = [[s.name, s.question, ", ".join(v.name for v in s.variants())] for s in studies]
    result = _words(table("Studies", columns, rows))
    result.caption = "reconet study STUDY --list shows the settings of the variants"
    return result


def variants_table(plan: Plan) -> Table:
    """The settings as a shell wants them: brackets and braces mean something to it."""
    rows = [
        [v.name, v.about, " ".join(f"--set {shlex.quote(s)}" for s in v.settings)]
        for v in plan.variants
    ]
    result = _words(table(plan.study.question, ["variant", "what it is", "settings"], rows))
    result.caption = f"seeds {plan.seeds[0]} to {plan.seeds[-1]}; baseline {plan.study.baseline}"
    return result


def _words(result: Table) -> Table:
    """Columns of text, not of figures."""
    for column in result.columns:
        column.justify = "left"
        column.overflow = "fold"
    return result


def study_tables(result: StudyResult) -> list[RenderableType]:
    """The rows, then what they were measured under."""
    data = result.recipe.data
    shown = table(f"{result.study.question} {data.name}", HEAD, table_rows(result))
    shown.caption = "\n".join(caption(result))
    told = [Text(f"{name}: {value}") for name, value in conditions(result)]
    return [shown, *told]


def export_tables(result: Export) -> list[RenderableType]:
    """How it differs from the network, what quantisation cost, how to feed it, where it is."""
    rows = [
        [
            f"{d.images} x {d.size[0]} x {d.size[1]}",
            f"{d.logits:.1e}",
            f"{math.floor(1e5 * d.labels) / 1e3:.3f} %",  # 100 only where all are the same
        ]
        for d in result.differences
    ]
    columns = ["images", "largest difference of logits", "same labels"]
    shown: list[RenderableType] = [
        Text(f"{result.how} against the network, on {result.images}", style="bold"),
        table("", columns, rows),
    ]
    if result.tries:
        columns = ["kept in fp32", "mIoU % before", "after", "loss"]
        title = f"int8, calibrated by {result.calibrated_on}, scored on {result.scored_on or '-'}"
        shown.append(Text("int8 is judged by its mIoU; the differences above have no limit."))
        shown.append(Text(title, style="bold"))
        shown.append(table("", columns, [_try_row(one) for one in result.tries]))
    if result.remark:
        shown.append(Text(result.remark))
    return [*shown, Text(result.feed), Text(f"{result.path}: {result.bytes / MIB:.2f} MiB")]


def _try_row(one: Try) -> list[str]:
    """The loss is that of the two figures as they are shown."""
    kept = ", ".join(one.kept) or "nothing"
    if one.before is None or one.after is None:
        return [kept, "-", "-", "-"]
    before, after = round(100 * one.before, 2), round(100 * one.after, 2)
    return [kept, f"{before:.2f}", f"{after:.2f}", f"{round(before - after, 2) + 0.0:.2f}"]


def _percent(value: float) -> str:
    return "absent" if value != value else f"{100 * value:.2f}"


def prune_table(result: Pruning) -> Table:
    rows = [
        (
            one.name,
            str(one.rank),
            f"{100 * one.figures['miou']:.2f}",
            f"{one.params:,}",
            f"{one.core_params:,}",
            f"{one.file_bytes / MIB:.2f}",
            f"{one.macs / 1e9:.4f}",
            f"{one.core_macs / 1e9:.4f}",
            ratio(one.time, one.time_range),
            ratio(one.core_time, one.core_time_range),
        )
        for one in result.networks
    ]
    columns = ["network", "rank", "mIoU %", "parameters", "of its core", "file MiB"]
    columns += ["MACs G", "of its core", "time", "of its core"]
    shown = table(f"{result.dataset}: {result.protocol}", columns, rows)
    shown.caption = (
        f"Ranks chosen by {result.images} images of {result.calibrated_on}. Time is the median "
        "ratio to the network before, in turns with it, on one image of the training crop's "
        "size, with its range over the rounds; ~ where the range holds 1: no difference but noise."
    )
    return shown


def ratio(median: float, extent: tuple[float, float]) -> str:
    """ "0.94 (0.91-0.98)"; with a ~ where it may as well be 1."""
    low, high = extent
    if low == high == 1:  # the network before, compared with itself
        return "1"
    return f"{'~' if low <= 1 <= high else ''}{median:.2f} ({low:.2f}-{high:.2f})"
