"""Measure scenes: how well a linear classifier tells classes and facts.

tests/data/scenes/test_generate.py and benchmarks/scenes.py use it.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.scenes.generate import CLASSES, SceneFacts, facts_of, scene
from reconet.types import Image, Label

COUNT = 480
SIZE = (160, 160)


class Rule(NamedTuple):
    """Two classes that look alike, and the fact that tells them apart."""

    no: str
    yes: str
    fact: str


RULES = [
    Rule("sun", "moon", "night"),
    Rule("river", "road", "town"),
    Rule("boat", "car", "town"),
    Rule("rock", "sheep", "pasture"),
]


class Drawn(NamedTuple):
    """A scene and its facts."""

    image_hwc: Image
    label_hw: Label
    facts: SceneFacts


def draw_scenes() -> list[Drawn]:
    return [Drawn(*scene(0, index, SIZE), facts_of(0, index)) for index in range(COUNT)]


def pixels_of(label_hw: Label, *names: str) -> NDArray[np.bool_]:
    mask_hw: NDArray[np.bool_] = np.isin(label_hw, [CLASSES.index(name) for name in names])
    return mask_hw


def inner(mask_hw: NDArray[np.bool_], pixels: int = 2) -> NDArray[np.bool_]:
    """Remove the rim of a mask, where the colours of neighbours mix."""
    kernel = np.ones((2 * pixels + 1, 2 * pixels + 1), np.uint8)
    eroded_hw = cv2.erode(mask_hw.astype(np.uint8), kernel, borderValue=1)
    return np.asarray(eroded_hw, np.bool_)


def appearance(image_hwc: Image, mask_hw: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Describe colour and texture of pixels: moments, histograms, steps to the right and down."""
    pixel_n3 = image_hwc[mask_hw].astype(float)
    histogram_38 = [np.histogram(channel, 8, (0, 256))[0] / channel.size for channel in pixel_n3.T]
    grey_hw = cv2.cvtColor(image_hwc, cv2.COLOR_RGB2GRAY).astype(float)
    steps = []
    for axis in (1, 0):
        pair_hw = mask_hw & np.roll(mask_hw, -1, axis)
        step_n = (np.roll(grey_hw, -1, axis) - grey_hw)[pair_hw]
        steps += list(np.percentile(np.abs(step_n), (50, 80, 95))) if step_n.size else [0.0] * 3
    moments = [pixel_n3.mean(axis=0), pixel_n3.std(axis=0)]
    return np.concatenate([*moments, *histogram_38, steps])


def directions(image_hwc: Image) -> NDArray[np.float64]:
    """Measure the edges in each of twelve directions: walls stand, slopes lean."""
    grey_hw = cv2.GaussianBlur(cv2.cvtColor(image_hwc, cv2.COLOR_RGB2GRAY), (0, 0), 1.0)
    right_hw, down_hw = (cv2.Sobel(grey_hw, cv2.CV_64F, dx, 1 - dx) for dx in (1, 0))
    angle_hw = np.arctan2(down_hw, right_hw) % np.pi
    edge_d, _ = np.histogram(angle_hw, 12, (0, np.pi), weights=np.hypot(right_hw, down_hw))
    return edge_d / grey_hw.size


def accuracy(feature_nf: NDArray[np.float64], truth_n: NDArray[np.bool_]) -> float:
    """Return the balanced accuracy of a regularised linear classifier.

    Even rows train it, odd rows test it.
    """
    train, test = slice(0, None, 2), slice(1, None, 2)
    scale_f = feature_nf[train].std(axis=0) + 1e-9
    x_nf = (feature_nf - feature_nf[train].mean(axis=0)) / scale_f
    x_nf = np.concatenate([x_nf, np.ones((len(x_nf), 1))], axis=1)
    gram_ff = x_nf[train].T @ x_nf[train] + 3.0 * np.eye(x_nf.shape[1])
    weight_f = np.linalg.solve(gram_ff, x_nf[train].T @ np.where(truth_n[train], 1.0, -1.0))
    right_n = (x_nf[test] @ weight_f > 0) == truth_n[test]
    return float(np.mean([right_n[truth_n[test] == side].mean() for side in (False, True)]))


def accuracy_by_look(drawn: list[Drawn], rule: Rule) -> float:
    cases = [(d, pixels_of(d.label_hw, rule.no, rule.yes)) for d in drawn]
    cases = [(d, mask_hw) for d, mask_hw in cases if mask_hw.sum() > 30]
    feature_nf = np.array([appearance(d.image_hwc, mask_hw) for d, mask_hw in cases])
    return accuracy(feature_nf, np.array([getattr(d.facts, rule.fact) for d, _ in cases]))


EVIDENCE = {"night": (0.75, 1.0), "town": (0.2, 0.5), "pasture": (0.85, 1.0)}  # from row, to row


def accuracy_by_evidence(drawn: list[Drawn], fact: str) -> float:
    top, bottom = (int(SIZE[0] * row) for row in EVIDENCE[fact])
    bands = [d.image_hwc[top:bottom] for d in drawn]
    all_hw = np.ones(bands[0].shape[:2], bool)
    feature_nf = np.array([[*appearance(band, all_hw), *directions(band)] for band in bands])
    return accuracy(feature_nf, np.array([getattr(d.facts, fact) for d in drawn]))
