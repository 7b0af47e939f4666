import torch

from reconet.models.projection import explained, principal_components
from reconet.models.segmenter import create_model


def test_components_equal_those_of_a_singular_value_decomposition() -> None:
    sample_nc = torch.randn(200, 6) @ torch.randn(6, 6) + 3
    weight_dc, bias_d = principal_components(sample_nc, 3)
    centred_nc = (sample_nc - sample_nc.mean(0)).double()
    expected_dc = torch.linalg.svd(centred_nc, full_matrices=False).Vh[:3]
    overlap_d = (weight_dc.double() * expected_dc).sum(1).abs()
    torch.testing.assert_close(overlap_d, torch.ones(3).double(), rtol=1e-5, atol=1e-5)
    projected_nd = sample_nc @ weight_dc.T + bias_d
    torch.testing.assert_close(projected_nd.mean(0), torch.zeros(3), rtol=0, atol=1e-4)


def test_all_components_keep_all_of_the_variance_and_fewer_keep_less() -> None:
    sample_nc = torch.randn(100, 5) * torch.tensor([5.0, 4, 3, 2, 1])
    kept = [explained(sample_nc, principal_components(sample_nc, count)[0]) for count in (1, 3, 5)]
    assert kept[0] < kept[1] < kept[2]
    assert abs(kept[2] - 1) < 1e-6


def test_the_projection_is_a_layer_of_the_network() -> None:
    model = create_model(
        "fcn", backbone="resnet18", width=0.125, num_classes=3, crop=(64, 96), project=16
    )
    assert model.project is not None
    assert model.trunk(torch.rand(2, 3, 64, 96)).c4.shape == (2, 16, 8, 12)
    assert model.context.out_channels == 4  # a quarter of what it reads
    assert "project.weight" in model.state_dict()
    assert model(torch.rand(2, 3, 50, 70)).main_bkhw.shape == (2, 3, 50, 70)
