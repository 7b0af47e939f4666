"""The whole network: image -> backbone -> context -> classifier -> logits of its size."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from reconet.errors import DataError, RecipeError, pick, unknown
from reconet.models.backbone import (
    Backbone,
    Stem,
    StrideOn,
    check_backbone,
    check_backbone_name,
    complete_model,
    find_weights,
    load_backbone,
    make_backbone,
)
from reconet.models.backbone.base import MEAN, STD
from reconet.models.context import CONTEXTS
from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Logits, Stages
from reconet.models.head import AuxiliaryHead, LightDecoder, classifier
from reconet.models.heads import MapsToLogits
from reconet.recipes.schema import Data, Model, Recipe, validation_message
from reconet.recipes.values import no_truth_for_number
from reconet.types import MAX_CLASSES

T = TypeVar("T", Data, Model)

# Whole networks of a user by the name that files and recipes use, image_b3hw -> logits_bkhw. Each
# is called with the number of classes, and with its own options by name. Empty: they come from
# modules that a user imports (--import).
MODULES: dict[str, Callable[..., nn.Module]] = {}


class Segmenter(MapsToLogits):
    """A network from image_bchw, RGB, uint8 0..255 or float 0..1, to Logits."""

    mean_c11: Tensor
    std_c11: Tensor
    weights_from: str = ""  # which pretrained weights were loaded, and how many
    built_from: tuple[Model, tuple[int, int]] | None = None  # settings and crop, to build it again

    def __init__(
        self,
        backbone: Backbone,
        context: ContextModule,
        *,
        num_classes: int,
        aux: bool = True,
        decoder: LightDecoder | None = None,
        project: int | None = None,
        frozen: bool = False,
        mean: tuple[float, ...] = MEAN,
        std: tuple[float, ...] = STD,
    ) -> None:
        super().__init__()
        _check_classes(num_classes)
        check_backbone(backbone)
        self.num_classes, self.frozen = num_classes, frozen
        self.backbone = backbone
        self.project = None if project is None else nn.Conv2d(backbone.channels[3], project, 1)
        self.context = context
        self.classify = classifier(context.out_channels, num_classes)
        if context.gives_logits:
            self.classify = nn.Identity()  # type: ignore[assignment]
        self.decoder = decoder
        self.aux = AuxiliaryHead(backbone.channels[2], num_classes) if aux else None
        self.register_buffer("mean_c11", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std_c11", torch.tensor(std).view(3, 1, 1))
        for parameter in self.trunk_parameters():
            parameter.requires_grad_(parameter.requires_grad and not frozen)

    def forward(self, inputs: Tensor | Features, size: tuple[int, int] | None = None) -> Logits:
        """Return logits of `size`, by default the size of the image.

        `inputs` are image_bchw, or features that `trunk` computed earlier. Those need a `size`.
        """
        if isinstance(inputs, Features):
            features = Features(*(map_bchw.to(self.mean_c11.dtype) for map_bchw in inputs))
        else:
            if inputs.ndim != 4 or inputs.shape[1] != 3:
                raise ValueError(f"takes RGB images (b, 3, h, w), got {tuple(inputs.shape)}")
            size = size or (inputs.shape[2], inputs.shape[3])
            features = self.trunk(inputs)
        assert size is not None
        return self.logits(features, size)

    def coarse(self, image_bchw: Tensor) -> Tensor:
        """Return the main logits at the resolution of the network, not yet resized."""
        return self.coarse_from(self.trunk(image_bchw))

    def trunk(self, image_bchw: Tensor, *, stages: int = 4) -> Features:
        """Compute the features that the context reads: backbone, then projection if there is one.

        A frozen trunk keeps no graph. With fewer `stages` than four the later ones may be empty.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            image_bchw = self.normalise(image_bchw)
            if stages < 4:
                return self.backbone.first_stages(image_bchw, stages)
            features = Features(*self.backbone(image_bchw))
            if self.project is None:
                return features
            return features._replace(c4=self.project(features.c4))

    def trunk_parameters(self) -> list[nn.Parameter]:
        """List the parameters of backbone and projection."""
        parts = [self.backbone] if self.project is None else [self.backbone, self.project]
        return [parameter for part in parts for parameter in part.parameters()]

    def train(self, mode: bool = True) -> Self:
        """Set the mode. The statistics of a frozen backbone never move."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    @property
    def output_stride(self) -> int:
        """Return the stride of the coarsest map. A whole network of a user is trusted with 8."""
        return max(8, *self.backbone.strides)

    def normalise(self, image_bchw: Tensor) -> Tensor:
        """Normalise an image. The network does it, so that no caller or export can forget it."""
        scale = 1 if image_bchw.is_floating_point() else 255
        image_bchw = image_bchw.to(self.mean_c11.dtype) / scale
        return (image_bchw - self.mean_c11) / self.std_c11


def create_model(
    name: str = "reconet",
    *,
    num_classes: int,
    backbone: str = "resnet50",
    crop: int | tuple[int, int] = (512, 512),
    stem: Stem = "deep",
    stride_on: StrideOn = "3x3",
    output_stride: int = 8,
    width: float = 1.0,
    decoder: Literal["none", "light"] = "none",
    aux: bool = True,
    weights: str | None = None,
    project: int | None = None,
    frozen: bool = False,
    backbone_config: dict[str, Any] | None = None,
    **options: Any,
) -> Segmenter:
    """Build a network by the name of its context.

    `options` are those of the context, such as rank=16. `crop` is the (height, width) of training,
    by which some contexts size their weights. The network then runs at any size. `weights` are
    those of the backbone: "pretrained" or "imagenet", a hub id or a file. `backbone_config` builds
    a backbone hf:NAME without looking for its files.
    """
    settings = _checked(
        Model,
        backbone=backbone,
        backbone_config=backbone_config or {},
        stem=stem,
        stride_on=stride_on,
        output_stride=output_stride,
        width=width,
        weights=weights,
        project=project,
        frozen=frozen,
        context=name,
        options=options,
        decoder=decoder,
        aux=aux,
    )
    return _build(settings, _checked(Data, name="", crop=crop).crop, num_classes)


def build_model(recipe: Recipe, num_classes: int, *, pretrained: bool = True) -> Segmenter:
    """Build the network of a recipe. With pretrained=False no weights are loaded."""
    model = recipe.model
    if not pretrained:
        model = model.model_copy(update={"weights": None})
    return _build(model, recipe.data.crop, num_classes)


def complete_backbone(recipe: Recipe) -> Recipe:
    """Write what the files of a backbone tell into a recipe, which then needs them no more."""
    if recipe.model.module is not None:
        return recipe
    return recipe.model_copy(update={"model": complete_model(recipe.model)})


class WholeBackbone(Backbone):
    """A module whose logits stand for all four maps."""

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.module = module
        self.channels, self.strides = (num_classes,) * 4, (1,) * 4

    def forward(self, image_bchw: Tensor) -> Features:
        logits = self.module(image_bchw)
        classes = self.channels[0]
        if not isinstance(logits, Tensor) or logits.ndim != 4 or logits.shape[1] != classes:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise DataError(
                f"{type(self.module).__name__} must return logits (b, {classes}, h, w), one map "
                f"for each class; it returned {got}."
            )
        return Features(logits, logits, logits, logits)


class PassOn(ContextModule):
    """A context that does nothing, behind a module that gives logits."""

    info = ContextInfo(title="own network", paper="", idea="A network of your own.")
    gives_logits = True

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.out_channels = num_classes

    def forward(self, features: Features) -> Context:
        return Context(features.c4, {})


def wrap_module(
    module: nn.Module,
    num_classes: int,
    mean: tuple[float, ...] = (0.0, 0.0, 0.0),
    std: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> Segmenter:
    """Make a Segmenter of a whole network, image_b3hw -> logits_bkhw.

    The module gets RGB as float 0..1, minus `mean`, divided by `std`.
    """
    backbone = WholeBackbone(module, num_classes)
    context = PassOn(backbone.stages((1, 1)), num_classes=num_classes)
    return Segmenter(backbone, context, num_classes=num_classes, aux=False, mean=mean, std=std)


def _build(settings: Model, crop: tuple[int, int], num_classes: int) -> Segmenter:
    _check_classes(num_classes)
    options = check_model(settings)
    if settings.module is not None:
        model = wrap_module(MODULES[settings.module](num_classes, **options), num_classes)
        model.built_from = settings, crop
        return model
    settings = complete_model(settings)
    find_weights(settings)
    net = make_backbone(settings)
    loaded = ""
    if settings.weights is not None:
        count = len(load_backbone(net, settings.weights).loaded)
        loaded = f"{settings.weights}, {count} of {len(net.state_dict())} tensors of the backbone"
    stages = net.stages(crop)
    if settings.project is not None:
        stages = stages._replace(c4=replace(stages.c4, channels=settings.project))
    context = CONTEXTS[settings.context](stages, num_classes=num_classes, **options)
    decoder = None
    if settings.decoder == "light":
        decoder = LightDecoder(stages, channels=context.out_channels, num_classes=num_classes)
    model = Segmenter(
        net,
        context,
        num_classes=num_classes,
        aux=settings.aux,
        decoder=decoder,
        project=settings.project,
        frozen=settings.frozen,
        mean=tuple(net.input_mean),
        std=tuple(net.input_std),
    )
    model.weights_from, model.built_from = loaded, (settings, crop)
    return model


def _check_classes(num_classes: int) -> None:
    if not isinstance(num_classes, int) or not 1 <= num_classes <= MAX_CLASSES:
        raise RecipeError(
            f"num_classes must be from 1 to {MAX_CLASSES}, as labels have 8 bits; got "
            f"{num_classes}. Join rare classes, or leave them out."
        )


def _checked(kind: type[T], **values: Any) -> T:
    try:
        return kind(**values)
    except ValidationError as error:
        raise RecipeError(validation_message(error)) from error


def check_model(settings: Model) -> dict[str, Any]:
    """Check the names of a network's parts, and return the options of its context.

    model.rank is passed on to contexts that have a rank. The others ignore it, so that any recipe
    takes any context. Nothing is built.
    """
    options = dict[str, Any](settings.options)
    if settings.module is not None:
        make = pick(MODULES, settings.module, "module")
        hints = get_type_hints(make.__init__ if isinstance(make, type) else make)  # type: ignore[misc]
        return _check_options("module", settings.module, options, hints)
    check_backbone_name(settings)
    context = pick(CONTEXTS, settings.context, "context")
    hints = get_type_hints(context.__init__, include_extras=True)
    rank = settings.rank if "rank" in hints else None
    if rank is not None and options.setdefault("rank", rank) != rank:
        raise RecipeError("model.rank and model.options.rank differ; set one of them.")
    for option in options.keys() & context.info.removed.keys():
        raise RecipeError(f"option {settings.context}.{option} {context.info.removed[option]}.")
    return _check_options("context", settings.context, options, hints)


def _check_options(
    kind: str, name: str, options: Mapping[str, Any], hints: Mapping[str, Any]
) -> dict[str, Any]:
    """Check names and types of options, which come from files and command lines."""
    known, checked = hints.keys() - {"stages", "num_classes", "return"}, dict[str, Any]()
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of {kind} {name!r}:", option, known)
        try:
            read = TypeAdapter(hints[option]).validate_python
            checked[option] = no_truth_for_number(value, read)
        except ValidationError as error:
            raise RecipeError(validation_message(error, f"option {name}.{option}")) from error
        except ValueError as error:
            raise RecipeError(f"option {name}.{option}: {error}, got {value}.") from error
    return checked
