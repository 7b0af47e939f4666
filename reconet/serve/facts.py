"""What the page says about the network, and the example images."""

from functools import lru_cache

from reconet.cost.counter import ModelCost, recipe_costs
from reconet.data.scenes.generate import scene
from reconet.errors import ReconetError
from reconet.inference.network import Network
from reconet.inference.predictor import Predictor
from reconet.recipes.storage import without_paths
from reconet.serve.explore import rank_of
from reconet.serve.schemas import ClassInfo, Example, Examples, Fact, LimitsShown, ModelInfo
from reconet.serve.uploads import Limits
from reconet.types import Image

EXAMPLES = 8
EXAMPLE_SIZE = (240, 320)  # unless the network was trained on scenes, of a size of its own
SCORES = {"miou": "mean IoU", "pixel_accuracy": "pixel accuracy"}  # those worth a line


def model_info(predictor: Predictor, limits: Limits) -> ModelInfo:
    network, recipe = predictor.network, predictor.network.info.recipe
    cost = _cost(network)
    return ModelInfo(
        title=f"{recipe.model.context} with {recipe.model.backbone}, trained on {recipe.data.name}",
        context=recipe.model.context,
        backbone=recipe.model.backbone,
        dataset=recipe.data.name,
        classes=[
            ClassInfo(name=name, colour=colour)
            for name, colour in zip(network.info.classes, network.info.palette, strict=True)
        ],
        rank=rank_of(network.model),
        params=cost.total.params if cost else None,
        macs=cost.total.macs if cost else None,
        score=network.info.score,
        recipe=without_paths(recipe).model_dump(mode="json", exclude={"data": {"root"}}),
        facts=_facts(predictor, cost),
        limits=LimitsShown(upload_bytes=limits.upload_bytes, pixels=limits.pixels),
    )


def _cost(network: Network) -> ModelCost | None:
    """Counted from the recipe, so that exported files have it too; tiny crops cannot be counted."""
    recipe = network.info.recipe
    try:
        costs = recipe_costs(
            recipe, [recipe.model.context], recipe.data.crop, len(network.info.classes)
        )
    except ReconetError:
        return None
    return costs[recipe.model.context]


def _facts(predictor: Predictor, cost: ModelCost | None) -> list[Fact]:
    network, model = predictor.network, predictor.network.info.recipe.model
    height, width = network.info.recipe.data.crop
    lines = {
        "context": model.context,
        "backbone": f"{model.backbone}, output stride {model.output_stride}, width {model.width:g}",
        "trained on": f"{network.info.recipe.data.name}, {len(network.info.classes)} classes, "
        f"crops of {height} x {width}, {network.info.step:,} steps",
    }
    if rank_of(network.model):
        lines["ranks"] = str(rank_of(network.model))
    lines |= {
        title: f"{100 * network.info.score[key]:.1f} %, when it was saved"
        for key, title in SCORES.items()
        if key in network.info.score
    }
    if cost is not None:
        core = {part.name: part for part in cost.parts}.get("core")
        lines["parameters"] = short(cost.total.params)
        lines["multiply-adds"] = f"{short(cost.total.macs)} for {height} x {width}"
        if core is not None:
            lines["of that, the core"] = f"{short(core.macs)}, {short(core.params)} parameters"
    lines["runs as"] = f"{network.how} on {predictor.device}"
    lines["protocol"] = str(predictor.protocol)
    return [Fact(name=name, value=value) for name, value in lines.items()]


def short(number: float) -> str:
    """Three digits and a unit: 1778582 -> "1.78 M"."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.3g} {unit}".strip()
        number /= 1000
    return f"{number:.3g} G"


def examples(network: Network) -> Examples:
    about = "Generated scenes: nobody has photographed them, and this network has not seen them."
    if network.info.recipe.data.name != "scenes":
        about = (
            f"Generated scenes. This network was trained on {network.info.recipe.data.name} and "
            "knows other things and other images: its answers here are guesses."
        )
    names = [f"example {number}" for number in range(1, EXAMPLES + 1)]
    urls = [f"/api/examples/{number}.png" for number in range(EXAMPLES)]
    return Examples(
        about=about,
        examples=[Example(name=n, url=u) for n, u in zip(names, urls, strict=True)],
    )


@lru_cache(maxsize=EXAMPLES)
def example(number: int, size: tuple[int, int], seed: int) -> Image:
    """An image of the validation series: the odd ones."""
    return scene(seed, 2 * number + 1, size)[0]


def example_of(network: Network, number: int) -> Image:
    options = network.info.recipe.data.options if network.info.recipe.data.name == "scenes" else {}
    size, seed = options.get("size", EXAMPLE_SIZE), options.get("seed", 0)
    if isinstance(size, list | tuple) and isinstance(seed, int):
        return example(number, (int(size[0]), int(size[1])), seed)  # type: ignore[arg-type]
    return example(number, EXAMPLE_SIZE, 0)
