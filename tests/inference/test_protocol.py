"""Protocols: the windows that they make, and the line that describes them."""

from hypothesis import given
from hypothesis import strategies as st

from reconet.inference.protocol import Protocol, window_grid
from reconet.recipes import Data, Eval

SIDE = st.integers(1, 40)


@given(SIDE, SIDE, st.floats(0.1, 4), st.sampled_from(["slide", "whole"]))
def test_every_pixel_is_in_a_window_of_every_scale(
    height: int, width: int, scale: float, mode: str
) -> None:
    protocol = Protocol(mode=mode, relative_to="original", crop=(7, 5))  # type: ignore[arg-type]
    for axis in window_grid((height, width), scale, protocol):
        share_n = axis.share()
        assert ((share_n > 0) & (share_n <= 1)).all()


def test_the_protocol_of_a_recipe_says_all_that_matters() -> None:
    settings = Eval(mode="slide", scales=(0.75, 1.0), flip=True)
    protocol = Protocol.of(settings, Data(name="voc12", base_size=520, crop=(512, 512)))
    assert str(protocol) == (
        "windows of 512 x 512 at 2/3 of their size; scale 0.75, 1 of a long side of 520; "
        "with mirror images; mean of softmax"
    )


def test_the_short_side_may_be_what_a_scale_of_one_means() -> None:
    protocol = Protocol(mode="whole", relative_to="short_side", base_size=512)
    rows, columns = window_grid((375, 500), 1.0, protocol)
    assert (rows.scaled, columns.scaled) == (512, 683)
    rows, columns = window_grid((500, 375), 0.5, protocol)
    assert (rows.scaled, columns.scaled) == (341, 256)
    rows, columns = window_grid((100, 1000), 1.0, protocol)  # a panorama
    assert (rows.scaled, columns.scaled) == (205, 2048)
    assert "scale 1 of a short side of 512" in str(protocol)
