"""The loss of the extra classifiers that some contexts have. (The loss of the network itself is
reconet.losses, which comes after the models.)
"""

import torch.nn.functional as F
from torch import Tensor

from reconet.models.layers import resize

IGNORE = 255


def side_loss(logits_bkhw: Tensor, label_bhw: Tensor) -> Tensor:
    """Mean cross entropy over the pixels that have a label, 0 if none has; any size of logits."""
    full_bkhw = resize(logits_bkhw.float(), (label_bhw.shape[1], label_bhw.shape[2]))
    total = F.cross_entropy(full_bkhw, label_bhw.long(), ignore_index=IGNORE, reduction="sum")
    return total / (label_bhw != IGNORE).sum().clamp(min=1)
