"""LatentGNN, against the affinity that it never writes down."""

import pytest
import torch
from torch import Tensor

from reconet.models.context.latentgnn import LatentGNNBlock, LatentGraph, adjacency, unit

SIZE = (5, 7)


def maps() -> tuple[Tensor, Tensor]:
    return unit(torch.randn(2, 8, *SIZE), dim=1), unit(torch.randn(2, 8, *SIZE), dim=1)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_graph_is_an_affinity_of_low_rank_between_positions(symmetric: bool) -> None:
    graph = LatentGraph(8, 3, symmetric=symmetric).eval().double()
    sender_bchw, receiver_bchw = (x.double() for x in maps())
    send_bdn, receive_bdn = graph.weights(sender_bchw, receiver_bchw)
    for b in range(2):
        feature_cn = sender_bchw[b].flatten(1)
        latent_dc = send_bdn[b] @ feature_cn.T
        adjacency_dd = adjacency(latent_dc.unsqueeze(0))[0]
        affinity_nn = receive_bdn[b].T @ adjacency_dd @ send_bdn[b]
        assert torch.linalg.matrix_rank(affinity_nn, rtol=1e-6) <= 3
        expected_cn = (affinity_nn @ feature_cn.T).T
        result_cn = graph(sender_bchw, receiver_bchw)[b].flatten(1)
        torch.testing.assert_close(result_cn, expected_cn)


def test_symmetric_weights_have_length_one_over_the_nodes_both_ways() -> None:
    send_bdn, receive_bdn = LatentGraph(8, 3, symmetric=True).weights(*maps())
    assert send_bdn is receive_bdn
    assert_unit_or_zero(send_bdn.norm(dim=1))


def test_asymmetric_weights_have_length_one_over_positions_there_and_over_nodes_back() -> None:
    send_bdn, receive_bdn = LatentGraph(8, 3, symmetric=False).weights(*maps())
    assert_unit_or_zero(send_bdn.norm(dim=2))
    assert_unit_or_zero(receive_bdn.norm(dim=1))


def assert_unit_or_zero(length: Tensor) -> None:
    torch.testing.assert_close(length, (length > 0).float())
    assert length.any()


def test_adjacency_is_the_softmax_of_cosines() -> None:
    latent_bdc = torch.randn(2, 3, 8)
    for weight_dd, latent_dc in zip(adjacency(latent_bdc), latent_bdc, strict=True):
        for i in range(3):
            cosine_d = torch.stack(
                [torch.cosine_similarity(latent_dc[i], latent_dc[j], dim=0) for j in range(3)]
            )
            torch.testing.assert_close(weight_dd[i], cosine_d.softmax(0))


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_block_begins_as_the_identity_and_sums_over_its_kernels(symmetric: bool) -> None:
    block = LatentGNNBlock(16, nodes=3, kernels=2, symmetric=symmetric).eval()
    x_bchw = torch.randn(2, 16, *SIZE)
    assert torch.equal(block(x_bchw), x_bchw)
    torch.nn.init.ones_(block.gamma)
    sender = unit(block.down(x_bchw), dim=1)
    receiver = sender if block.down_receive is None else unit(block.down_receive(x_bchw), dim=1)
    visible = torch.cat([kernel(sender, receiver) for kernel in block.kernels], dim=1)
    torch.testing.assert_close(block(x_bchw), x_bchw + block.up(visible))


def test_nothing_has_length_zero_and_no_nan() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert not unit(torch.zeros(1, 4, 5, dtype=dtype), dim=1).any()
