"""Convert a network of another toolkit into one of ours: same weights, same output.

Names of layers are translated, and options of the context reproduce the toolkit's head. A file
that does not fit completely is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from reconet.data import DATASETS
from reconet.data.classes import colour_map
from reconet.errors import CheckpointError, pick
from reconet.models.backbone import RESNETS, Bottleneck
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import TrainedNetwork
from reconet.models.weights import compare_weights
from reconet.recipes.schema import Model, Recipe, Train
from reconet.types import MAX_CLASSES, Palette
from reconet.zoo.checkpoint import check_config, read_public_file
from reconet.zoo.head import Head, Names, State
from reconet.zoo.sources import SOURCES, Source

MOST_KEYS = 8  # of each kind, in a message
SIMILAR = 0.8  # of the class names, by which a dataset is recognised
NEW_EPOCHS = 30  # of a training that goes on from converted weights, unless its recipe is changed


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted network, with remarks on what was left out."""

    network: TrainedNetwork
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What is known of a network beside its file."""

    steps: int | None = None  # of its training
    score: Mapping[str, float] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Classes:
    names: tuple[str, ...]
    palette: Palette
    dataset: str
    options: dict[str, Any]  # of the dataset


def convert_file(
    path: Path,
    source: str,
    *,
    dataset: str | None = None,
    classes: Sequence[str] = (),
    published: Publication | None = None,
) -> Conversion:
    """Convert a file of "mmseg" or "torchvision".

    The classes are those of a dataset, or `classes`, or those that the file names.
    """
    toolkit = pick(SOURCES, source, "toolkit")
    if dataset is not None:
        pick(DATASETS, dataset, "dataset")
    file = read_public_file(path)
    published = published or Publication()
    published = replace(
        published, origin={"source": toolkit.title, "file": path.name, **published.origin}
    )
    try:
        check_config(file.config)
        count = _count_classes(file.state, toolkit)
        known = _name_classes(count, dataset, classes, file.classes)
        return _convert(file.state, toolkit, known, published)
    except CheckpointError as error:
        raise CheckpointError(f"cannot convert {path}: {error}") from error


def _convert(state: State, toolkit: Source, known: _Classes, published: Publication) -> Conversion:
    head = _find_head(state, toolkit)
    state, notes = _without_other_auxiliary(state, toolkit, len(known.names))
    names = toolkit.names | head.names
    renamed = {_rename(key, names): value for key, value in state.items()}
    try:
        model = _model_settings(renamed, head, head.options(state))
        head.adapt(renamed)
    except KeyError as error:
        raise CheckpointError(f"its head lacks {error.args[0]}.") from error
    recipe = _recipe(toolkit, known, model, published.steps)
    network = build_model(recipe, len(known.names), pretrained=False)
    _put_weights(network, renamed, names)
    info = NetworkInfo(
        recipe=recipe,
        classes=known.names,
        palette=known.palette,
        step=published.steps or 0,
        score=dict(published.score),
        origin=dict(published.origin),
    )
    return Conversion(network=TrainedNetwork(model=network.eval(), info=info), notes=notes)


def _find_head(state: State, toolkit: Source) -> Head:
    for head in toolkit.heads:
        if any(key.startswith(head.mark) for key in state):
            return head
    for name, other in SOURCES.items():
        if other is not toolkit and f"{other.classifier}.weight" in state:
            raise CheckpointError(f"it looks like a file of {other.title}: use --from {name}.")
    beginnings = sorted({key.split(".")[0] for key in state})[:MOST_KEYS]
    known = ", ".join(sorted(head.context for head in toolkit.heads))
    raise CheckpointError(
        f"it has no head that is known here. Its keys begin with {', '.join(beginnings)}. Known "
        f"heads of {toolkit.title}: {known}."
    )


def _count_classes(state: State, toolkit: Source) -> int:
    _find_head(state, toolkit)
    weight = state.get(f"{toolkit.classifier}.weight")
    if weight is None or weight.ndim != 4 or not 0 < weight.shape[0] <= MAX_CLASSES:
        raise CheckpointError(
            f"it has no classifier {toolkit.classifier}.weight of 1 to {MAX_CLASSES} classes."
        )
    return weight.shape[0]


def _name_classes(
    count: int, dataset: str | None, classes: Sequence[str], in_file: Sequence[str]
) -> _Classes:
    """Find names and colours of the classes. Their number is that of the file."""
    if dataset is None and not classes:
        dataset = next((name for name in DATASETS if _resembles(name, in_file)), None)
    if dataset is not None:
        info = pick(DATASETS, dataset, "dataset").info
        if len(info.classes) != count:
            raise CheckpointError(
                f"it has {count} classes, and {dataset} has {len(info.classes)}. Name its dataset "
                "with --dataset, or its classes with --classes."
            )
        return _Classes(
            names=info.classes, palette=info.palette[:count], dataset=dataset, options={}
        )
    names = tuple(classes or in_file)
    if not names:
        raise CheckpointError(
            f"it has {count} classes and does not name them. Use --dataset or --classes."
        )
    if len(names) != count:
        raise CheckpointError(f"it has {count} classes, and {len(names)} are named.")
    return _Classes(
        names=names,
        palette=colour_map(count),
        dataset="folder",
        options={"classes": list(names)},
    )


def _resembles(dataset: str, names: Sequence[str]) -> bool:
    """Tell whether a file's classes are those of a dataset. Some have a slightly other name."""
    own = DATASETS[dataset].info.classes
    if not names or len(own) != len(names):
        return False
    same = sum(a == b for a, b in zip(own, names, strict=True))
    return same >= SIMILAR * len(own)


def _without_other_auxiliary(
    state: State, toolkit: Source, count: int
) -> tuple[State, tuple[str, ...]]:
    """Leave out an auxiliary classifier for another number of classes. Only training uses it."""
    rows = {
        value.shape[0]
        for key, value in state.items()
        if key.startswith(toolkit.auxiliary) and toolkit.names.get(key[:-7]) == "aux.classify"
    }
    if rows <= {count}:
        return state, ()
    kept = {key: value for key, value in state.items() if not key.startswith(toolkit.auxiliary)}
    note = f"its auxiliary classifier is for {max(rows)} classes and is left out"
    return kept, (note,)


def _rename(key: str, names: Names) -> str:
    layer, _, leaf = key.rpartition(".")
    return names.get(key) or (f"{names[layer]}.{leaf}" if layer in names else key)


def _model_settings(state: State, head: Head, options: dict[str, Any]) -> Model:
    depths = tuple(
        len({key.split(".")[2] for key in state if key.startswith(f"backbone.layer{n}.")})
        for n in (1, 2, 3, 4)
    )
    first = state.get("backbone.layer1.0.conv1.weight")
    is_bottleneck = "backbone.layer1.0.conv3.weight" in state
    for name, (block, known) in RESNETS.items():
        if known == depths and block is Bottleneck and is_bottleneck and first is not None:
            plain = "backbone.conv1.weight" in state
            return Model(
                backbone=name,
                stem="plain" if plain else "deep32",
                width=first.shape[0] / 64,
                context=head.context,
                options=options,
                aux="aux.classify.weight" in state,
            )
    found = f"blocks of its stages: {depths}" if any(depths) else "no stages of a ResNet"
    raise CheckpointError(
        f"its backbone is none that is converted ({found}). Those are ResNet-50, ResNet-101 and "
        "ResNet-152."
    )


def _recipe(toolkit: Source, known: _Classes, model: Model, steps: int | None) -> Recipe:
    published = toolkit.published(known.dataset)
    data = published.data(known.dataset).model_copy(update={"options": known.options})
    train = Train(steps=steps) if steps else Train(epochs=NEW_EPOCHS)
    return Recipe(data=data, model=model, train=train, eval=published.eval)


def _put_weights(network: Segmenter, state: State, names: Names) -> None:
    """Load all weights, or say which are missing, unexpected or of another shape."""
    own = network.state_dict()
    constants = {"mean_c11": own["mean_c11"], "std_c11": own["std_c11"]}
    report = compare_weights(own, state | constants)
    public = {ours: theirs for theirs, ours in names.items()}
    kinds = {
        "missing": [_rename(key, public) for key in report.missing],
        "unexpected": [_rename(key, public) for key in (*report.unexpected, *report.ignored)],
        "of another shape": [_rename(key, public) for key in report.other_shape],
    }
    parts = [f"{len(keys)} {kind} ({_listed(keys)})" for kind, keys in kinds.items() if keys]
    if parts:
        raise CheckpointError(f"its keys do not fit: {', '.join(parts)}.")
    broken = [key for key in report.loaded if not _is_finite((state | constants)[key])]
    if broken:
        raise CheckpointError(f"{_rename(broken[0], public)} holds values that are no numbers.")
    network.load_state_dict(state | constants, strict=False)


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return ", ".join(keys[:MOST_KEYS]) + more


def _is_finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(value.isfinite().all())
