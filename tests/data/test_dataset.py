from reconet.data.dataset import evenly_spaced


def test_evenly_spaced_indices_run_from_the_first_to_the_last() -> None:
    assert evenly_spaced(100, 3) == [0, 49, 99]
    assert evenly_spaced(2, 64) == [0, 1]
    assert evenly_spaced(7, 1) == [0]
    assert evenly_spaced(0, 4) == []
