"""Write a page that compares networks on the same images, and the rows of its tables."""

from pathlib import Path

from reconet.evaluation import Comparison, Difference, rough
from reconet.report.html import html_page, is_page, percent
from reconet.system.files import check_output_file, write_text
from reconet.system.readable import split_name

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # head and rows


def check_page(path: Path, kind: str) -> None:
    """Raise if a page of this kind cannot be written here."""
    check_output_file(path, lambda file: is_page(file, kind))


def write_comparison(result: Comparison, path: Path, command: str) -> None:
    """Write the page. Its file is one of `check_page`."""
    first = result.scores[0]
    page = html_page(
        "compare.html",
        kind="comparison",
        title=f"{len(result.networks)} networks compared",
        lead=f"{split_name(first.dataset, first.split, first.title)}, {first.images} images.",
        rough=rough(first.images),
        scores=comparison_scores(result),
        protocols=comparison_protocols(result),
        differences=[
            (one, class_differences(one, result), image_differences(one))
            for one in result.differences
        ],
        command=command,
    )
    write_text(path, page)


def comparison_scores(result: Comparison) -> Table:
    """Return the scores of each network with their intervals."""
    rows: list[tuple[str, ...]] = []
    for name, score in zip(result.networks, result.scores, strict=True):
        cells = []
        for key in ("miou", "boundary_iou"):
            low, high = (percent(score.intervals[key][side], 2) for side in ("low", "high"))
            cells += [percent(score.figures[key], 2), f"{low} to {high}"]
        rows.append((name, *cells))
    return ("network", "mIoU", "95 % interval", "boundary IoU", "its interval"), rows


def comparison_protocols(result: Comparison) -> list[str]:
    """Return the protocol of all networks in one line, or one line for each."""
    protocols = [score.protocol for score in result.scores]
    if len(set(protocols)) == 1:
        return [f"protocol: {protocols[0]}"]
    pairs = zip(result.networks, protocols, strict=True)
    return [f"protocol of {name}: {protocol}" for name, protocol in pairs]


def class_differences(one: Difference, result: Comparison) -> Table:
    """Return the IoU of each class, and the difference with its interval. A star: not chance."""
    scores = dict(zip(result.networks, result.scores, strict=True))
    before, after = scores[one.before].iou, scores[one.after].iou
    rows: list[tuple[str, ...]] = [
        (
            name,
            *(percent(iou[name], 2, "absent") for iou in (before, after)),
            f"{one.iou[name].points}{' *' if one.iou[name].excludes_zero else ''}"
            if name in one.iou
            else "-",
        )
        for name in before
    ]
    return ("class", one.before, one.after, "points (95 % interval)"), rows


def image_differences(one: Difference) -> Table:
    """Return the images on which two networks differ most."""
    rows: list[tuple[str, ...]] = [
        (
            image.name,
            percent(image.before),
            percent(image.after),
            f"{100 * (image.after - image.before):+.1f}",
        )
        for image in one.images
    ]
    return ("image", one.before, one.after, "points"), rows
