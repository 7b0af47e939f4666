"""Images to explain are found by path, number or name."""

import numpy as np

from reconet.data import open_dataset
from reconet.explain.source import find_image, folder_name
from tests.factories import tiny_recipe


def test_images_of_the_dataset_are_found_by_number_and_by_name() -> None:
    recipe = tiny_recipe()
    dataset = open_dataset("scenes", "val", None, recipe.data.options)
    classes = dataset.info.classes
    by_number = find_image("val:3", recipe, classes, None)
    assert by_number.label_hw is not None
    assert np.array_equal(by_number.label_hw, dataset[3].label_hw)
    assert find_image(f"val:{dataset.name(3)}", recipe, classes, None).name == by_number.name


def test_a_name_with_slashes_becomes_one_folder() -> None:
    assert folder_name("city/a b:c.1") == "city_a_b_c.1"
    assert folder_name("../..") == "image"
