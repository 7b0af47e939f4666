"""Print the figures of docs/scenes.md: `.venv/bin/python -m benchmarks.scenes`.

The first 200 images of seed 0 show how common each class is, and how far a thing is from its
evidence. A linear classifier then tries to find a class by the look of the thing alone, and a fact
by the part of the image that holds the evidence. tests/data/scenes/ demands the same.
"""

import time

import cv2
import numpy as np

from reconet.data.scenes.generate import CLASSES, SceneFacts
from reconet.types import IGNORE
from tests.data.scenes import measures

IMAGES = 200
# A missing fence is evidence too, but has no distance.
EVIDENCE = {"night": ("ground", "house"), "town": ("mountain", "house"), "pasture": ("fence",)}


def print_frequencies(drawn: list[measures.Drawn]) -> None:
    label_nhw = np.stack([d.label_hw for d in drawn])
    for index, name in enumerate(CLASSES):
        there_nhw = label_nhw == index
        images = there_nhw.any((1, 2)).mean()
        print(f"{name:10} in {images:4.0%} of images, {there_nhw.mean():6.1%} of pixels")
    print(f"void       {(label_nhw == IGNORE).mean():.1%} of pixels")


def print_distance(drawn: list[measures.Drawn], rule: measures.Rule) -> None:
    distances = []
    for d in drawn:
        evidence_hw = measures.pixels_of(d.label_hw, *EVIDENCE[rule.fact])
        thing_hw = measures.pixels_of(d.label_hw, rule.no, rule.yes)
        if evidence_hw.any() and thing_hw.any():
            away_hw = cv2.distanceTransform((~evidence_hw).astype(np.uint8), cv2.DIST_L2, 5)
            distances.append(away_hw[thing_hw])
    low, middle, high = np.percentile(np.concatenate(distances), (10, 50, 90))
    print(f"{rule.no}/{rule.yes}: {middle:.0f} ({low:.0f} to {high:.0f}) pixels from its evidence")


def main() -> None:
    start = time.perf_counter()
    drawn = measures.draw_scenes()
    print(f"{60 * measures.COUNT / (time.perf_counter() - start):.0f} images a minute")
    print_frequencies(drawn[:IMAGES])
    for rule in measures.RULES:
        print_distance(drawn[:IMAGES], rule)
        print(f"    class found by its look: {measures.accuracy_by_look(drawn, rule):.0%}")
    for fact in SceneFacts._fields:
        print(f"{fact} found by its evidence: {measures.accuracy_by_evidence(drawn, fact):.0%}")


if __name__ == "__main__":
    main()
