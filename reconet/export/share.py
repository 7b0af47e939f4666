"""A trained network in a folder that others can use: weights, recipe, images and a model card.

The folder is what the hub calls a repository; `open_shared` takes either.
"""

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from reconet.cost.counter import ModelCost, model_cost
from reconet.data import DATASETS
from reconet.errors import OutputError, RecipeError, first_line
from reconet.evaluation.benchmarks import LABELS
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import build_model
from reconet.models.trained import TrainedNetwork, load_trained, save_trained
from reconet.recipes.storage import dump_recipe, without_paths
from reconet.system.files import check_folder, write_text
from reconet.system.run_files import BEST, LAST, LOG, RECIPE, SHEET

CARD = "README.md"
NOT_STATED = "not-stated"
OURS = (CARD, RECIPE, BEST, SHEET)  # all that a shared folder is made of
LIBRARY = "library_name: reconet"  # in every card, and by it a folder of ours is known
OF_A_RUN = (LAST, LOG)
# Terms of training data that are not somebody's to quote; of the others their licence is.
TERMS = {
    "scenes": "drawn by this package, so no licence is needed",
    "folder": "images of who trained it, under terms that are theirs to state",
}


def write_folder(
    run: Path, out: Path, *, licence: str | None = None, name: str | None = None
) -> Path:
    """Copy what others need of a run, and write a card about it."""
    weights = run / BEST if run.is_dir() else run
    if out.resolve() == weights.parent.resolve():
        raise OutputError(f"{out} is the run itself; share it into another folder.")
    check_folder(out, is_shared)
    trained = load_trained(run)
    info = replace(trained.info, recipe=without_paths(trained.info.recipe))
    trained = replace(trained, info=info)
    image = weights.parent / SHEET
    try:
        out.mkdir(parents=True, exist_ok=True)
        # The card first: by it a folder that was left half written can be written again.
        text = card(trained, name or _title(trained), licence, images=image.is_file())
        write_text(out / CARD, text)
        if image.is_file():
            shutil.copyfile(image, out / SHEET)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}.") from error
    save_trained(out / BEST, trained)
    write_text(out / RECIPE, dump_recipe(trained.info.recipe) + "\n")
    return out


def is_shared(folder: Path) -> bool:
    """Whether a folder was written by `write_folder`, and may be written again."""
    if any((folder / name).exists() for name in OF_A_RUN) or not (folder / CARD).is_file():
        return False
    return LIBRARY in (folder / CARD).read_text(errors="replace").splitlines()


def check_hub_id(hub_id: str) -> None:
    if re.fullmatch(r"[\w.-]+/[\w.-]+", hub_id) is None:
        raise RecipeError(f"--push takes a hub id such as somebody/reconet-voc, got {hub_id!r}.")


def push_folder(folder: Path, hub_id: str, *, private: bool = False) -> str:
    """Upload what is ours of a shared folder; the hub's own log-in decides who may."""
    check_hub_id(hub_id)
    import huggingface_hub as hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        place = hub.create_repo(hub_id, private=private, exist_ok=True)
        hub.upload_folder(repo_id=hub_id, folder_path=folder, allow_patterns=list(OURS))
    except (OSError, ValueError, HfHubHTTPError) as error:
        reason = first_line(error)
        raise OutputError(f"cannot upload to {hub_id!r}: {reason.rstrip('.')}.") from error
    return str(place)


def card(trained: TrainedNetwork, title: str, licence: str | None, *, images: bool) -> str:
    """A model card as the hub reads them: facts for machines on top, then the page."""
    data = trained.info.recipe.data
    with torch.device("meta"):
        cost = model_cost(
            build_model(trained.info.recipe, len(trained.info.classes), pretrained=False), data.crop
        )
    parts = [
        _front_matter(trained, title, licence),
        f"# {title}",
        _what(trained),
        "```python\nfrom reconet import Predictor\n\n"
        'segment = Predictor.from_pretrained("this folder, or its id on the hub")\n'
        'result = segment("street.jpg")  # result.label_hw, result.classes\n'
        'result.overlay().save("out.png")\n```',
        f"![Images, their truth, and what the network says]({SHEET})" if images else "",
        "## Scores",
        _scores(trained),
        "## Cost",
        _costs(cost, data.crop),
        "## Classes",
        ", ".join(trained.info.classes),
        "## Licence",
        f"Weights: {licence or 'not stated by who shared them'}.",
        f"Training data ({data.name}): {_terms(data.name)}.",
        "## Recipe",
        f"```json\n{dump_recipe(trained.info.recipe)}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(trained: TrainedNetwork) -> str:
    model = trained.info.recipe.model
    return f"{model.context} on {model.backbone}, trained on {trained.info.recipe.data.name}"


def _what(trained: TrainedNetwork) -> str:
    model, data = trained.info.recipe.model, trained.info.recipe.data
    crop = f"{data.crop[0]} x {data.crop[1]}"
    return (
        f"Semantic segmentation with `{model.context}` on a dilated {model.backbone} (output "
        f"stride {model.output_stride}), trained on `{data.name}` ({data.train_split}), crop "
        f"{crop}; the weights of step {trained.info.step}. RGB images of any size go in."
    )


def _scores(trained: TrainedNetwork) -> str:
    data = trained.info.recipe.data
    rows = [f"| {LABELS[key]} | {100 * value:.2f} |" for key, value in _benchmark(trained).items()]
    head = f"On `{data.val_split}`, as validated in training: {Protocol.in_training(data)}."
    shown = "\n".join([head, "", "| score | % |", "|---|---:|", *rows]) if rows else "None."
    others = {key: value for key, value in trained.info.score.items() if key not in LABELS}
    beside = ", ".join(f"{key.replace('_', ' ')} {value:.3g}" for key, value in others.items())
    return f"{shown}\n\nOf the attention, at the same step: {beside}." if others else shown


def _benchmark(trained: TrainedNetwork) -> dict[str, float]:
    """The scores alone: what a run measures of the attention beside them is no score."""
    return {key: trained.info.score[key] for key in LABELS if key in trained.info.score}


def _terms(dataset: str) -> str:
    kind = DATASETS.get(dataset)
    return TERMS.get(dataset) or (kind.info.licence if kind else "") or "terms not known"


def _costs(cost: ModelCost, crop: tuple[int, int]) -> str:
    return (
        f"{cost.total.params / 1e6:.2f} M parameters; {cost.total.macs / 1e9:.2f} G multiply-adds "
        f"for one image of {crop[0]} x {crop[1]}, with at most {cost.peak_bytes / 2**20:.0f} MiB "
        "alive at once beside the weights."
    )


def _front_matter(trained: TrainedNetwork, title: str, licence: str | None) -> str:
    """YAML, with every text written as JSON, which is YAML too."""
    data = trained.info.recipe.data
    lines: list[str] = [
        f"license: {json.dumps(licence or 'other')}",
        *([] if licence else [f"license_name: {json.dumps(NOT_STATED)}"]),  # "other" wants a name
        LIBRARY,
        "pipeline_tag: image-segmentation",
        f"tags: {json.dumps(['semantic-segmentation', trained.info.recipe.model.context])}",
        f"datasets: {json.dumps([data.name])}",
        *_model_index(trained, title),
    ]
    return "\n".join(["---", *lines, "---"])


def _model_index(trained: TrainedNetwork, title: str) -> Iterable[str]:
    figures = _benchmark(trained)
    if not figures:
        return
    data = trained.info.recipe.data
    metrics = [
        {"type": key, "value": round(value, 6), "name": LABELS[key]}
        for key, value in figures.items()
    ]
    result = {
        "task": {"type": "image-segmentation"},
        "dataset": {"type": data.name, "name": data.name, "split": data.val_split},
        "metrics": metrics,
    }
    yield f"model-index: {json.dumps([{'name': title, 'results': [result]}])}"
