"""Heads for anybody's backbone: a context, its classifier and its losses, from maps to logits.

maps, fine to coarse -> context -> classifier -> logits of the size that you ask for

head = reconet.create_head("reconet_plus", channels=(256, 512, 1024, 2048),
                           strides=(4, 8, 16, 16), num_classes=21, crop=(512, 512))
logits = head(maps, size=(512, 512))      # logits.main_bkhw
head.loss(logits, label_bhw).backward()
head.after_step()                         # after each optimiser step
"""

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context import CONTEXTS
from reconet.models.context.base import ContextModule
from reconet.models.features import Features, Logits, Stages, stages_of
from reconet.models.head import READS, AuxiliaryHead, LightDecoder, classifier
from reconet.models.layers import resize
from reconet.models.losses import segmentation_loss
from reconet.recipes.schema import Loss, Model

STAGES = ("c1", "c2", "c3", "c4")


class MapsToLogits(nn.Module):
    """What follows a backbone: context, classifier, decoder and auxiliary classifier.

    A subclass makes these parts.
    """

    context: ContextModule
    classify: nn.Conv2d  # nn.Identity for a context that gives logits
    decoder: LightDecoder | None
    aux: AuxiliaryHead | None

    def logits(self, features: Features, size: tuple[int, int]) -> Logits:
        """Return logits of a size. Parts that only a training needs are empty in eval mode."""
        context = self.context(features)
        main_bkhw = resize(self.classify_map(context.map_bdhw, features), size)
        if not self.training:
            return Logits(main_bkhw, None, {})
        aux_bkhw = None if self.aux is None else resize(self.aux(features.c3), size)
        return Logits(main_bkhw, aux_bkhw, context.extra)

    def coarse_from(self, features: Features) -> Tensor:
        """Return the main logits at the resolution of the maps, not yet resized."""
        return self.classify_map(self.context(features).map_bdhw, features)

    def classify_map(self, map_bdij: Tensor, features: Features) -> Tensor:
        """Return the main logits of a context's map, corrected by the decoder if there is one."""
        coarse_bkij: Tensor = self.classify(map_bdij)
        if self.decoder is None:
            return coarse_bkij
        logits_bkhw: Tensor = self.decoder(coarse_bkij, map_bdij, features)
        return logits_bkhw

    @property
    def stages_read(self) -> tuple[str, ...]:
        """Return the maps of the backbone that context and decoder read."""
        own = READS if self.decoder is not None else ()
        return tuple(sorted({*self.context.stages_read, *own}))


class Head(MapsToLogits):
    """A head without a backbone: maps, fine to coarse, or one map -> Logits."""

    def __init__(
        self,
        context: ContextModule,
        stages: Stages,
        *,
        channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        aux: bool,
        decoder: bool,
    ) -> None:
        super().__init__()
        self.channels, self.strides = tuple(channels), tuple(strides)
        self.context = context
        self.classify = classifier(context.out_channels, num_classes)
        if context.gives_logits:
            self.classify = nn.Identity()  # type: ignore[assignment]
        self.decoder = None
        if decoder:
            width = context.out_channels
            self.decoder = LightDecoder(stages, channels=width, num_classes=num_classes)
        self.aux = AuxiliaryHead(stages.c3.channels, num_classes) if aux else None

    def forward(
        self, maps: Tensor | Sequence[Tensor], size: tuple[int, int] | None = None
    ) -> Logits:
        """Return logits of `size`, by default that of the image that the maps come from."""
        maps = [maps] if isinstance(maps, Tensor) else list(maps)
        found = tuple(x_bchw.shape[1] for x_bchw in maps)
        if found != self.channels:
            raise ValueError(f"takes maps of {self.channels} channels, got {found}")
        if size is None:
            rows, columns = maps[-1].shape[2:]
            size = rows * self.strides[-1], columns * self.strides[-1]
        return self.logits(Features(*_last_four(maps)), size)

    def loss(self, logits: Logits, label_bhw: Tensor, settings: Loss | None = None) -> Tensor:
        """Return the loss as in our trainings, with the context's own part. 255 is void."""
        own = self.context.loss(logits.extra, label_bhw)
        return segmentation_loss(logits, label_bhw, settings or Loss()) + own

    def after_step(self) -> None:
        """Update state that moves without a gradient. Call it after every optimiser step."""
        self.context.after_step()


def list_contexts() -> list[str]:
    """List the names of all contexts, for create_head and create_model."""
    return sorted(CONTEXTS)


def create_head(
    name: str,
    *,
    channels: int | Sequence[int],
    strides: int | Sequence[int],
    num_classes: int,
    crop: int | tuple[int, int] = (512, 512),
    aux: bool = False,
    decoder: Literal["none", "light"] = "none",
    **options: Any,
) -> Head:
    """Build a head by the name of its context, for maps with these channels and strides.

    The maps go from fine to coarse, as timm, smp, torchvision and transformers give them. Of more
    than four the last four are read. `crop` is the (height, width) of the images in training, by
    which some contexts size their weights. The head then runs at any size. `options` are those of
    the context, such as rank=16. `aux` adds an auxiliary classifier on the last map but one.
    """
    channels = (channels,) if isinstance(channels, int) else tuple(channels)
    strides = (strides,) if isinstance(strides, int) else tuple(strides)
    crop = (crop, crop) if isinstance(crop, int) else crop
    if not channels or len(channels) != len(strides) or min(*channels, *strides, *crop) < 1:
        raise RecipeError(
            f"a head takes the channels and strides of its maps, fine to coarse; got channels "
            f"{channels}, strides {strides} and crop {crop}."
        )
    from reconet.models.segmenter import check_model

    if decoder not in ("none", "light"):
        raise RecipeError(f"decoder is none or light, got {decoder!r}.")
    options = check_model(Model(context=name, options=options))
    stages = stages_of(_last_four(channels), _last_four(strides), crop)
    context = CONTEXTS[name](stages, num_classes=num_classes, **options)
    head = Head(
        context,
        stages,
        channels=channels,
        strides=strides,
        num_classes=num_classes,
        aux=aux,
        decoder=decoder == "light",
    )
    read = {*head.stages_read, *(["c3"] if aux else [])}
    if read & set(STAGES[: max(0, 4 - len(channels))]):
        raise RecipeError(
            f"this head reads {', '.join(sorted(read))} of the four maps c1 to c4, and got "
            f"{len(channels)}, the coarsest. Give it finer maps too."
        )
    return head


def _last_four(maps: Sequence[Any]) -> list[Any]:
    """Return four maps. Of fewer, the finest stands for those that nobody reads."""
    return [maps[0]] * (4 - len(maps)) + list(maps[-4:])
