"""Convert a network of another toolkit into one of ours: same weights, same output.

Names of layers are translated, and options of the context reproduce the toolkit's head. A file
that does not fit completely is refused. No code in it is run.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data import DATASETS
from reconet.data.classes import colour_map
from reconet.errors import CheckpointError, pick
from reconet.models.backbone import RESNETS, Bottleneck
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import NetworkInfo, TrainedNetwork, read_info, save_trained
from reconet.models.weights import compare_weights, named_tensors, read_content
from reconet.recipes import write_recipe
from reconet.recipes.schema import Model, Recipe, Train
from reconet.system.run_files import BEST, RECIPE
from reconet.types import MAX_CLASSES, Palette
from reconet.zoo.catalogue import PublicNetwork
from reconet.zoo.heads import TOOLKITS, Head, Names, State, Toolkit

MOST_KEYS = 8  # of each kind, in a message
SIMILAR = 0.8  # of the class names, by which a dataset is recognised
NEW_EPOCHS = 30  # of a training that goes on from converted weights, unless its recipe is changed
# Of the backbone at output stride 8, and of the convolutions of DeepLab.
KNOWN = {"strides": {"1,2,1,1"}, "dilations": {"1,1,2,4", "1,12,24,36"}}


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted network, with remarks on what was left out."""

    network: TrainedNetwork
    notes: tuple[str, ...] = ()


class _Classes(NamedTuple):
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
    published: PublicNetwork | None = None,
) -> Conversion:
    """Convert a file of "mmseg" or "torchvision".

    The classes are those of a dataset, or `classes`, or those that the file names.
    """
    toolkit = pick(TOOLKITS, source, "toolkit")
    if dataset is not None:
        pick(DATASETS, dataset, "dataset")
    state, meta = _read(path)
    try:
        head = _find_head(state, toolkit)
        _check_config(str(meta.get("config")))
        named = meta.get("CLASSES")
        if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
            named = ()
        known = _name_classes(_count_classes(state, toolkit), dataset, classes, named)
        return _convert(path, state, toolkit, head, known, published)
    except CheckpointError as error:
        raise CheckpointError(f"cannot convert {path}: {error}") from error


def write_network(folder: Path, network: TrainedNetwork) -> Path:
    """Write a network and its recipe as a folder that every verb opens."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(network.info.recipe, folder / RECIPE)
    save_trained(folder / BEST, network)  # last: where it is, the folder is complete
    return folder / BEST


def was_converted(folder: Path) -> bool:
    """Tell whether a folder holds a converted network and nothing else, and may be replaced."""
    with suppress(CheckpointError):
        names = {one.name for one in folder.iterdir()}
        return names == {BEST, RECIPE} and bool(read_info(folder / BEST).origin)
    return False


def _read(path: Path) -> tuple[State, dict[str, Any]]:
    """Read the tensors of a file, and what its training wrote about itself."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}.")
    content = read_content(path)
    content = content if isinstance(content, dict) else {"state_dict": content}
    state = named_tensors(content.get("state_dict", content.get("model", content)), path)
    # Tensors may be views that pretend to be larger than what the file holds of them.
    if sum(value.nbytes for value in state.values()) > path.stat().st_size:
        raise CheckpointError(f"{path} is damaged: its tensors are larger than the file.")
    meta = content.get("meta")
    state = {key.removeprefix("module."): value for key, value in state.items()}
    return state, meta if isinstance(meta, dict) else {}


def _check_config(config: str) -> None:
    """Refuse settings that do not show in the weights and that networks here do not have."""
    if re.search(r"align_corners\s*=\s*True", config):
        raise CheckpointError(
            "it was trained with align_corners=True, by which networks here do not resize."
        )
    if re.search(r"multi_grid\s*=", config):
        raise CheckpointError("its backbone has a multi-grid, which backbones here do not have.")
    for setting, known in KNOWN.items():
        for value in re.findall(rf"\b{setting}\s*=\s*\(([\d,\s]*)\)", config):
            if re.sub(r"\s", "", value).rstrip(",") not in known:
                raise CheckpointError(
                    f"it was trained with {setting}=({value}). Only output stride 8 is converted."
                )


def _convert(
    path: Path,
    state: State,
    toolkit: Toolkit,
    head: Head,
    known: _Classes,
    published: PublicNetwork | None,
) -> Conversion:
    state, notes = _without_other_auxiliary(state, toolkit, len(known.names))
    names = toolkit.names | head.names
    renamed = {_rename(key, names): value for key, value in state.items()}
    try:
        model = _model_settings(renamed, head, head.options(state))
        head.adapt(renamed)
    except KeyError as error:
        raise CheckpointError(f"its head lacks {error.args[0]}.") from error
    protocol = toolkit.published(known.dataset)
    data = protocol.data(known.dataset).model_copy(update={"options": known.options})
    steps = published.steps if published else None
    train = Train(steps=steps) if steps else Train(epochs=NEW_EPOCHS)
    recipe = Recipe(data=data, model=model, train=train, eval=protocol.eval)
    network = build_model(recipe, len(known.names), pretrained=False)
    _put_weights(network, renamed, names)
    origin = {"source": toolkit.title, "file": path.name}
    if published:
        origin |= {
            "name": published.name,
            "address": published.address,
            "licence": published.licence,
            "protocol": f"as published: {protocol}, one scale, no mirror images",
        }
    info = NetworkInfo(
        recipe=recipe,
        classes=known.names,
        palette=known.palette,
        step=steps or 0,
        score={"miou": published.miou} if published else {},
        origin=origin,
    )
    return Conversion(network=TrainedNetwork(model=network.eval(), info=info), notes=notes)


def _find_head(state: State, toolkit: Toolkit) -> Head:
    for head in toolkit.heads:
        if any(key.startswith(head.mark) for key in state):
            return head
    for name, other in TOOLKITS.items():
        if other is not toolkit and f"{other.classifier}.weight" in state:
            raise CheckpointError(f"it looks like a file of {other.title}: use --from {name}.")
    beginnings = sorted({key.split(".")[0] for key in state})[:MOST_KEYS]
    known = ", ".join(sorted(head.context for head in toolkit.heads))
    raise CheckpointError(
        f"it has no head that is known here. Its keys begin with {', '.join(beginnings)}. Known "
        f"heads of {toolkit.title}: {known}."
    )


def _count_classes(state: State, toolkit: Toolkit) -> int:
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
        return _Classes(info.classes, info.palette[:count], dataset, options={})
    names = tuple(classes or in_file)
    if not names:
        raise CheckpointError(
            f"it has {count} classes and does not name them. Use --dataset or --classes."
        )
    if len(names) != count:
        raise CheckpointError(f"it has {count} classes, and {len(names)} are named.")
    return _Classes(names, colour_map(count), "folder", options={"classes": list(names)})


def _resembles(dataset: str, names: Sequence[str]) -> bool:
    """Tell whether a file's classes are those of a dataset. Some have a slightly other name."""
    own = DATASETS[dataset].info.classes
    if not names or len(own) != len(names):
        return False
    same = sum(a == b for a, b in zip(own, names, strict=True))
    return same >= SIMILAR * len(own)


def _without_other_auxiliary(
    state: State, toolkit: Toolkit, count: int
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


def _put_weights(network: Segmenter, state: State, names: Names) -> None:
    """Load all weights, or say which are missing, unexpected or of another shape."""
    own = network.state_dict()
    constants = {"mean_c11": own["mean_c11"], "std_c11": own["std_c11"]}
    given = state | constants
    report = compare_weights(own, given)
    public = {ours: theirs for theirs, ours in names.items()}
    kinds = report.problems
    if report.ignored:
        kinds["unexpected"] = (*report.unexpected, *report.ignored)
    parts = [
        f"{len(keys)} {kind} ({_listed([_rename(key, public) for key in keys])})"
        for kind, keys in kinds.items()
    ]
    if parts:
        raise CheckpointError(f"its keys do not fit: {', '.join(parts)}.")
    broken = [key for key in report.loaded if not given[key].isfinite().all()]
    if broken:
        raise CheckpointError(f"{_rename(broken[0], public)} holds values that are no numbers.")
    network.load_state_dict(given, strict=False)


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return ", ".join(keys[:MOST_KEYS]) + more
