"""Example images for the page: validation images of the network's dataset, or generated scenes."""

from functools import lru_cache

from reconet.data import open_split
from reconet.data.dataset import Dataset, evenly_spaced
from reconet.data.options import read_options
from reconet.data.scenes.dataset import SCENES, ScenesOptions
from reconet.data.scenes.generate import scene
from reconet.errors import RecipeError, ReconetError
from reconet.models.trained import NetworkInfo
from reconet.serve.schemas import Example, Examples
from reconet.types import Image

EXAMPLES = 8
DEFAULT_SIZE = (240, 320)  # a network that was trained on scenes gets the size of its recipe


class ExampleImages:
    """Images to try. With `own`, those of the network's dataset, if they are on this machine."""

    def __init__(self, info: NetworkInfo, *, own: bool = False) -> None:
        self._info = info
        self._dataset = _open_own(info) if own else None
        self._indices = list(range(EXAMPLES))
        if self._dataset is not None:
            self._indices = evenly_spaced(len(self._dataset), EXAMPLES)

    def __len__(self) -> int:
        return len(self._indices)

    def listed(self) -> Examples:
        """List the examples, and say how they relate to the training images of the network."""
        return Examples(
            about=self._about(),
            examples=[
                Example(name=self._name(number), url=f"/api/examples/{number}.png")
                for number in range(len(self))
            ],
        )

    def draw(self, number: int) -> Image:
        """Return an example. Scenes have the size that the network was trained on, if known."""
        if self._dataset is not None:
            return self._dataset[self._indices[number]].image_hwc
        data = self._info.recipe.data
        options = data.options if data.name == SCENES.info.name else {}
        try:
            settings = read_options(ScenesOptions, options)
        except RecipeError:  # of a stranger's file
            settings, options = ScenesOptions(), {}
        return _draw(number, settings.size if "size" in options else DEFAULT_SIZE, settings.seed)

    def _name(self, number: int) -> str:
        if self._dataset is None:
            return f"example {number + 1}"
        return self._dataset.name(self._indices[number])

    def _about(self) -> str:
        data = self._info.recipe.data
        if self._dataset is not None:
            return f"Images of {data.title} {data.val_split}, on which this network was validated."
        if data.name == SCENES.info.name:
            return "Generated scenes. This network has not seen them in training."
        return (
            f"Generated scenes. This network was trained on {data.title} and knows other images "
            "and classes, so its answers here are guesses."
        )


def _open_own(info: NetworkInfo) -> Dataset | None:
    data = info.recipe.data
    if data.name == SCENES.info.name:
        return None
    try:
        dataset = open_split(data, data.val_split)
        for index in evenly_spaced(len(dataset), EXAMPLES):
            dataset[index]  # an image that cannot be read must not be offered
    except ReconetError:  # it is not here, or not any more
        return None
    return dataset if len(dataset) else None


@lru_cache(maxsize=EXAMPLES)
def _draw(number: int, size: tuple[int, int], seed: int) -> Image:
    return scene(seed, 2 * number + 1, size)[0]  # odd numbers are validation images
