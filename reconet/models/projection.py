"""Project features onto their principal components: a fixed 1x1 convolution, fitted once.

Most of the variance of a backbone's last stage lies in a few hundred directions. After the
projection every layer that reads the stage is several times cheaper.

Dimensions: n positions, c channels, d components.
"""

import torch
from torch import Tensor, nn


def principal_components(sample_nc: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return weight_dc and bias_d that centre features and turn them onto their main directions.

    Each direction has the sign that makes its largest weight positive, so that the same sample
    gives the same projection.
    """
    sample_nc = sample_nc.double()
    mean_c = sample_nc.mean(0)
    centred_nc = sample_nc - mean_c
    covariance_cc = centred_nc.T @ centred_nc / len(sample_nc)
    _, direction_cd = torch.linalg.eigh(covariance_cc)  # ascending
    weight_dc = direction_cd.flip(1)[:, :count].T
    largest_d1 = weight_dc.gather(1, weight_dc.abs().argmax(1, keepdim=True))
    weight_dc = weight_dc * largest_d1.sign()
    return weight_dc.float(), -(weight_dc @ mean_c).float()


def explained(sample_nc: Tensor, weight_dc: Tensor) -> float:
    """Return the part of the variance of a sample that a projection keeps."""
    centred_nc = sample_nc.double() - sample_nc.double().mean(0)
    kept = (centred_nc @ weight_dc.double().T).square().sum()
    return float(kept / centred_nc.square().sum())


def set_projection(layer: nn.Conv2d, sample_nc: Tensor) -> None:
    """Fit a 1x1 convolution to a sample of the features that it will read."""
    weight_dc, bias_d = principal_components(sample_nc, layer.out_channels)
    with torch.no_grad():
        layer.weight.copy_(weight_dc[:, :, None, None])
        assert layer.bias is not None
        layer.bias.copy_(bias_d)
