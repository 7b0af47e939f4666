"""Define every setting of an experiment. A recipe is plain, frozen, printable and comparable."""

from collections.abc import Iterator
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from reconet.recipes.values import (
    DEEPEST,
    HUB_PREFIX,
    LONGEST_TEXT,
    BackboneConfig,
    ClassWeights,
    Count,
    Fraction,
    Options,
    Positive,
    Real,
    Seed,
    Side,
    Size,
    Weight,
    Zoom,
    no_truth_for_number,
    rising,
)

LONGEST = 100  # a wrong value with more letters is not repeated in the message
MOST_PROBLEMS = 5  # that a message lists: a list of a million wrong values has a million


class Settings(BaseModel):
    """A group of settings: frozen, closed, and documented by the line under each of them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        str_max_length=LONGEST_TEXT,
    )

    _no_truth_for_number = field_validator("*", mode="wrap")(no_truth_for_number)


class Augment(Settings):
    """Random changes of training images beyond scale, crop and mirror; all are off by default."""

    brightness: Fraction = 0.0
    """make images brighter or darker by up to this share"""
    contrast: Fraction = 0.0
    """make contrasts larger or smaller by up to this share"""
    saturation: Fraction = 0.0
    """make colours stronger or weaker by up to this share"""
    hue: Annotated[Real, Field(ge=0, le=0.5)] = 0.0
    """turn colours by up to this share of the colour circle, both ways"""
    blur: Annotated[Real, Field(ge=0, le=20)] = 0.0
    """blur half of the images, with a sigma of up to this many pixels"""
    jpeg: Annotated[int, Field(ge=1, le=100, strict=True)] | None = None
    """give half of the images the noise of a JPEG, of this quality at the worst"""
    rotation: Annotated[Real, Field(ge=0, le=180)] = 0.0
    """rotate images by up to this many degrees, both ways"""
    flip_vertical: bool = False
    """mirror half of the images top to bottom, for images that have no up"""
    turn: bool = False
    """turn images by 0, 90, 180 or 270 degrees, for images that have no up"""
    erase: Annotated[Real, Field(ge=0, le=0.5)] = 0.0
    """cover a rectangle of up to this share of the crop, in half of the images"""


class Data(Settings):
    """The images to train and validate on, and how to augment them."""

    name: str
    """a dataset of `reconet data list`"""
    root: Path | None = None
    """where its files are; by default $RECONET_DATA/<name>"""
    train_split: str = "train"
    """the images to learn from"""
    val_split: str = "val"
    """the images to score on"""
    base_size: Side = 520
    """length of the long side that a scale of 1 means"""
    crop: Size = (512, 512)
    """height and width of a training crop"""
    scale: Annotated[tuple[Zoom, Zoom], AfterValidator(rising)] = (0.5, 2.0)
    """range of random scales, relative to base_size"""
    flip: bool = True
    """mirror half of the images"""
    augment: Augment = Augment()
    """further changes of the images"""
    views: Annotated[int, Field(gt=0, le=1000, strict=True)] | None = None
    """augmented views of each image, drawn once, whose features are cached; needs model.frozen"""
    view_seed: Seed = 0
    """another seed, other views"""
    project_split: str | None = None
    """split whose images model.project is fitted to; by default the training split"""
    workers: Annotated[int, Field(ge=0, le=1024)] = 2
    """processes that read and augment; 0 reads in the training process"""
    on_error: Literal["raise", "skip"] = "raise"
    """what to do with an image that cannot be read"""
    options: Options = {}
    """options of this dataset alone, such as the class names of `folder`"""

    @property
    def title(self) -> str:
        """Return the name of the dataset for people. A folder of images is called by its own."""
        title = self.options.get("title")
        if isinstance(title, str) and title:
            return title
        if self.name != "folder":
            return self.name
        return self.root.expanduser().absolute().name if self.root else "own images"


class Model(Settings):
    """The network: backbone, context and classifiers."""

    backbone: str = "resnet101"
    """resnet18 to resnet152, mobilenet_v2, hf:HUB_ID, hf:FOLDER or timm:NAME (docs/backbones.md)"""
    backbone_config: BackboneConfig = {}
    """what an hf: backbone is built from; read from its hub id or folder if it is empty"""
    stem: Literal["deep", "deep32", "plain"] = "deep"
    """three 3x3 convolutions (the paper), narrow ones (mmsegmentation) or one 7x7 (torchvision)"""
    stride_on: Literal["3x3", "1x1"] = "3x3"
    """which convolution of a bottleneck has the stride: torchvision and timm, or Caffe and Keras"""
    output_stride: Literal[8, 16, 32] = 8
    """input pixels per feature of the last stage, for ResNet, MobileNetV2 and ConvNeXt"""
    width: Zoom = 1.0
    """factor on the backbone's channels"""
    weights: str | None = None
    """weights of the backbone: "pretrained" or "imagenet" (its public ones), a timm id, a file"""
    frozen: bool = False
    """keep the backbone as it is: no gradients, no moving statistics"""
    project: Annotated[int, Field(ge=4, le=2**14, strict=True)] | None = None
    """principal components that the last stage is projected to; by default it is not projected"""
    context: str = "reconet"
    """the method between backbone and classifier"""
    rank: Annotated[int, Field(gt=0, le=2**15, strict=True)] | None = None
    """ranks of a low-rank tensor, by default the context's own number; others ignore it"""
    options: Options = {}
    """other options of the context"""
    decoder: Literal["none", "light"] = "none"
    """light: correct the logits at stride 4 by the finer maps c1 and c2, for thin structures"""
    aux: bool = True
    """auxiliary classifier on the third stage, in training only"""
    module: str | None = None
    """a whole network of your own (docs/python.md), instead of backbone and context"""

    @property
    def title(self) -> str:
        """Return the name of the network for people."""
        return self.module or f"{self.context} on {self.backbone_title}"

    @property
    def backbone_title(self) -> str:
        """Return the name of the backbone for people: of a folder or hub id, that alone."""
        if not self.backbone.startswith(HUB_PREFIX):
            return self.backbone
        name = self.backbone.removeprefix(HUB_PREFIX)
        return Path(name).name if name.startswith((".", "/", "~")) else name

    @property
    def geometry(self) -> str:
        """Describe stride and width, for backbones that take them from here."""
        if self.backbone.startswith(HUB_PREFIX):
            return ""
        return f", output stride {self.output_stride}, width {self.width:g}"

    @property
    def short_name(self) -> str:
        """Return the name of what makes the network special: its context, or itself."""
        return self.module or self.context


class Loss(Settings):
    """What the training minimises: a sum of terms with these weights (docs/losses.md)."""

    cross_entropy: Weight = 1.0
    """weight of the cross entropy, the usual loss; 0 leaves it out"""
    focal: Weight = 0.0
    """weight of the focal loss: cross entropy that counts pixels less which are right already"""
    dice: Weight = 0.0
    """weight of the dice loss: overlap of regions, every class of an image counts the same"""
    lovasz: Weight = 0.0
    """weight of the Lovasz-softmax loss: IoU of regions, every class of an image counts the same"""
    focal_gamma: Annotated[float, Field(ge=1, le=10)] = 2.0
    """exponent of the focal loss; larger ones count easy pixels less"""
    aux_weight: Weight = 0.2
    """weight of the auxiliary classifier's loss"""
    stride: Annotated[int, Field(gt=0, le=64, strict=True)] = 1
    """learn from every n-th row and column of the labels, at 1/n of the logits' size"""
    ohem: Fraction | None = None
    """learn only from pixels whose true class has less than this probability"""
    ohem_min_kept: Annotated[int, Field(ge=0, le=10**9)] = 10_000
    """but learn from at least this many pixels of each image, the hardest ones"""
    class_weights: ClassWeights | None = None
    """one weight per class, or "balanced": large for classes that have few training pixels"""


class Optim(Settings):
    """How the weights are updated."""

    kind: Literal["sgd", "adamw"] = "sgd"
    """stochastic gradient descent (the paper), or AdamW, for ConvNeXt and transformers"""
    lr: Positive = 0.01
    """base learning rate, decayed by (1 - step/steps)^power"""
    warmup: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 0
    """steps in which the learning rate rises from almost zero to that decay"""
    power: Positive = 0.9
    """exponent of the decay"""
    head_lr_factor: Positive = 10.0
    """factor on the learning rate of all layers after the backbone"""
    layer_decay: Annotated[Real, Field(gt=0, le=1)] = 1.0
    """factor on the learning rate of each layer of the backbone, from its last to its first"""
    core_lr_factor: Weight = 1.0
    """further factor on the learning rate of the context's core; 0 freezes it"""
    momentum: Annotated[Real, Field(ge=0, lt=1)] = 0.9
    """momentum of stochastic gradient descent; the first of the two betas of AdamW"""
    weight_decay: Weight = 1e-4
    """weight decay; AdamW has none on biases, norms, tokens and positions"""
    clip: Positive | None = None
    """largest norm of the gradient"""


class Train(Settings):
    """Length, batches, precision and checkpoints of a training."""

    epochs: Count | None = None
    """length of the training in passes over the images; setting it clears steps"""
    steps: Count | None = None
    """the same in optimiser steps, epochs x floor(images / batch); setting it clears epochs"""
    batch: Count = 16
    """images in one optimiser step, over all processes"""
    micro_batch: Count | None = None
    """largest number of images that one process computes at once; gradients are accumulated"""
    seed: Seed = 0
    """determines order, augmentation, dropout and initial weights"""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """number format of autocast, and of the features that a training computes for the cache"""
    channels_last: bool = False
    """memory layout of the images and weights"""
    deterministic: bool = False
    """same bits on every run, at some cost in speed"""
    ema: Annotated[Real, Field(gt=0, lt=1)] | None = None
    """decay of a running mean of the weights; if set, the mean is evaluated and saved"""
    init_from: Path | None = None
    """start from the weights of another run, of a network of `reconet zoo`, or of another study"""
    save_every: Count = 1000
    """steps between checkpoints"""
    eval_every: Count = 1000
    """steps between validations"""
    patience: Count | None = None
    """stop after so many validations without a better score; by default never"""
    log_every: Count = 10
    """steps between lines of the log"""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("takes exactly one of train.epochs and train.steps")
        return self


class Eval(Settings):
    """How images are predicted when a network is evaluated or used."""

    mode: Literal["slide", "whole"] = "whole"
    """the whole image at once, as in validations, or windows of the crop's size, as in the paper"""
    scales: Annotated[tuple[Zoom, ...], Field(min_length=1)] = (1.0,)
    """probabilities are averaged over these"""
    flip: bool = False
    """also average over the mirror image"""
    relative_to: Literal["base_size", "short_side", "original"] = "base_size"
    """what a scale of 1 means: the long or short side is data.base_size, or the image as it is"""


class Recipe(Settings):
    """All settings of one experiment."""

    data: Data
    model: Model = Model()
    loss: Loss = Loss()
    optim: Optim = Optim()
    train: Train
    eval: Eval = Eval()


def list_settings(recipe: Recipe) -> Iterator[tuple[str, object, str]]:
    """List every setting as (dotted name, value, one line of explanation)."""
    for group, model in recipe:
        yield from _list_group(group, model)


def _list_group(group: str, model: Settings) -> Iterator[tuple[str, object, str]]:
    values = model.model_dump(mode="json")
    for name, field in type(model).model_fields.items():
        inner = getattr(model, name)
        if isinstance(inner, Settings):
            yield from _list_group(f"{group}.{name}", inner)
        else:
            yield f"{group}.{name}", values[name], field.description or ""


def validation_message(error: ValidationError, *within: str) -> str:
    """Describe what is wrong in one line, each setting with its dotted name.

    The names begin with `within`, for settings inside something else.
    """
    found = error.errors(include_url=False, include_context=False)
    # If a part of a value is wrong, pydantic complains of the whole too.
    wholes = {problem["loc"][:end] for problem in found for end in range(len(problem["loc"]))}
    wrong = [problem for problem in found if problem["loc"] not in wholes]
    problems = []
    for problem in wrong[:MOST_PROBLEMS]:
        names = [part for part in map(str, (*within, *problem["loc"])) if not part.startswith("=")]
        where = ".".join(names) or "recipe"
        where = " ".join(where.split())  # a key in a file may hold line breaks
        text = problem["msg"].removeprefix("Value error, ")
        text = text[0].lower() + text[1:]
        got = _shown(problem["input"])
        problems.append(f"{_cut(where)}: {_cut(text)}" + (f", got {got}" if got else ""))
    more = len(wrong) - len(problems)
    return "; ".join(problems) + (f"; and {more:,} more." if more else ".")


def _shown(value: object) -> str:
    """Show a wrong value if it is short, and nothing of a long one or of a table."""
    if isinstance(value, dict):
        return ""
    short = Repr()  # unlike repr(), it does not follow a million lists in one another
    short.maxlevel, short.maxlist, short.maxtuple = DEEPEST, LONGEST, LONGEST
    short.maxstring = short.maxother = short.maxlong = 2 * LONGEST
    text = short.repr(value)
    return text if len(text) <= LONGEST else ""


def _cut(text: str) -> str:
    return text if len(text) <= 3 * LONGEST else f"{text[: 3 * LONGEST]} ..."
