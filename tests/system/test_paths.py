"""Documents show no private paths."""

import pytest

from reconet.system.paths import short_path, short_paths, short_paths_in_text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/me/weights/resnet50.safetensors", "resnet50.safetensors"),
        ("/data/voc/", "voc"),
        ("../elsewhere/voc", "voc"),
        ("~/voc", "voc"),
        (r"C:\Users\me\voc", "voc"),
        ("data/voc", "data/voc"),
        ("imagenet", "imagenet"),
        ("..", ".."),
        ("/", "/"),
        ("", ""),
    ],
)
def test_a_path_that_leads_elsewhere_is_its_last_name(path: str, shown: str) -> None:
    assert short_path(path) == shown
    assert short_paths({"a": [path, 1, None]}) == {"a": [shown, 1, None]}


def test_a_sentence_keeps_everything_but_the_places() -> None:
    text = "fcn seed 1: cannot read /home/me/a.jpg: no such file; and/or more"
    assert short_paths_in_text(text) == "fcn seed 1: cannot read a.jpg: no such file; and/or more"
