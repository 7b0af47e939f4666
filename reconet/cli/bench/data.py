"""reconet bench data."""

from dataclasses import asdict

from reconet.cli.arguments import ImportOption, JsonOption, RoundsOption
from reconet.cli.output import print_result, show_progress


def data(
    rounds: RoundsOption = 5, as_json: JsonOption = False, imports: ImportOption = None
) -> None:
    """Compare the training pipeline with decoding alone and Pillow.

    It reads generated 500 x 375 images with masks, crop 512, in 1 and 2 worker processes.

    \b
    Examples:
      reconet bench data
      reconet bench data --rounds 9 --json
    """
    from reconet.bench.data import bench_data
    from reconet.cli.tables.bench import data_table

    with show_progress("bench", "measuring, takes about a minute ..."):
        results = bench_data(rounds=rounds)
    values = {"pipelines": [asdict(result) for result in results]}
    print_result(values, [data_table(results)], as_json)
