"""Results as tables for a terminal. Pure: values in, a table out."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reconet.bench import ModuleBench
from reconet.bench_data import DataBench
from reconet.bench_evaluate import EvaluateBench
from reconet.bench_model import ModelBench
from reconet.bench_train import TrainBench
from reconet.cost import Cost, ModelCost
from reconet.cost_paper import Claim, HeadCost, Row
from reconet.data.check_report import Listing
from reconet.data.dataset import DatasetInfo
from reconet.evaluate import Evaluation
from reconet.export import Export
from reconet.export.int8 import Try
from reconet.figures import LABELS
from reconet.predictions import Outcome
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


def model_table(title: str, cost: ModelCost) -> Table:
    names = {"core": "  of which core", "aux": "aux (training only)"}
    rows = [_cost_row(names.get(part.name, part.name), part) for part in cost.parts]
    rows.append(_cost_row("total in use", cost.total))
    result = table(title, ["part", "parameters", "MACs G", "kept for backward MiB"], rows)
    result.caption = (
        f"Training keeps {cost.training_bytes / MIB:.1f} MiB for the backward pass; in use at most "
        f"{cost.peak_bytes / MIB:.1f} MiB are alive at once, beside the weights."
    )
    return result


def models_table(title: str, costs: dict[str, ModelCost]) -> Table:
    rows = [
        [*_cost_row(name, cost.total), f"{cost.peak_bytes / MIB:.1f}"]
        for name, cost in costs.items()
    ]
    columns = ["model", "parameters", "MACs G", "kept for backward MiB", "peak in use MiB"]
    return table(title, columns, rows)


def paper_tables(
    rows: Sequence[Row], heads: Sequence[HeadCost], claims: Sequence[Claim]
) -> list[Table]:
    """Both tables of the paper; then what one rule for all says."""
    titles = {
        "module": "Module alone, one 512 x 64 x 64 map",
        "network": "ResNet-101 and the head on top of it",
    }
    compared = table(
        "What the paper says about cost, and the uniform count",
        ["claim", "counted", "holds"],
        [[claim.paper, claim.counted, "yes" if claim.holds else "no"] for claim in claims],
    )
    compared.columns[1].justify = "left"
    return [
        *(_paper_table(title, [r for r in rows if r.table == t]) for t, title in titles.items()),
        table(
            "The heads by one rule: 512 x 512 picture, 21 classes, with classifier",
            ["head", "uniform G", "params M"],
            [[h.name, f"{h.macs / 1e9:.3f}", f"{h.params / 1e6:.3f}"] for h in heads],
        ),
        compared,
    ]


def bench_table(title: str, results: Sequence[ModuleBench], remarks: Sequence[str]) -> Table:
    base = results[0]
    columns = ["core", "params M", "MACs G", "fwd ms", "", "fwd+bwd ms", "", "peak", "training"]
    rows = [
        [
            r.name,
            f"{r.params / 1e6:.2f}",
            f"{r.macs / 1e9:.4f}",
            f"{r.forward_ms:.1f}",
            f"{r.forward_ms / base.forward_ms:.1f}x",
            f"{r.forward_backward_ms:.1f}",
            f"{r.forward_backward_ms / base.forward_backward_ms:.1f}x",
            f"{r.forward_peak_maps:.1f}",
            f"{r.forward_backward_peak_maps:.1f}",
            r.reach,
        ]
        for r in sorted(results, key=lambda r: r.forward_backward_ms)
    ]
    result = table(title, [*columns, "sees"], rows)
    result.caption = "\n".join(
        [
            "Peak: the most memory alive at once, in units of the input map, beside the input, the "
            "weights and their gradients. Ratios are to RecoNet.",
            *(
                remarks
                or ["No core that builds spatial context is faster or smaller than RecoNet."]
            ),
        ]
    )
    return result


def bench_data_table(results: Sequence[DataBench]) -> Table:
    names = {
        "reconet": "this package",
        "decode": "decoding alone",
        "pillow": "Pillow, resize then crop",
    }
    return table(
        "Training pipeline, 500 x 375 pictures, crop 512",
        ["pipeline", "workers", "samples/s", "of decoding alone", "over Pillow"],
        [
            [
                names.get(r.name, r.name),
                str(r.workers),
                f"{r.samples_per_second:.1f}",
                f"{100 * r.of_decode:.0f} %",
                f"{r.over_pillow:.1f}x",
            ]
            for r in results
        ],
    )


def bench_train_table(title: str, results: Sequence[TrainBench]) -> Table:
    losses = {r.name: " ".join(f"{loss:.2f}" for loss in r.losses) for r in results}
    return table(
        title,
        ["precision", "s/step", "img/s", "over fp32", "losses"],
        [
            [
                r.name,
                f"{r.seconds_per_step:.2f}",
                f"{r.images_per_second:.2f}",
                f"{r.over_fp32:.2f}x",
                losses[r.name],
            ]
            for r in results
        ],
    )


def bench_evaluate_table(title: str, results: Sequence[EvaluateBench]) -> Table:
    columns = ["classes", "s/picture", "in network", "plain s", "in network", "faster", "mIoU %"]
    rows = [
        [
            str(r.classes),
            f"{r.seconds:.2f}",
            f"{100 * r.network_share:.0f} %",
            f"{r.plain_seconds:.2f}",
            f"{100 * r.plain_network_share:.0f} %",
            f"{r.speedup:.2f}x",
            f"{r.miou:.2f}",
            f"{r.plain_miou:.2f}",
            f"{100 * r.same_pixels:.2f} %",
        ]
        for r in results
    ]
    result = table(title, [*columns, "plain mIoU", "same pixels"], rows)
    result.caption = results[0].protocol
    return result


def bench_model_table(title: str, results: Sequence[ModelBench]) -> Table:
    rows = [
        [
            r.network,
            r.way,
            _or_dash(r.images_per_second, "{:.2f}"),
            _or_dash(r.over_eager, "{:.2f}x"),
            "-" if r.agreement is None else f"{100 * r.agreement:.2f} %",
            r.reason,
        ]
        for r in results
    ]
    result = table(title, ["network", "way", "images/s", "over eager", "same labels", ""], rows)
    for column in (result.columns[1], result.columns[5]):
        column.justify = "left"
    return result


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def dataset_table(infos: Mapping[str, DatasetInfo]) -> Table:
    rows = []
    for name, info in infos.items():
        splits = ", ".join(f"{split} {count or '?'}" for split, count in info.splits.items())
        classes = str(len(info.classes)) if info.classes else "yours"
        rows.append([name, info.title, classes, splits, info.licence, info.source])
    result = table("Datasets", ["name", "what", "classes", "pictures", "licence", "source"], rows)
    for column in result.columns:
        column.justify = "left"
        column.overflow = "fold"
    return result


def listing(content: Listing) -> Table:
    result = table(content.title, content.columns, content.rows)
    if content.title == "Problems":
        for column in result.columns:
            column.justify = "left"
            column.overflow = "fold"
    return result


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
    title = f"{result.dataset} {result.split}, {result.pictures} pictures"
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
            f"{d.pictures} x {d.size[0]} x {d.size[1]}",
            f"{d.logits:.1e}",
            f"{math.floor(1e5 * d.labels) / 1e3:.3f} %",  # 100 only where all are the same
        ]
        for d in result.differences
    ]
    columns = ["pictures", "largest difference of logits", "same labels"]
    shown: list[RenderableType] = [
        Text(f"{result.how} against the network, on {result.pictures}", style="bold"),
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


def _cost_row(name: str, cost: Cost) -> list[str]:
    saved = f"{cost.saved_bytes / MIB:.1f}"
    return [name, f"{cost.params:,}", f"{cost.macs / 1e9:.4f}", saved]


def _paper_table(title: str, rows: Sequence[Row]) -> Table:
    columns = [
        "method",
        "paper G",
        "its rule G",
        "uniform G",
        "paper MB",
        "its rule MiB",
        "params M",
        "evidence",
    ]
    result = table(
        title,
        columns,
        [
            [
                row.method,
                f"{row.paper_g:g}",
                f"{row.rule_g:.4f}",
                f"{row.uniform_g:.4f}",
                "-" if row.paper_mib is None else f"{row.paper_mib:.2f}",
                f"{row.rule_mib:.2f}",
                f"{row.params_m:.2f}",
                row.evidence,
            ]
            for row in rows
        ],
    )
    notes = [f"{row.method}: {row.note}." for row in rows]
    result.caption = "\n".join(["uniform: every product counted, once", *notes])
    return result
