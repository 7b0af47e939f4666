"""Large images fit into the page, and their labels stay labels."""

import numpy as np

from reconet.serve.pixel_map import VIEW_SIDE, shrink_for_view, subsample_for_view


def test_a_large_image_fits_into_the_page() -> None:
    label_hw = np.arange(2000, dtype=np.uint16)[:, None].repeat(3300, 1).astype(np.uint8)
    image_hwc = np.zeros((2000, 3300, 3), np.uint8)
    assert subsample_for_view(label_hw).shape == shrink_for_view(image_hwc).shape[:2]
    assert max(subsample_for_view(label_hw).shape) == VIEW_SIDE
    np.testing.assert_array_equal(subsample_for_view(label_hw[:50, :70]), label_hw[:50, :70])
