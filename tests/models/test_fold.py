import pytest
import torch
from torch import nn

from reconet.models.context import CONTEXTS
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter, create_model


def lived_in(name: str, backbone: str = "resnet18") -> Segmenter:
    """Make a small network whose batch norms are not the identity."""
    model = create_model(name, backbone=backbone, width=0.125, num_classes=3, crop=64)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            nn.init.normal_(part.running_mean, std=0.2)
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.2)
    return model.eval()


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_folded_network_says_the_same(name: str) -> None:
    model, image_bchw = lived_in(name), torch.rand(2, 3, 64, 72)
    with torch.no_grad():
        expected, got = model(image_bchw).main_bkhw, fold_batchnorm(model)(image_bchw).main_bkhw
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
def test_no_batch_norm_is_left_and_the_network_stays_as_it_was(backbone: str) -> None:
    model = lived_in("reconet", backbone)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    folded = fold_batchnorm(model.train())
    assert model.training
    assert not folded.training
    kept = [n for n, part in folded.named_modules() if isinstance(part, nn.BatchNorm2d)]
    assert kept == ["aux.reduce.1"]  # is not in use
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


class Both(nn.Module):
    """What the convolution gives, with and without the norm."""

    def __init__(self, parts: nn.Sequential) -> None:
        super().__init__()
        self.parts: nn.Sequential = parts

    def forward(self, x_bchw: torch.Tensor) -> torch.Tensor:
        y_bchw: torch.Tensor = self.parts[0](x_bchw)
        normed_bchw: torch.Tensor = self.parts[1](y_bchw)
        return y_bchw + normed_bchw


def test_a_convolution_that_others_use_too_is_not_folded() -> None:
    model = lived_in("reconet")
    reduce = model.context.reduce
    assert isinstance(reduce, nn.Sequential)

    model.context.reduce = Both(reduce)
    image_bchw = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected, got = model(image_bchw).main_bkhw, fold_batchnorm(model)(image_bchw).main_bkhw
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)
