"""Write the model card of a shared network, in the format of the hub.

Front matter for machines comes first, then a page for people.
"""

import json
from collections.abc import Mapping, Sequence

import torch

from reconet.cost import SMALLEST_INPUT, ModelCost, model_cost
from reconet.data import DATASETS
from reconet.evaluation.benchmarks import score_labels
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork
from reconet.recipes import dump_recipe
from reconet.system.files import readable_bytes
from reconet.system.run_files import SHEET

LIBRARY = "library_name: reconet"  # a line of every card that this package writes
COMPACT = (
    "The weights of large convolutions and linear layers are stored as int8 with one fp16 scale "
    "for each output channel, other parameters as fp16. They are read into fp32. The auxiliary "
    "head, which only a training uses, is left out."
)
EXAMPLE = """Install reconet first: `pip install .` in its clone. Then:

```python
from reconet import Predictor

segment = Predictor.from_pretrained({})
result = segment("street.jpg")  # result.label_hw, result.classes
result.overlay().save("out.png")
```"""


def model_card(
    trained: TrainedNetwork,
    title: str,
    licence: str | None,
    *,
    images: bool,
    trained_on: str | None = None,
    compact: bool = False,
    example: str = "this folder, or its id on the hub",
    results: Sequence[str] = (),
) -> str:
    """Write the card as text. `images` says whether the sheet of predictions is there.

    `trained_on` names the training data, if the recipe does not say any more where it was.
    `example` is what the example opens. `results` are further sections, after the scores.
    """
    data = trained.info.recipe.data
    trained_on = trained_on or data.title
    size = max(SMALLEST_INPUT, data.crop[0]), max(SMALLEST_INPUT, data.crop[1])
    with torch.device("meta"):
        model = build_model(trained.info.recipe, len(trained.info.classes), pretrained=False)
        cost = model_cost(model, size)
    start_licence = trained.model.backbone.licence(trained.info.recipe.model.weights)
    parts = [
        _front_matter(trained, title, licence, trained_on),
        f"# {title}",
        _summary(trained, trained_on),
        EXAMPLE.format(json.dumps(example)),
        f"![Images, their labels, and the predictions of the network]({SHEET})" if images else "",
        "## Scores",
        _scores(trained),
        *results,
        "## Cost",
        _costs(cost, size),
        COMPACT if compact else "",
        "## Classes",
        ", ".join(trained.info.classes),
        "## Licence",
        f"Weights: {licence or 'not stated by the person who shared them'}.",
        _backbone_licence(trained, start_licence),
        f"Training data ({trained_on}): {_terms(data.name)}.",
        "## Recipe",
        f"```json\n{dump_recipe(trained.info.recipe)}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def default_title(trained: TrainedNetwork) -> str:
    """Name a network by its context, backbone and dataset."""
    model = trained.info.recipe.model
    return f"{model.title}, trained on {trained.info.recipe.data.title}"


def _front_matter(trained: TrainedNetwork, title: str, licence: str | None, trained_on: str) -> str:
    """Write the YAML part. Every text in it is JSON, which is YAML too."""
    data = trained.info.recipe.data
    scores, labels = _benchmark_scores(trained), score_labels()
    result = {
        "task": {"type": "image-segmentation"},
        "dataset": {"type": data.name, "name": trained_on, "split": data.val_split},
        "metrics": [
            {"type": key, "value": round(value, 6), "name": labels[key]}
            for key, value in scores.items()
        ],
    }
    index = f"model-index: {json.dumps([{'name': title, 'results': [result]}])}"
    lines = [
        "---",
        f"license: {json.dumps(licence or 'other')}",
        *([] if licence else ['license_name: "not-stated"']),  # the hub wants it with "other"
        LIBRARY,
        "pipeline_tag: image-segmentation",
        f"tags: {json.dumps(['semantic-segmentation', trained.info.recipe.model.short_name])}",
        f"datasets: {json.dumps([trained_on])}",
        *([index] if scores else []),
        "---",
    ]
    return "\n".join(lines)


def _summary(trained: TrainedNetwork, trained_on: str) -> str:
    model, data, classes = trained.info.recipe.model, trained.info.recipe.data, trained.info.classes
    stride = trained.model.output_stride
    dilated = "a dilated " if model.geometry else ""
    network = f"`{model.context}` on {dilated}{model.backbone_title} (output stride {stride})"
    if model.module is not None:
        network = f"`{model.module}`, a network that is not part of this package"
    more = f" and {len(classes) - 3} more" if len(classes) > 3 else ""
    return (
        f"Semantic segmentation with {network}. Trained on {trained_on} ({data.train_split}), "
        f"{len(classes)} classes ({', '.join(classes[:3])}{more}), with crops of {data.crop[0]} x "
        f"{data.crop[1]}. The weights are those of step {trained.info.step}. It takes RGB images "
        f"of any size.{_origin(trained.info.origin)}"
    )


def _origin(origin: Mapping[str, str]) -> str:
    """Say whose weights they are, if they were not trained here."""
    if not origin:
        return ""
    file = origin.get("address") or origin.get("file", "a file")
    toolkit, licence = origin.get("source", "another toolkit"), origin.get("licence", "not known")
    return f" The weights are converted from {file} of {toolkit}. Their licence: {licence}."


def _scores(trained: TrainedNetwork) -> str:
    data = trained.info.recipe.data
    scores, labels = _benchmark_scores(trained), score_labels()
    text = "None."
    if scores:
        default = f"as validated in training: {Protocol.in_training(data)}"
        how = trained.info.origin.get("protocol", default)
        head = f"On `{data.val_split}`, {how}."
        rows = [f"| {labels[key]} | {100 * value:.2f} |" for key, value in scores.items()]
        text = "\n".join([head, "", "| score | % |", "|---|---:|", *rows])
    others = {key: value for key, value in trained.info.score.items() if key not in labels}
    if not others:
        return text
    figures = ", ".join(f"{key.replace('_', ' ')} {value:.3g}" for key, value in others.items())
    return f"{text}\n\nOf the attention, at the same step: {figures}."


def _benchmark_scores(trained: TrainedNetwork) -> dict[str, float]:
    """Return the scores without the figures of the attention, which a run keeps beside them."""
    return {key: trained.info.score[key] for key in score_labels() if key in trained.info.score}


def _costs(cost: ModelCost, crop: tuple[int, int]) -> str:
    return (
        f"{cost.total.params / 1e6:.2f} M parameters. {cost.total.macs / 1e9:.2f} G multiply-adds "
        f"for one image of {crop[0]} x {crop[1]}. It needs at most "
        f"{readable_bytes(cost.peak_bytes)} of memory beside its weights."
    )


def _backbone_licence(trained: TrainedNetwork, licence: str) -> str:
    """Say whose weights the backbone started from. They bind the network that is made of them."""
    model = trained.info.recipe.model
    if model.module is not None or model.weights is None or trained.info.origin:
        return ""
    what = f"Backbone ({model.backbone_title}, {model.weights} weights)"
    return f"{what}: {licence or 'licence not known to this package'}."


def _terms(dataset: str) -> str:
    entry = DATASETS.get(dataset)
    return (entry and (entry.terms or entry.info.licence)) or "terms not known"
