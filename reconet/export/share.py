"""Share a trained network: write a folder with weights, recipe, images and model card.

On the hub such a folder is a repository. Predictor.from_pretrained opens either. The card has
front matter for machines first, then a page for people.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from reconet.cost import SMALLEST_INPUT, model_cost
from reconet.data import DATASETS
from reconet.errors import OutputError, RecipeError, first_line
from reconet.evaluation.metrics import score_labels
from reconet.inference import find_network
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import build_model
from reconet.models.trained import (
    TrainedNetwork,
    find_weights,
    load_trained,
    save_compact,
    save_trained,
)
from reconet.recipes import dump_recipe, without_paths
from reconet.system.files import check_output_folder, readable_bytes, write_bytes, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.run_files import BEST, LAST, LOG, RECIPE, SHEET

CARD = "README.md"
SHARED_FILES = (CARD, RECIPE, BEST, SHEET)
RUN_FILES = (LAST, LOG)  # a folder with one of these is a run directory
LIBRARY = "library_name: reconet"  # a line of every card that this package writes
NO_LICENCE = (
    "no licence is stated, so others may look at the network but not use it. "
    "State one, for example with --licence apache-2.0."
)
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


def write_shared_folder(
    source: str | Path,
    out: Path,
    *,
    licence: str | None = None,
    name: str | None = None,
    compact: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Copy the files of a network that others need, and write a model card.

    `source` is its path or name. A compact file of weights is a quarter as large. A converted
    network keeps the licence of its makers unless `licence` is another.
    """
    weights = find_weights(find_network(source, progress=progress).path)
    if out.resolve() == weights.parent.resolve():
        raise OutputError(f"{out} is the run itself; share it into another folder.")
    check_output_folder(out, is_shared_folder)
    trained = load_trained(weights)
    title, trained_on = name or default_title(trained), trained.info.recipe.data.title
    info = replace(trained.info, recipe=without_paths(trained.info.recipe))
    trained = replace(trained, info=info)
    licence = licence or info.origin.get("licence")
    if licence is None:
        progress.note(NO_LICENCE)
    sheet, sheet_png = weights.parent / SHEET, None
    try:
        if sheet.is_file():  # a link out of the run might tell secrets
            sheet_png = read_file(sheet, within=weights.parent)
    except OSError as error:
        raise OutputError(f"cannot share {sheet}: {error.strerror or error}.") from error
    card = model_card(
        trained,
        title,
        licence,
        images=sheet_png is not None,
        trained_on=trained_on,
        compact=compact,
    )
    # The card first: with a card, a folder that is only half written may be written again.
    write_text(out / CARD, card)
    if sheet_png is not None:
        write_bytes(out / SHEET, sheet_png)
    (save_compact if compact else save_trained)(out / BEST, trained)
    write_text(out / RECIPE, dump_recipe(trained.info.recipe) + "\n")
    return out


def is_shared_folder(folder: Path) -> bool:
    """Return whether write_shared_folder wrote this folder, and may write it again."""
    if any((folder / name).exists() for name in RUN_FILES) or not (folder / CARD).is_file():
        return False
    card = read_file(folder / CARD, limit=SETTINGS_BYTES, within=folder)
    return LIBRARY in card.decode(errors="replace").splitlines()


def check_hub_id(hub_id: str) -> None:
    """Raise an error unless `hub_id` has the form OWNER/NAME."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", hub_id) is None:
        raise RecipeError(f"--push takes a hub id such as somebody/reconet-voc, got {hub_id!r}.")


def upload_folder(folder: Path, hub_id: str, *, private: bool = False) -> str:
    """Upload the files of a shared folder to the hub, and return their address.

    The user must be logged in to the hub.
    """
    check_hub_id(hub_id)
    import huggingface_hub as hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        address = hub.create_repo(hub_id, private=private, exist_ok=True)
        hub.upload_folder(repo_id=hub_id, folder_path=folder, allow_patterns=list(SHARED_FILES))
    except (OSError, ValueError, HfHubHTTPError) as error:
        reason = first_line(error)
        raise OutputError(f"cannot upload to {hub_id!r}: {reason.rstrip('.')}.") from error
    return str(address)


def default_title(trained: TrainedNetwork) -> str:
    """Name a network by its context, backbone and dataset."""
    recipe = trained.info.recipe
    return f"{recipe.model.title}, trained on {recipe.data.title}"


def model_card(
    trained: TrainedNetwork,
    title: str,
    licence: str | None,
    *,
    images: bool,
    trained_on: str | None = None,
    compact: bool = False,
    example: str = "this folder, or its id on the hub",
    protocol: str | None = None,
    results: Sequence[str] = (),
) -> str:
    """Write the card as text. `images` says whether the sheet of predictions is there.

    `trained_on` names the training data, if the recipe does not say any more where it was.
    `example` is what the example opens. `protocol` is that of the scores, by default the one of
    validations, or of the makers of a converted network. `results` are further sections, after the
    scores.
    """
    recipe, info = trained.info.recipe, trained.info
    data, model, origin = recipe.data, recipe.model, info.origin
    trained_on, count = trained_on or data.title, len(info.classes)
    size = max(SMALLEST_INPUT, data.crop[0]), max(SMALLEST_INPUT, data.crop[1])
    with torch.device("meta"):
        cost = model_cost(build_model(recipe, count, pretrained=False), size)

    network = f"`{model.module}`, a network that is not part of this package"
    if model.module is None:
        dilated = "a dilated " if model.geometry else ""
        stride = f"(output stride {trained.model.output_stride})"
        network = f"`{model.context}` on {dilated}{model.backbone_title} {stride}"
    more = f" and {count - 3} more" if count > 3 else ""
    summary = (
        f"Semantic segmentation with {network}. Trained on {trained_on} ({data.train_split}), "
        f"{count} classes ({', '.join(info.classes[:3])}{more}), with crops of {data.crop[0]} x "
        f"{data.crop[1]}. The weights are those of step {info.step}. It takes RGB images "
        "of any size."
    )
    if origin:  # they were not trained here
        file = origin.get("address") or origin.get("file", "a file")
        summary += (
            f" The weights are converted from {file} of {origin.get('source', 'another toolkit')}."
            f" Their licence: {origin.get('licence', 'not known')}."
        )
    backbone = ""  # its weights bind the network that is made of them
    if model.module is None and model.weights is not None and not origin:
        terms = trained.model.backbone.licence(model.weights)
        backbone = f"Backbone ({model.backbone_title}, {model.weights} weights): "
        backbone += f"{terms or 'licence not known to this package'}."
    entry = DATASETS.get(data.name)
    terms = (entry and (entry.terms or entry.info.licence)) or "terms not known"
    parts = [
        _front_matter(trained, title, licence, trained_on),
        f"# {title}",
        summary,
        EXAMPLE.format(json.dumps(example)),
        f"![Images, their labels, and the predictions of the network]({SHEET})" if images else "",
        "## Scores",
        _scores(trained, protocol),
        *results,
        "## Cost",
        f"{cost.total.params / 1e6:.2f} M parameters. {cost.total.macs / 1e9:.2f} G multiply-adds "
        f"for one image of {size[0]} x {size[1]}. It needs at most "
        f"{readable_bytes(cost.peak_bytes)} of memory beside its weights.",
        COMPACT if compact else "",
        "## Classes",
        ", ".join(info.classes),
        "## Licence",
        f"Weights: {licence or 'not stated by the person who shared them'}.",
        backbone,
        f"Training data ({trained_on}): {terms}.",
        "## Recipe",
        f"```json\n{dump_recipe(recipe)}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(trained: TrainedNetwork, title: str, licence: str | None, trained_on: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData  # takes a moment

    data, labels = trained.info.recipe.data, score_labels()
    results = [
        EvalResult(
            task_type="image-segmentation",
            dataset_type=data.name,
            dataset_name=trained_on,
            dataset_split=data.val_split,
            metric_type=key,
            metric_value=round(trained.info.score[key], 6),
            metric_name=label,
        )
        for key, label in labels.items()
        if key in trained.info.score
    ]
    values = ModelCardData(
        license=licence or "other",
        license_name=None if licence else "not-stated",  # the hub wants it with "other"
        library_name="reconet",
        pipeline_tag="image-segmentation",
        tags=["semantic-segmentation", trained.info.recipe.model.short_name],
        datasets=[trained_on],
        model_name=title if results else None,
        eval_results=results or None,
    )
    return f"---\n{values.to_yaml()}\n---"


def _scores(trained: TrainedNetwork, protocol: str | None) -> str:
    """Write a table of the scores, and the figures of the attention that a run keeps beside."""
    info, labels = trained.info, score_labels()
    known = [key for key in labels if key in info.score]
    text = "None."
    if known:
        in_training = f"as validated in training: {Protocol.in_training(info.recipe.data)}"
        protocol = protocol or info.origin.get("protocol", in_training)
        head = f"On `{info.recipe.data.val_split}`, {protocol}."
        rows = [f"| {labels[key]} | {100 * info.score[key]:.2f} |" for key in known]
        text = "\n".join([head, "", "| score | % |", "|---|---:|", *rows])
    others = [
        f"{key.replace('_', ' ')} {value:.3g}"
        for key, value in info.score.items()
        if key not in labels
    ]
    return f"{text}\n\nOf the attention, at the same step: {', '.join(others)}." if others else text
