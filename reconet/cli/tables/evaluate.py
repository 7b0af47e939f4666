"""Tables of `reconet evaluate`."""

from rich.console import RenderableType
from rich.text import Text

from reconet.cli.tables.table import make_table
from reconet.evaluation.benchmarks import score_labels
from reconet.evaluation.evaluate import Evaluation
from reconet.system.readable import counted


def score_tables(result: Evaluation) -> list[RenderableType]:
    """Return the IoU of each class, the scores, and the protocol that they depend on."""
    parts: list[RenderableType] = []
    dataset = result.title or result.dataset
    title = f"{dataset} {result.split}, {counted(result.images, 'image')}"
    if result.figures:
        classes = [[name, _percent(iou)] for name, iou in result.iou.items()]
        labels = score_labels()
        known = [key for key in labels if key in result.figures]
        scores = [[labels[key], _percent(result.figures[key])] for key in known]
        parts.append(make_table("IoU of each class", ["class", "%"], classes))
        parts.append(make_table(title, ["score", "%"], scores))
    parts.append(Text(f"protocol: {result.protocol}"))
    before = result.in_training
    if before is not None and before["protocol"] != result.protocol:
        parts.append(
            Text(
                f"in training, at step {result.step:,}: mIoU {_percent(before['miou'])} % by "
                f"another protocol: {before['protocol']}"
            )
        )
    if result.submission is not None:
        parts.append(Text(f"for the test server: {result.submission}"))
    return parts


def _percent(value: float) -> str:
    return "absent" if value != value else f"{100 * value:.2f}"  # nan: no pixel of the class
