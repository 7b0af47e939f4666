"""The loss of the extra classifiers that some contexts have. (The loss of the network itself is
reconet.losses, which comes after the models.)
"""

import torch.nn.functional as F
from torch import Tensor

from reconet.models.layers import resize
from reconet.void import IGNORE


def side_loss(logits_bkhw: Tensor, label_bhw: Tensor) -> Tensor:
    """Mean over pictures of the mean cross entropy over those of their pixels that have a label, 0
    if none has; any size of logits. Picture by picture, so that parts of a batch add up to it.
    """
    full_bkhw = resize(logits_bkhw.float(), (label_bhw.shape[1], label_bhw.shape[2]))
    loss_bhw = F.cross_entropy(full_bkhw, label_bhw.long(), ignore_index=IGNORE, reduction="none")
    labelled_b = (label_bhw != IGNORE).sum(dim=(1, 2))
    return (loss_bhw.sum(dim=(1, 2)) / labelled_b.clamp(min=1)).mean()
