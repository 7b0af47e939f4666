"""Costs and speeds as tables for a terminal. Pure: values in, a table out."""

from collections.abc import Sequence

from rich.table import Table

from reconet.bench.data import DataBench
from reconet.bench.evaluate import EvaluateBench
from reconet.bench.model import ModelBench
from reconet.bench.modules import ModuleBench
from reconet.bench.train import TrainBench
from reconet.cli.tables.results import table
from reconet.cost.counter import Cost, ModelCost
from reconet.cost.paper import Claim, HeadCost, Row

MIB = 2**20


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
            "The heads by one rule: 512 x 512 image, 21 classes, with classifier",
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
        "Training pipeline, 500 x 375 images, crop 512",
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
    columns = ["classes", "s/image", "in network", "plain s", "in network", "faster", "mIoU %"]
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
