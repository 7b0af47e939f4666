"""Example images for the page: generated scenes."""

from functools import lru_cache

from reconet.data.scenes.dataset import SCENES
from reconet.data.scenes.generate import scene
from reconet.models.network_info import NetworkInfo
from reconet.serve.schemas import Example, Examples
from reconet.types import Image

EXAMPLES = 8
DEFAULT_SIZE = (240, 320)  # a network that was trained on scenes gets the size of its recipe


def list_examples(info: NetworkInfo) -> Examples:
    """List the examples, and say how they relate to the training images of a network."""
    about = "Generated scenes. This network has not seen them in training."
    if info.recipe.data.name != SCENES.info.name:
        about = (
            f"Generated scenes. This network was trained on {info.recipe.data.name} and knows "
            "other images and classes, so its answers here are guesses."
        )
    return Examples(
        about=about,
        examples=[
            Example(name=f"example {number + 1}", url=f"/api/examples/{number}.png")
            for number in range(EXAMPLES)
        ],
    )


def draw_example(info: NetworkInfo, number: int) -> Image:
    """Draw an example, at the size that the network was trained on if that is known."""
    data = info.recipe.data
    options = data.options if data.name == SCENES.info.name else {}
    size, seed = options.get("size", DEFAULT_SIZE), options.get("seed", 0)
    if isinstance(size, list | tuple) and isinstance(seed, int):
        return _draw(number, (int(size[0]), int(size[1])), seed)  # type: ignore[arg-type]
    return _draw(number, DEFAULT_SIZE, 0)


@lru_cache(maxsize=EXAMPLES)
def _draw(number: int, size: tuple[int, int], seed: int) -> Image:
    return scene(seed, 2 * number + 1, size)[0]  # odd numbers are validation images
