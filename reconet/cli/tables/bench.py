"""Tables of `reconet bench`."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from reconet.bench.data import DataBench
from reconet.bench.evaluate import EvaluateBench
from reconet.bench.frozen import FrozenBench
from reconet.bench.model import ModelBench
from reconet.bench.modules import ModuleBench
from reconet.bench.summary import Measured
from reconet.bench.train import TrainBench
from reconet.cli.tables.table import make_table
from reconet.system.files import readable_bytes
from reconet.system.readable import counted


def module_table(title: str, results: Sequence[ModuleBench], remarks: Sequence[str]) -> Table:
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
    table = make_table(title, [*columns, "sees"], rows)
    table.caption = "\n".join(
        [
            "Peak: the most memory alive at once, in units of the input map, beside the input, the "
            "weights and their gradients. Ratios are to RecoNet.",
            *(
                remarks
                or ["No core that builds spatial context is faster or smaller than RecoNet."]
            ),
        ]
    )
    return table


def data_table(results: Sequence[DataBench]) -> Table:
    names = {
        "reconet": "this package",
        "decode": "decoding alone",
        "pillow": "Pillow, resize then crop",
    }
    return make_table(
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


def train_table(title: str, results: Sequence[TrainBench]) -> Table:
    losses = {r.name: " ".join(f"{loss:.2f}" for loss in r.losses) for r in results}
    return make_table(
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


def frozen_table(title: str, result: FrozenBench) -> Table:
    table = make_table(
        title,
        ["training", "img/s", "speed"],
        [
            ["whole network", f"{result.full_images_per_second:.2f}", "1.0x"],
            [
                "head on cached features",
                f"{result.cached_images_per_second:.2f}",
                f"{result.over_full:.1f}x",
            ],
        ],
    )
    epochs = result.break_even_epochs
    table.caption = (
        f"The cache takes {readable_bytes(result.cache_bytes_per_image)} and "
        f"{result.build_seconds_per_image:.2f} s per image and view. "
        f"In bf16 it is computed {result.build_in_bf16:.2f} times as fast. "
        + ("It never pays." if epochs is None else f"It has paid after {epochs:.2f} epochs a view.")
    )
    return table


def evaluate_table(title: str, results: Sequence[EvaluateBench]) -> Table:
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
    table = make_table(title, [*columns, "plain mIoU", "same pixels"], rows)
    table.caption = results[0].protocol
    return table


def model_table(title: str, results: Sequence[ModelBench]) -> Table:
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
    table = make_table(title, ["network", "way", "images/s", "over eager", "same labels", ""], rows)
    for column in (table.columns[1], table.columns[5]):
        column.justify = "left"
    return table


def summary_table(runs: int, machine: Mapping[str, str], results: Sequence[Measured]) -> Table:
    rows = [
        [
            r.what,
            _or_dash(r.smallest, "{:.2f}x"),
            " ".join(f"{ratio:.2f}" for ratio in r.ratios),
            r.command,
        ]
        for r in results
    ]
    title = f"Every figure of speed, the smallest of {counted(runs, 'run')}"
    table = make_table(title, ["what", "times as fast", "runs", "command"], rows)
    table.columns[3].justify = "left"
    table.caption = ", ".join(f"{name} {text}" for name, text in machine.items())
    return table


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
