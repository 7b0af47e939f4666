"""Choose the settings of a training on somebody's own images, each with its reason.

`choose` is a pure function: facts in, a recipe and reasons out.
They are rules of thumb: they give a good start, not the best score.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from reconet.errors import DataError
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.registry import RECIPES
from reconet.recipes.schema import Recipe

FEW_IMAGES = 50  # below them a whole network learns the images by heart
RARE = 0.01  # share of a class whose objects need more pixels
GRID = 16  # sides are multiples of it: the stride of the features
SMALLEST = 64
SEEN = 8  # pixels, half a cell of the features: what is thinner is easily missed
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
    thin: int | None  # pixels: how wide the thinnest class is, in the median
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
    way, why = _way(facts)
    batch = _batch(facts, way)
    settings = [
        *(Chosen(*one) for one in SMALL_NETWORK if way is FRESH),
        *_sizes(facts, way, batch),
        *_length(facts, way, batch),
        *_machine(facts),
    ]
    recipe = apply_overrides(
        RECIPES[way.base].make(), [f"{one.setting}={one.value}" for one in settings]
    )
    return Choice(recipe, way.base, why, tuple(settings))


def _way(facts: Facts) -> tuple[Way, str]:
    if not facts.pretrained:
        return FRESH, "everything is learned from your images: expect less from few of them"
    if facts.device == "cpu":
        return FROZEN, "there is no GPU: a frozen backbone sees each image once, the head learns"
    if facts.images < FEW_IMAGES:
        return FROZEN, f"fewer than {FEW_IMAGES} images: a whole network would learn them by heart"
    return WHOLE, "there is a GPU: the whole network is fine-tuned"


def _sizes(facts: Facts, way: Way, batch: int) -> list[Chosen]:
    """Choose the long side at which images are seen, the shape of a crop, and how many fit."""
    longest, reason = way.longest, f"images are {facts.width} x {facts.height}"
    rarest = min((share for share in facts.shares if share > 0), default=1.0)
    if way is FROZEN and rarest < RARE:
        longest = way.crop
        reason += f", and the rarest class has {100 * rarest:.2g} % of the pixels"
    side = max(facts.height, facts.width)
    if facts.thin is not None and facts.thin * min(1, longest / side) < SEEN:
        longest = max(longest, way.crop)
        reason += (
            f", and the thinnest class is {facts.thin} pixels wide: if it is missed, try "
            f"data.base_size={side} and model.decoder=light"
        )
    if side >= longest:
        reason += f"; {longest} is enough, and quick"
    base = max(SMALLEST, min(longest, side) // GRID * GRID)
    grids = [ceil(part * base / side / GRID) * GRID for part in (facts.height, facts.width)]
    height, width = (min(way.crop, max(SMALLEST, part)) for part in grids)
    rows = [
        Chosen("data.base_size", str(base), reason),
        Chosen("data.crop", f"{height}x{width}", "the shape of your images at that size"),
        Chosen("train.batch", str(batch), f"{facts.images} images: four steps or more an epoch"),
    ]
    image = way.bytes_per_pixel * height * width / (2 if facts.bf16 else 1)
    room = USABLE * facts.memory - WEIGHTS
    fits = batch
    while fits > 2 and fits * image > room:
        fits //= 2
    if batch * image > room:
        reason = f"{facts.memory / 1e9:.1f} GB are free; gradients are added up"
        rows.append(Chosen("train.micro_batch", str(fits), reason))
    return rows


def _batch(facts: Facts, way: Way) -> int:
    """Return a power of two of which four fit into the images. Batch norm needs two."""
    batch = way.batch
    while batch > 2 and 4 * batch > facts.images:
        batch //= 2
    return batch


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
    lr = f"{way.lr * batch / way.batch:.2g}"
    return [*rows, Chosen("optim.lr", lr, f"{way.lr} for {way.batch} images")]


def _machine(facts: Facts) -> list[Chosen]:
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
