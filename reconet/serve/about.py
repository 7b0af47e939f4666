"""Describe the network for the page and for programs, and give it example images."""

from functools import lru_cache

from reconet.cost import recipe_costs
from reconet.data import Dataset, evenly_spaced, open_split
from reconet.data.classes import photograph_palette
from reconet.data.dataset import read_options, title_of
from reconet.data.scenes import SCENES, ScenesOptions
from reconet.data.scenes.generate import scene
from reconet.errors import RecipeError, ReconetError
from reconet.inference import Predictor, Protocol
from reconet.models.trained import NetworkInfo
from reconet.recipes import without_paths
from reconet.serve.explore import count_ranks
from reconet.serve.schemas import ClassInfo, Example, Examples, Fact, ModelInfo, UploadLimits
from reconet.serve.server import Limits
from reconet.system.readable import counted
from reconet.types import Image

SCORES = {"miou": "mean IoU", "pixel_accuracy": "pixel accuracy"}  # shown to people
EXAMPLES = 8
DEFAULT_SIZE = (240, 320)  # a network that was trained on scenes gets the size of its recipe


def describe_model(predictor: Predictor, limits: Limits) -> ModelInfo:
    """Describe a network. Paths of the machine that trained it are left out."""
    info, recipe = predictor.network.info, predictor.network.info.recipe
    (height, width), key = recipe.data.crop, recipe.model.context
    try:  # counted from the recipe, which exported files have too; tiny crops have no cost
        cost = recipe_costs(recipe, [key], recipe.data.crop, len(info.classes))[key]
    except ReconetError:
        cost = None
    ranks = count_ranks(predictor.network.model)
    facts = {
        "context": recipe.model.context,
        "backbone": f"{recipe.model.backbone_title}{recipe.model.geometry}",
    }
    if recipe.model.module is not None:
        facts = {"network": f"{recipe.model.module}, not of this package"}
    facts["trained on"] = (
        f"{recipe.data.title}, {counted(len(info.classes), 'class')}, "
        f"crops of {height} x {width}, {counted(info.step, 'step')}"
    )
    if ranks:
        facts["ranks"] = str(ranks)
    in_training = Protocol.in_training(recipe.data).name
    for name, title in SCORES.items():
        if name in info.score:
            facts[title] = f"{100 * info.score[name]:.1f} %, in training ({in_training})"
    if cost is not None:
        facts["parameters"] = _abbreviate(cost.total.params)
        facts["multiply-adds"] = f"{_abbreviate(cost.total.macs)} for {height} x {width}"
        for core in (part for part in cost.parts if part.name == "core"):
            params = f"{_abbreviate(core.params)} parameters"
            facts["of that, the core"] = f"{_abbreviate(core.macs)}, {params}"
    facts["runs as"] = f"{predictor.network.how} on {predictor.device}"
    facts["protocol"] = str(predictor.protocol)
    return ModelInfo(
        title=f"{recipe.model.title}, trained on {recipe.data.title}",
        context=recipe.model.short_name,
        backbone="" if recipe.model.module else recipe.model.backbone,
        dataset=recipe.data.name,
        classes=[
            ClassInfo(name=name, colour=colour)
            for name, colour in zip(info.classes, photograph_palette(info.palette), strict=True)
        ],
        rank=ranks,
        params=cost.total.params if cost else None,
        macs=cost.total.macs if cost else None,
        score=info.score,
        recipe=without_paths(recipe).model_dump(mode="json", exclude={"data": {"root"}}),
        facts=[Fact(name=name, value=value) for name, value in facts.items()],
        limits=UploadLimits(upload_bytes=limits.upload_bytes, pixels=limits.pixels),
    )


def _abbreviate(number: float) -> str:
    """Write a number with three digits and a unit: 1778582 -> "1.78 M"."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.3g} {unit}".strip()
        number /= 1000
    return f"{number:.3g} G"


class ExampleImages:
    """Images to try. With `own`, those of the network's dataset, if they are on this machine."""

    def __init__(self, info: NetworkInfo, *, own: bool = False) -> None:
        self._data = info.recipe.data
        self._dataset = self._open_own() if own else None
        length = EXAMPLES if self._dataset is None else len(self._dataset)
        self._indices = evenly_spaced(length, EXAMPLES)

    def __len__(self) -> int:
        return len(self._indices)

    def listed(self) -> Examples:
        """List the examples, and say how they relate to the training images of the network."""
        data, own = self._data, self._dataset
        names = [f"example {number + 1}" for number in range(len(self))]
        if own is not None:
            names = [own.name(index) for index in self._indices]
            about = f"Images of {title_of(own)}, on which this network was validated."
        elif data.name == SCENES.info.name:
            about = "Generated scenes. This network has not seen them in training."
        else:
            about = (
                f"Generated scenes. This network was trained on {data.title} and knows other "
                "images and classes, so its answers here are guesses."
            )
        urls = [f"/api/examples/{number}.png" for number in range(len(self))]
        examples = [Example(name=name, url=url) for name, url in zip(names, urls, strict=True)]
        return Examples(about=about, examples=examples)

    def draw(self, number: int) -> Image:
        """Return an example. Scenes have the size that the network was trained on, if known."""
        if self._dataset is not None:
            return self._dataset[self._indices[number]].image_hwc
        options = self._data.options if self._data.name == SCENES.info.name else {}
        try:
            settings = read_options(ScenesOptions, options)
        except RecipeError:  # of a stranger's file
            settings, options = ScenesOptions(), {}
        return _draw(number, settings.size if "size" in options else DEFAULT_SIZE, settings.seed)

    def _open_own(self) -> Dataset | None:
        if self._data.name == SCENES.info.name:
            return None
        try:
            dataset = open_split(self._data, self._data.val_split)
            for index in evenly_spaced(len(dataset), EXAMPLES):
                dataset[index]  # an image that cannot be read must not be offered
        except ReconetError:  # it is not here, or not any more
            return None
        return dataset if len(dataset) else None


@lru_cache(maxsize=EXAMPLES)
def _draw(number: int, size: tuple[int, int], seed: int) -> Image:
    return scene(seed, 2 * number + 1, size)[0]  # odd numbers are validation images
