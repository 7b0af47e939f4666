"""Every context in the number formats of a GPU, on machines that have none.

A build of torch for CUDA knows which operations its autocast turns into which format. Fake tensors
go through the same rules and compute nothing. So mixed formats that an operation refuses, tensors
on two devices and reads from the device are errors here as they are, or cost time, on a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from reconet.models.context import CONTEXTS
from reconet.models.losses import segmentation_loss
from reconet.recipes import Loss
from reconet.system.hardware import DTYPES, Precision
from tests.factories import tiny_model

pytestmark = pytest.mark.skipif(
    torch.version.cuda is None or torch.cuda.is_available(),
    reason="for builds of torch for CUDA, where there is no GPU",
)
LOSSES = (Loss(), Loss(focal=0.5, ohem=0.7, ohem_min_kept=100))  # regions read from the device


@contextmanager
def cuda_autocast(precision: Precision) -> Iterator[None]:
    """Turn on what torch.autocast("cuda") turns on. That itself asks for a GPU first."""
    torch.set_autocast_dtype("cuda", DTYPES[precision])
    torch.set_autocast_enabled("cuda", precision != "fp32")
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("context", sorted(CONTEXTS))
def test_forward_and_loss_of_every_context_keep_to_the_gpu_and_its_formats(
    context: str, precision: Precision
) -> None:
    with FakeTensorMode(), torch.device("cuda"):
        model = tiny_model(context)
        image_bchw = torch.zeros(2, 3, 64, 96, dtype=torch.uint8)
        label_bhw = torch.zeros(2, 64, 96, dtype=torch.uint8)
        with cuda_autocast(precision):
            predicted = model.eval()(image_bchw)
            coarse_bkij = model.coarse(image_bchw)
            learnt = model.train()(image_bchw)
        for settings in LOSSES:
            loss = segmentation_loss(learnt, label_bhw, settings)
            loss = loss + model.context.loss(learnt.extra, label_bhw)
            assert (loss.device.type, loss.dtype) == ("cuda", torch.float32)
        # This autocast enlarges in fp32, whatever it gets. That of CPUs does not.
        assert (coarse_bkij.device.type, coarse_bkij.dtype) == ("cuda", DTYPES[precision])
        for logits in (predicted, learnt):
            assert (logits.main_bkhw.device.type, logits.main_bkhw.dtype) == ("cuda", torch.float32)
