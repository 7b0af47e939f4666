"""Print the figures of docs/scenes.md: `.venv/bin/python -m tools.measure_scenes`.

The first 200 images of seed 0 show how common each class is, and how far a thing is from its
evidence. A linear classifier then tries to find a class by the look of the thing alone, and a fact
by the part of the image that holds the evidence. tests/data/scenes/ demands the same.
"""

import time

import cv2
import numpy as np

from reconet.data.scenes.generate import CLASSES, World, facts_of, scene
from reconet.types import IGNORE
from tests.data.scenes import test_generate as test

IMAGES = 200
# A missing fence is evidence too, but has no distance.
EVIDENCE = {"night": ("ground", "house"), "town": ("mountain", "house"), "pasture": ("fence",)}


def common(drawn: list[test.Drawn]) -> None:
    label_nhw = np.stack([d.label_hw for d in drawn])
    for index, name in enumerate(CLASSES):
        there_nhw = label_nhw == index
        images = there_nhw.any((1, 2)).mean()
        print(f"{name:10} in {images:4.0%} of images, {there_nhw.mean():6.1%} of pixels")
    print(f"void       {(label_nhw == IGNORE).mean():.1%} of pixels")


def far(drawn: list[test.Drawn], rule: test.Rule) -> None:
    distances = []
    for d in drawn:
        evidence_hw = test.of(d.label_hw, *EVIDENCE[rule.fact])
        thing_hw = test.of(d.label_hw, rule.no, rule.yes)
        if evidence_hw.any() and thing_hw.any():
            away_hw = cv2.distanceTransform((~evidence_hw).astype(np.uint8), cv2.DIST_L2, 5)
            distances.append(away_hw[thing_hw])
    low, middle, high = np.percentile(np.concatenate(distances), (10, 50, 90))
    print(f"{rule.no}/{rule.yes}: {middle:.0f} ({low:.0f} to {high:.0f}) pixels from its evidence")


def main() -> None:
    start = time.perf_counter()
    drawn = [test.Drawn(*scene(0, i, test.SIZE), facts_of(0, i)) for i in range(test.COUNT)]
    print(f"{60 * test.COUNT / (time.perf_counter() - start):.0f} images a minute")
    common(drawn[:IMAGES])
    for rule in test.RULES:
        far(drawn[:IMAGES], rule)
        print(f"    told by its look: {test.told_by_its_look(drawn, rule):.0%}")
    for fact in World._fields:
        print(f"{fact} told by its evidence: {test.told_by_the_evidence(drawn, fact):.0%}")


if __name__ == "__main__":
    main()
