"""The contract of a context module: everything between backbone and classifier.

So each method keeps its own published head, and all of them meet the same classifier.
"""

import torch
from torch import Tensor, nn

from reconet.models.features import Context, Features, Stages


class ContextModule(nn.Module):
    """Features c1..c4 -> Context. A subclass adds its own named, typed options to __init__.

    It works at any height and width, with one image in training, on CPU, in bf16, and under
    torch.export. tests/models/test_contract.py checks all of that for every entry of CONTEXTS.
    """

    out_channels: int
    core: nn.Module | None

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__()
        # The 512-channel module alone, x_bchw -> y_bchw: what `bench module` and `cost --paper`
        # measure. None where the method has no such part. (Not a class attribute: that would hide
        # a submodule of the same name.)
        self.core = None

    def forward(self, features: Features) -> Context:
        raise NotImplementedError

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        """The method's own loss term on what its forward left in `extra`; nothing by default."""
        return torch.zeros((), device=label_bhw.device)

    def after_step(self) -> None:
        """Called after every optimiser step, for state that moves without a gradient."""
