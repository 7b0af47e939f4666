"""Choose the settings of a training on somebody's own images, each with its reason.

`choose` is a pure function: facts in, a recipe and reasons out. docs/own-data.md has its rules as a
table. They are rules of thumb: they give a good start, not the best score.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from reconet.errors import DataError
from reconet.recipes import folder
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe

FEW_IMAGES = 50  # below them a whole network learns the images by heart
RARE = 0.01  # share of a class whose objects need more pixels
GRID = 16  # sides are multiples of it: the stride of the features
SMALLEST = 64
EPOCHS = 80
VIEWS = 1000  # of all images together
USABLE = 0.6  # of the free memory
WEIGHTS = 0.5e9  # bytes of weights, gradients and momenta, at most


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the rules know about the images and the machine."""

    images: int  # to train on
    val_images: int
    height: int  # of a typical image
    width: int
    shares: tuple[float, ...]  # of the labelled pixels, for each class
    device: str  # cpu or cuda
    memory: int  # free bytes of the device
    cores: int
    bf16: bool  # the device computes in bf16 as safely as in fp32
    pretrained: bool  # the backbone has weights to start from


class Chosen(NamedTuple):
    """A setting, its value as --set takes it, and why."""

    setting: str
    value: str
    reason: str


class Choice(NamedTuple):
    """A recipe, and where it differs from the one that it is made of."""

    recipe: Recipe
    base: str
    base_reason: str
    settings: tuple[Chosen, ...]


class Way(NamedTuple):
    """One way to train: its limits, and what an image costs."""

    base: str
    longest: int  # side of an image
    crop: int  # longest side of a crop
    batch: int
    lr: float  # for that batch
    steps: tuple[int, int]  # fewest and most
    bytes_per_pixel: int  # of activations, in fp32, while training


FROZEN = Way("folder/frozen", 304, 480, 16, 0.01, (300, 4000), 0)
WHOLE = Way("folder/reconet", 1040, 512, 8, 0.005, (1000, 20_000), 4700)
FRESH = Way("folder/reconet", 256, 256, 16, 0.06, (600, 6000), 780)
BASES = {"folder/frozen": folder.frozen, "folder/reconet": folder.reconet}
SMALL_NETWORK = (
    ("model.weights", "null", "there are no weights to start from"),
    ("model.backbone", "resnet18", "a small network: it learns from your images alone"),
    ("model.width", "0.5", "the same"),
    ("optim.head_lr_factor", "1", "head and backbone are equally new"),
)


def choose(facts: Facts) -> Choice:
    """Choose a recipe for these images on this machine."""
    if facts.images < 2 or facts.val_images < 1:
        raise DataError(
            f"{facts.images} images to train and {facts.val_images} to validate are too few: "
            "label some more."
        )
    way, reason = _way(facts)
    base = BASES[way.base]()
    small = SMALL_NETWORK if way is FRESH else ()
    settings = [Chosen(*one) for one in small]
    settings += _sizes(facts, way)
    batch = _batch(facts, way)
    settings += [
        Chosen("train.batch", str(batch), f"{facts.images} images: four steps or more an epoch"),
        *_micro_batch(facts, way, batch, _crop(facts, way)),
        *_length(facts, way, batch),
        Chosen("optim.lr", f"{way.lr * batch / way.batch:.2g}", f"{way.lr} for {way.batch} images"),
        *_machine(facts, way),
    ]
    recipe = apply_overrides(base, [f"{one.setting}={one.value}" for one in settings])
    return Choice(recipe, way.base, reason, tuple(settings))


def _way(facts: Facts) -> tuple[Way, str]:
    if not facts.pretrained:
        return FRESH, "everything is learned from your images: expect less from few of them"
    if facts.device == "cpu":
        return FROZEN, "there is no GPU: a frozen backbone sees each image once, the head learns"
    if facts.images < FEW_IMAGES:
        return FROZEN, f"fewer than {FEW_IMAGES} images: a whole network would learn them by heart"
    return WHOLE, "there is a GPU: the whole network is fine-tuned"


def _sizes(facts: Facts, way: Way) -> list[Chosen]:
    base, reason = _base_size(facts, way)
    height, width = _crop(facts, way)
    return [
        Chosen("data.base_size", str(base), reason),
        Chosen("data.crop", f"{height}x{width}", "the shape of your images at that size"),
    ]


def _base_size(facts: Facts, way: Way) -> tuple[int, str]:
    """Return the long side at which images are seen."""
    longest, reason = way.longest, f"images are {facts.width} x {facts.height}"
    rarest = min((share for share in facts.shares if share > 0), default=1.0)
    if way is FROZEN and rarest < RARE:
        longest = way.crop
        reason += f", and the rarest class has {100 * rarest:.2g} % of the pixels"
    side = min(longest, max(facts.height, facts.width))
    if side == longest:
        reason += f"; {longest} is enough, and quick"
    return max(SMALLEST, side // GRID * GRID), reason


def _crop(facts: Facts, way: Way) -> tuple[int, int]:
    """Return height and width of a crop: a typical image, up to the limit of the way."""
    base, _ = _base_size(facts, way)
    scale = base / max(facts.height, facts.width)
    sides = [ceil(side * scale / GRID) * GRID for side in (facts.height, facts.width)]
    height, width = (min(way.crop, max(SMALLEST, side)) for side in sides)
    return height, width


def _batch(facts: Facts, way: Way) -> int:
    """Return a power of two of which four fit into the images. Batch norm needs two."""
    batch = way.batch
    while batch > 2 and 4 * batch > facts.images:
        batch //= 2
    return batch


def _micro_batch(facts: Facts, way: Way, batch: int, crop: tuple[int, int]) -> list[Chosen]:
    image = way.bytes_per_pixel * crop[0] * crop[1] / (2 if facts.bf16 else 1)
    room = USABLE * facts.memory - WEIGHTS
    if batch * image <= room:
        return []
    fits = batch
    while fits > 2 and fits * image > room:
        fits //= 2
    reason = f"{facts.memory / 1e9:.1f} GB are free; gradients are added up"
    return [Chosen("train.micro_batch", str(fits), reason)]


def _length(facts: Facts, way: Way, batch: int) -> list[Chosen]:
    wanted = EPOCHS * facts.images // batch
    steps = min(max(wanted, way.steps[0]), way.steps[1])
    epochs = steps * batch / facts.images
    quarter = str(max(1, steps // 4))
    rows = [
        Chosen("train.steps", str(steps), f"each image is seen {epochs:.3g} times"),
        Chosen("train.eval_every", quarter, "four validations"),
        Chosen("train.save_every", str(min(200, max(1, steps // 4))), "a kill costs little"),
    ]
    if way is FROZEN:
        views = min(16, max(1, round(VIEWS / facts.images)))
        rows.append(Chosen("data.views", str(views), "crops of each image, computed once and kept"))
    return rows


def _machine(facts: Facts, way: Way) -> list[Chosen]:
    precision = "bf16" if facts.bf16 else "fp32"
    reason = (
        "this GPU has it, and it is faster"
        if facts.bf16
        else f"exact, and safe on a {facts.device}"
    )
    workers = max(0, min(8, facts.cores - 1))
    return [
        Chosen("train.precision", precision, reason),
        Chosen("data.workers", str(workers), f"{facts.cores} cores, one of them trains"),
    ]
