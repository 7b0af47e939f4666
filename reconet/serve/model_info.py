"""Describe the network for the page and for programs."""

from reconet.cost import ModelCost, recipe_costs
from reconet.errors import ReconetError
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.models.trained import NetworkInfo
from reconet.recipes import without_paths
from reconet.recipes.schema import Model
from reconet.serve.explore import count_ranks
from reconet.serve.limits import Limits
from reconet.serve.schemas import ClassInfo, Fact, ModelInfo, UploadLimits
from reconet.system.readable import counted

SCORES = {"miou": "mean IoU", "pixel_accuracy": "pixel accuracy"}  # shown to people


def describe_model(predictor: Predictor, limits: Limits) -> ModelInfo:
    """Describe a network. Paths of the machine that trained it are left out."""
    info, recipe = predictor.network.info, predictor.network.info.recipe
    cost = _cost(info)
    return ModelInfo(
        title=f"{recipe.model.title}, trained on {recipe.data.title}",
        context=recipe.model.short_name,
        backbone="" if recipe.model.module else recipe.model.backbone,
        dataset=recipe.data.name,
        classes=[
            ClassInfo(name=name, colour=colour)
            for name, colour in zip(info.classes, info.palette, strict=True)
        ],
        rank=count_ranks(predictor.network.model),
        params=cost.total.params if cost else None,
        macs=cost.total.macs if cost else None,
        score=info.score,
        recipe=without_paths(recipe).model_dump(mode="json", exclude={"data": {"root"}}),
        facts=_facts(predictor, cost),
        limits=UploadLimits(upload_bytes=limits.upload_bytes, pixels=limits.pixels),
    )


def _cost(info: NetworkInfo) -> ModelCost | None:
    """Count the cost from the recipe, which exported files have too. Tiny crops have no cost."""
    recipe = info.recipe
    try:
        costs = recipe_costs(recipe, [recipe.model.context], recipe.data.crop, len(info.classes))
    except ReconetError:
        return None
    return costs[recipe.model.context]


def _facts(predictor: Predictor, cost: ModelCost | None) -> list[Fact]:
    info, model = predictor.network.info, predictor.network.info.recipe.model
    height, width = info.recipe.data.crop
    lines = {
        **_parts(model),
        "trained on": f"{info.recipe.data.title}, {counted(len(info.classes), 'class')}, "
        f"crops of {height} x {width}, {counted(info.step, 'step')}",
    }
    in_training = Protocol.in_training(info.recipe.data).name
    ranks = count_ranks(predictor.network.model)
    if ranks:
        lines["ranks"] = str(ranks)
    lines |= {
        title: f"{100 * info.score[key]:.1f} %, in training ({in_training})"
        for key, title in SCORES.items()
        if key in info.score
    }
    if cost is not None:
        core = {part.name: part for part in cost.parts}.get("core")
        lines["parameters"] = abbreviate(cost.total.params)
        lines["multiply-adds"] = f"{abbreviate(cost.total.macs)} for {height} x {width}"
        if core is not None:
            params = f"{abbreviate(core.params)} parameters"
            lines["of that, the core"] = f"{abbreviate(core.macs)}, {params}"
    lines["runs as"] = f"{predictor.network.how} on {predictor.device}"
    lines["protocol"] = str(predictor.protocol)
    return [Fact(name=name, value=value) for name, value in lines.items()]


def _parts(model: Model) -> dict[str, str]:
    if model.module is not None:
        return {"network": f"{model.module}, not of this package"}
    return {
        "context": model.context,
        "backbone": f"{model.backbone_title}{model.geometry}",
    }


def abbreviate(number: float) -> str:
    """Write a number with three digits and a unit: 1778582 -> "1.78 M"."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.3g} {unit}".strip()
        number /= 1000
    return f"{number:.3g} G"
