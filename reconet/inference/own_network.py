"""Use a network that was built in Python: as a Predictor, or as a file that every command takes."""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import JsonValue
from torch import nn

from reconet.data.classes import default_palette
from reconet.data.registry import with_absolute_root
from reconet.errors import CheckpointError, RecipeError
from reconet.models.segmenter import MODULES, Segmenter, build_model, wrap_module
from reconet.models.trained import NetworkInfo, TrainedNetwork, put_weights, save_trained
from reconet.recipes.schema import Data, Eval, Model, Recipe, Train
from reconet.system.own_code import imported_names
from reconet.types import Palette

UNKNOWN = "unknown"  # the dataset of a network that does not say which it was trained on
PLAIN = (0.0, 0.0, 0.0)  # the mean of an image that is not normalised
UNIT = (1.0, 1.0, 1.0)  # and its standard deviation
LARGEST_PROBE = 256  # pixels a side of the image that two networks are compared on


def save(
    model: nn.Module,
    *,
    classes: Sequence[str],
    path: str | Path,
    palette: Palette | None = None,
    recipe: Recipe | None = None,
    data: str | Data | None = None,
    options: dict[str, JsonValue] | None = None,
    mean: tuple[float, ...] = PLAIN,
    std: tuple[float, ...] = UNIT,
    step: int = 0,
    score: dict[str, float] | None = None,
) -> Path:
    """Write a network as one .safetensors file that every command takes.

    `model` is a Segmenter, or a module image_b3hw -> logits_bkhw that reconet.MODULES can make
    again. Such a module gets RGB as float 0..1, minus `mean`, divided by `std`. `data` is the
    dataset that `reconet evaluate` scores on: a name, or all settings of it. `options` are the
    arguments that the module was made with, beside the number of classes. `recipe` replaces what is
    derived from the model. Before writing, the network is built again and compared.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise CheckpointError(f"a network is saved as a .safetensors file, got {path}.")
    trained = describe_model(
        model,
        classes=classes,
        palette=palette,
        recipe=recipe,
        data=data,
        options=options,
        mean=mean,
        std=std,
        step=step,
        score=score,
    )
    _check_builds_again(trained)
    save_trained(path, trained)
    return path


def describe_model(
    model: nn.Module,
    *,
    classes: Sequence[str],
    palette: Palette | None = None,
    recipe: Recipe | None = None,
    data: str | Data | None = None,
    options: dict[str, JsonValue] | None = None,
    mean: tuple[float, ...] = PLAIN,
    std: tuple[float, ...] = UNIT,
    step: int = 0,
    score: dict[str, float] | None = None,
) -> TrainedNetwork:
    """Put a model together with all that one must know to use it. See `save`."""
    names = tuple(classes)
    if not names or isinstance(classes, str):
        raise RecipeError('classes are a list of names, such as ["road", "roof"].')
    colours = tuple(palette) if palette is not None else default_palette(names)
    if len(colours) != len(names):
        raise RecipeError(f"{len(colours)} colours for {len(names)} classes.")
    segmenter = model if isinstance(model, Segmenter) else wrap_module(model, len(names), mean, std)
    if segmenter.num_classes != len(names):
        raise RecipeError(f"the model has {segmenter.num_classes} classes, got {len(names)} names.")
    imports = imported_names()  # what --import has to name, for messages
    if not isinstance(model, Segmenter):
        home = getattr(sys.modules.get(type(model).__module__), "__file__", None)
        imports = tuple(dict.fromkeys([*imports, *([Path(home).name] if home else [])]))
    info = NetworkInfo(
        recipe=recipe or _derive_recipe(model, data, options),
        classes=names,
        palette=colours,
        step=step,
        score=score or {},
        imports=imports,
    )
    return TrainedNetwork(model=segmenter, info=info)


def _derive_recipe(
    model: nn.Module, data: str | Data | None, options: dict[str, JsonValue] | None
) -> Recipe:
    """Describe a model by a recipe. Images are shown whole, at their own size.

    How it was trained is not known, so those settings mean nothing.
    """
    kind = type(model)
    module = next((name for name, make in MODULES.items() if make is kind), kind.__name__)
    settings, size = Model(module=module, options=options or {}), {}
    if isinstance(model, Segmenter) and model.built_from is not None:
        built, crop = model.built_from
        settings = built.model_copy(update={"weights": None})
        size = {"crop": crop, "base_size": max(crop)}
    if not isinstance(data, Data):
        data = Data.model_validate({"name": data or UNKNOWN, **size})
    data = with_absolute_root(data)
    whole = Eval(mode="whole", relative_to="original")
    return Recipe(data=data, model=settings, train=Train(steps=1), eval=whole)


def _check_builds_again(trained: TrainedNetwork) -> None:
    """Raise if the recipe of a network does not make a network of the same weights."""
    name = trained.info.recipe.model.module
    if name == Segmenter.__name__:
        raise CheckpointError(
            "a file could not build this Segmenter again: make it by reconet.create_model, with "
            "its parts in reconet.BACKBONES and reconet.CONTEXTS, or pass its recipe."
        )
    if name is not None and name not in MODULES:
        raise CheckpointError(
            f"a file could not build {name} again: put reconet.MODULES[{name!r}] = {name} beside "
            "the class, in a file that --import can name."
        )
    again = build_model(trained.info.recipe, len(trained.info.classes), pretrained=False)
    put_weights(again, trained.model.state_dict(), Path("the model, built again with its options,"))
    height, width = (min(side, LARGEST_PROBE) for side in trained.info.recipe.data.crop)
    image_bchw = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
    model, was_training = trained.model, trained.model.training
    with torch.no_grad():
        one_bkhw = model.eval()(image_bchw.to(model.mean_c11.device)).main_bkhw.cpu()
        other_bkhw = again.eval()(image_bchw).main_bkhw
    model.train(was_training)
    tolerance = 1e-3 * max(float(one_bkhw.abs().amax()), 1e-6)
    if not torch.allclose(one_bkhw, other_bkhw, atol=tolerance, rtol=0):
        raise CheckpointError(
            "the model, built again from its file, computes something else: pass options={...}, "
            "the arguments that it was made with."
        )
