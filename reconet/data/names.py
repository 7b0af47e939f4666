"""Class names too many for the files of their datasets, and colours for any number of classes."""

from reconet.types import Colour


def colour_map(count: int, first: int = 0) -> tuple[Colour, ...]:
    """Entries first.. of the PASCAL VOC colour map.

    The bits of the number, three at a time from the lowest, become the bits of red, green and
    blue, from the highest: near numbers get far colours. Entry 0 is black, for a background.
    """
    return tuple(_colour(number) for number in range(first, first + count))


def _colour(number: int) -> Colour:
    red = green = blue = 0
    for place in range(8):
        red |= (number >> (3 * place) & 1) << (7 - place)
        green |= (number >> (3 * place + 1) & 1) << (7 - place)
        blue |= (number >> (3 * place + 2) & 1) << (7 - place)
    return red, green, blue


def _names(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(", "))


VOC = _names(
    """
    background, aeroplane, bicycle, bird, boat, bottle, bus, car, cat, chair, cow, diningtable, dog,
    horse, motorbike, person, pottedplant, sheep, sofa, train, tvmonitor
    """
)

ADE20K = _names(
    """
    wall, building, sky, floor, tree, ceiling, road, bed, windowpane, grass, cabinet, sidewalk,
    person, earth, door, table, mountain, plant, curtain, chair, car, water, painting, sofa, shelf,
    house, sea, mirror, rug, field, armchair, seat, fence, desk, rock, wardrobe, lamp, bathtub,
    railing, cushion, base, box, column, signboard, chest of drawers, counter, sand, sink,
    skyscraper, fireplace, refrigerator, grandstand, path, stairs, runway, case, pool table, pillow,
    screen door, stairway, river, bridge, bookcase, blind, coffee table, toilet, flower, book, hill,
    bench, countertop, stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade
    machine, hovel, bus, towel, light, truck, tower, chandelier, awning, streetlight, booth,
    television, airplane, dirt track, apparel, pole, land, bannister, escalator, ottoman, bottle,
    buffet, poster, stage, van, ship, fountain, conveyer belt, canopy, washer, plaything, swimming
    pool, stool, barrel, basket, waterfall, tent, bag, minibike, cradle, oven, ball, food, step,
    tank, trade name, microwave, pot, animal, bicycle, lake, dishwasher, screen, blanket, sculpture,
    hood, sconce, vase, traffic light, tray, ashcan, fan, pier, crt screen, plate, monitor, bulletin
    board, shower, radiator, glass, clock, flag
    """
)

COCO_STUFF = _names(
    """
    person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire
    hydrant, stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear,
    zebra, giraffe, backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports
    ball, kite, baseball bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine
    glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot
    dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop,
    mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock,
    vase, scissors, teddy bear, hair drier, toothbrush, banner, blanket, branch, bridge,
    building-other, bush, cabinet, cage, cardboard, carpet, ceiling-other, ceiling-tile, cloth,
    clothes, clouds, counter, cupboard, curtain, desk-stuff, dirt, door-stuff, fence, floor-marble,
    floor-other, floor-stone, floor-tile, floor-wood, flower, fog, food-other, fruit,
    furniture-other, grass, gravel, ground-other, hill, house, leaves, light, mat, metal,
    mirror-stuff, moss, mountain, mud, napkin, net, paper, pavement, pillow, plant-other, plastic,
    platform, playingfield, railing, railroad, river, road, rock, roof, rug, salad, sand, sea,
    shelf, sky-other, skyscraper, snow, solid-other, stairs, stone, straw, structural-other, table,
    tent, textile-other, towel, tree, vegetable, wall-brick, wall-concrete, wall-other, wall-panel,
    wall-stone, wall-tile, wall-wood, water-other, waterdrops, window-blind, window-other, wood
    """
)

PASCAL_CONTEXT = _names(
    """
    aeroplane, bag, bed, bedclothes, bench, bicycle, bird, boat, book, bottle, building, bus,
    cabinet, car, cat, ceiling, chair, cloth, computer, cow, cup, curtain, dog, door, fence, floor,
    flower, food, grass, ground, horse, keyboard, light, motorbike, mountain, mouse, person, plate,
    platform, pottedplant, road, rock, sheep, shelves, sidewalk, sign, sky, snow, sofa, table,
    track, train, tree, truck, tvmonitor, wall, water, window, wood
    """
)

SIFT_FLOW = _names(
    """
    awning, balcony, bird, boat, bridge, building, bus, car, cow, crosswalk, desert, door, fence,
    field, grass, moon, mountain, person, plant, pole, river, road, rock, sand, sea, sidewalk, sign,
    sky, staircase, streetlight, sun, tree, window
    """
)
