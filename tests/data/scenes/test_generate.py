"""Scenes are repeatable, balanced, and ambiguous wherever context is meant to decide."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from reconet.data.scenes.generate import CLASSES, SceneFacts, facts_of, scene, scene_with
from reconet.types import IGNORE
from tests.data.scenes.measures import (
    RULES,
    SIZE,
    Drawn,
    Rule,
    accuracy,
    accuracy_by_evidence,
    accuracy_by_look,
    appearance,
    draw_scenes,
    inner,
    pixels_of,
)


def by_name(rule: Rule) -> str:
    return f"{rule.no}-{rule.yes}"


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return draw_scenes()


# Repeatable.


def digest(seed: int, index: int) -> str:
    image_hwc, label_hw = scene(seed, index, (48, 64))
    return hashlib.sha256(image_hwc.tobytes() + label_hw.tobytes()).hexdigest()


def test_a_scene_is_the_same_in_another_process() -> None:
    program = (
        "import hashlib; from reconet.data.scenes.generate import scene;"
        "a, b = scene(3, 7, (48, 64));"
        "print(hashlib.sha256(a.tobytes() + b.tobytes()).hexdigest())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == digest(3, 7), run.stderr


# Well-formed.


@pytest.mark.parametrize("size", [(32, 32), (33, 71), (96, 40), (512, 1024)])
def test_a_scene_has_the_size_asked_for_and_legal_labels(size: tuple[int, int]) -> None:
    for index in range(4):
        image_hwc, label_hw = scene(1, index, size)
        assert image_hwc.shape == (*size, 3)
        assert label_hw.shape == size
        assert image_hwc.dtype == label_hw.dtype == np.uint8
        assert image_hwc.flags.c_contiguous
        assert set(np.unique(label_hw)) <= {*range(len(CLASSES)), IGNORE}


def test_no_class_is_rare(drawn: list[Drawn]) -> None:
    share_nk = np.array([[np.mean(d.label_hw == k) for k in range(len(CLASSES))] for d in drawn])
    occurs = dict(zip(CLASSES, (share_nk > 0).mean(axis=0), strict=True))
    share = dict(zip(CLASSES, share_nk.mean(axis=0), strict=True))
    assert min(occurs.values()) > 0.2, occurs
    assert min(share.values()) > 0.005, share


def test_a_small_part_is_void_and_only_where_the_strip_meets_the_ground(
    drawn: list[Drawn],
) -> None:
    assert 0.005 < np.mean([np.mean(d.label_hw == IGNORE) for d in drawn]) < 0.04
    for d in drawn[:50]:
        near_strip_hw = ~inner(~pixels_of(d.label_hw, "road", "river"), 4)
        hidden_hw = ~inner(
            ~pixels_of(d.label_hw, "tree", "car", "boat", "rock", "sheep", "house"), 4
        )
        assert np.all(near_strip_hw | hidden_hw | (d.label_hw != IGNORE))


# The facts decide the names ...


def test_the_facts_of_a_scene_are_fair_and_independent() -> None:
    facts_nf = np.array([facts_of(5, index) for index in range(2000)], float)
    assert np.abs(facts_nf.mean(axis=0) - 0.5).max() < 0.05
    assert np.abs(np.corrcoef(facts_nf.T) - np.eye(3)).max() < 0.08


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_fact_decides_between_two_classes(drawn: list[Drawn], rule: Rule) -> None:
    for d in drawn:
        absent = rule.no if getattr(d.facts, rule.fact) else rule.yes
        assert not pixels_of(d.label_hw, absent).any()


@pytest.mark.parametrize(
    ("fact", "no", "yes"), [("town", "mountain", "house"), ("pasture", None, "fence")]
)
def test_the_evidence_is_in_every_image(
    drawn: list[Drawn], fact: str, no: str | None, yes: str
) -> None:
    for d in drawn:
        if getattr(d.facts, fact):
            assert pixels_of(d.label_hw, yes).sum() > 40
        elif no is not None:
            assert pixels_of(d.label_hw, no).sum() > 40


# ... and leave no trace in the things that they name.


def with_fact_reversed(index: int, fact: str) -> tuple[Drawn, Drawn]:
    facts = facts_of(0, index)
    other = facts._replace(**{fact: not getattr(facts, fact)})
    a, b = (Drawn(*scene_with(which, 0, index, SIZE), which) for which in (facts, other))
    return a, b


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_reversing_a_fact_changes_the_name_of_a_thing_but_not_one_of_its_pixels(rule: Rule) -> None:
    compared = 0
    for index in range(40):
        a, b = with_fact_reversed(index, rule.fact)
        both_hw = pixels_of(a.label_hw, rule.no, rule.yes) & pixels_of(
            b.label_hw, rule.no, rule.yes
        )
        same_hw = inner(both_hw, 1)
        np.testing.assert_array_equal(a.image_hwc[same_hw], b.image_hwc[same_hw])
        assert np.all(a.label_hw[both_hw] != b.label_hw[both_hw])
        compared += int(same_hw.sum())
    assert compared > 1000


def test_reversing_the_hour_leaves_the_whole_sky_as_it_was() -> None:
    for index in range(40):
        a, b = with_fact_reversed(index, "night")
        sky_hw = inner(pixels_of(a.label_hw, "sky", "sun", "moon"))
        np.testing.assert_array_equal(a.image_hwc[sky_hw], b.image_hwc[sky_hw])


# The same, measured: classifiers fail on the thing and succeed on the image.


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_the_look_of_a_thing_does_not_tell_its_class(drawn: list[Drawn], rule: Rule) -> None:
    assert accuracy_by_look(drawn, rule) < 0.62


@pytest.mark.parametrize("rule", RULES[:2], ids=by_name)
def test_nor_does_a_ring_of_surroundings(drawn: list[Drawn], rule: Rule) -> None:
    """Take five pixels around, or three for the strip, which touches everything on the ground."""
    reach = 5 if rule.fact == "night" else 3
    cases = [(d, pixels_of(d.label_hw, rule.no, rule.yes)) for d in drawn]
    rings = [(d, ~inner(~mask_hw, reach)) for d, mask_hw in cases if mask_hw.sum() > 30]
    feature_nf = np.array([appearance(d.image_hwc, ring_hw) for d, ring_hw in rings])
    truth_n = np.array([getattr(d.facts, rule.fact) for d, _ in rings])
    assert accuracy(feature_nf, truth_n) < 0.62


@pytest.mark.parametrize("fact", SceneFacts._fields)
def test_the_image_as_a_whole_does_tell(drawn: list[Drawn], fact: str) -> None:
    assert accuracy_by_evidence(drawn, fact) > 0.85
