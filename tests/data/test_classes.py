"""Names of classes and their colours."""

from reconet.data.classes import class_names, colour_map


def test_names_are_split_at_commas_whatever_the_line_breaks() -> None:
    assert class_names("sky,\n    potted plant, tv\n monitor") == (
        *("sky", "potted plant", "tv monitor"),
    )


def test_colours_are_those_of_the_devkit_of_voc() -> None:
    known = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 3: (128, 128, 0), 4: (0, 0, 128)}
    known |= {8: (64, 0, 0), 15: (192, 128, 128), 20: (0, 64, 128), 255: (224, 224, 192)}
    colours = colour_map(256)
    assert {number: colours[number] for number in known} == known
    assert len(set(colours)) == 256
    assert colour_map(3, first=2) == colours[2:5]
