"""Score a network with its low-rank tensor replaced by the tensor's mean: a test of life.

If the score stays the same, what the tensor says about an image is of no use.
"""

from collections.abc import Callable

from torch import Tensor

from reconet.models.context.low_rank import LowRankCore
from reconet.models.mean_attention import record_mean, replace_tensor
from reconet.models.segmenter import Segmenter


def count_with_mean(
    model: Segmenter, crop: tuple[int, int], count: Callable[[Segmenter], Tensor]
) -> Tensor | None:
    """Return the confusion matrix with the tensor's mean, or None if the context has no tensor.

    `count` shows all images to a network and returns its confusion matrix. It is called twice: to
    take the mean over these images, and to score the network with it.
    """
    core = model.context.core
    if not isinstance(core, LowRankCore):
        return None
    stage = model.backbone.stages(crop).c4
    with record_mean(core, (stage.height, stage.width)) as mean:
        count(model)
    with replace_tensor(core, mean.value()):
        return count(model)
