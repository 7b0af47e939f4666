"""Read and check the configuration that a backbone of transformers is built from.

It comes from a known id, a folder, or the hub. Only fields of the family's own configuration are
kept, as plain values with bounds. A recipe carries them, so a trained network is built again
without the folder and without the hub. Nothing in a configuration can name code.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reconet.errors import CheckpointError, MissingExtraError, RecipeError, first_line, unknown
from reconet.models.backbone.known import KNOWN
from reconet.models.hub import download, download_if_there
from reconet.recipes.schema import validation_message
from reconet.recipes.values import BackboneConfig
from reconet.system.reading import SETTINGS_BYTES, read_text

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
FAMILY, LEVELS = "model_type", "out_indices"
NORMALISATION = {"mean": "image_mean", "std": "image_std"}
INSTEAD = "name a folder that save_pretrained wrote: hf:./FOLDER"
# These ask for another package, or for weights, while they are built.
MOST_LAYERS = 1000
REFUSED = frozenset({"timm_backbone", "timm_wrapper"})


def require_transformers(needed_for: str) -> None:
    """Raise an error that names the extra, if transformers is not installed."""
    if find_spec("transformers") is None:
        raise MissingExtraError("backbones", needed_for)


def is_folder(source: str) -> bool:
    """Tell whether a source is a folder on this machine, not a hub id."""
    return source.startswith((".", "/", "~")) or (source != "" and Path(source).is_dir())


def read_config(source: str) -> dict[str, Any]:
    """Read what a known id, a folder or a hub id tells: family, sizes and normalisation."""
    if not is_folder(source) and source in KNOWN:
        known = KNOWN[source]
        return plain_config({FAMILY: known.family, **known.config}, source)
    if is_folder(source):
        folder = Path(source).expanduser()
        if not (folder / CONFIG).is_file():
            raise CheckpointError(
                f"no backbone at {source}: there is no folder with a {CONFIG}, such as "
                "save_pretrained of transformers writes."
            )
        config, preprocessor = folder / CONFIG, folder / PREPROCESSOR
        values = read_json(config, folder)
        values |= _normalisation(read_json(preprocessor, folder) if preprocessor.is_file() else {})
    else:
        values = read_json(download(source, CONFIG, instead=INSTEAD))
        found = download_if_there(source, PREPROCESSOR)
        values |= _normalisation(read_json(found) if found else {})
    return plain_config(values, source)


def plain_config(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Keep the fields of the family's configuration, complete, as plain and bounded values."""
    config = make_config(values, source)
    own = {key: getattr(config, key) for key in _own_fields(type(config))}
    kept = {key: values[key] for key in NORMALISATION.values() if key in values}
    levels = values.get(LEVELS)
    if isinstance(levels, list) and len(levels) == 4:  # else they were chosen for something else
        kept[LEVELS] = levels
    plain = {FAMILY: config.model_type, **own, **kept}
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(BackboneConfig)
        return adapter.validate_python(json.loads(json.dumps(plain)))
    except (ValidationError, TypeError, ValueError) as error:
        reason = validation_message(error) if isinstance(error, ValidationError) else str(error)
        raise CheckpointError(f"{source} cannot be a backbone here: {reason}") from error


def make_config(values: Mapping[str, Any], source: str, levels: list[int] | None = None) -> Any:
    """Make the library's configuration of plain values, which anybody may have written."""
    from transformers.models.auto import CONFIG_MAPPING

    family = values.get(FAMILY)
    families = backbone_families()
    if not isinstance(family, str) or family not in families:
        raise unknown(f"family of backbone in {source}:", str(family)[:40], families)
    kind = CONFIG_MAPPING[family]
    own = {key: values[key] for key in _own_fields(kind) if key in values}
    if _layers(own) > MOST_LAYERS:
        raise RecipeError(f"the configuration of {source} asks for too many layers.")
    try:
        return kind(**own, **({} if levels is None else {LEVELS: levels}))
    except Exception as error:  # the library checks types, and raises errors of many kinds
        reason = first_line(error).rstrip(".:")
        raise RecipeError(f"the configuration of {source} cannot be used: {reason}.") from error


def _layers(values: Mapping[str, Any]) -> int:
    """Count the layers that a configuration asks for, before they are built."""
    found = [values[key] for key in values if "layers" in key or "depth" in key]
    numbers = [one for value in found for one in (value if isinstance(value, list) else [value])]
    return sum(one for one in numbers if isinstance(one, int))


def backbone_families() -> list[str]:
    """List the families that this release of transformers has backbones of."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING_NAMES

    return sorted(set(MODEL_FOR_BACKBONE_MAPPING_NAMES) - REFUSED)


def _own_fields(kind: type[Any]) -> list[str]:
    """List the fields of a family's configuration, without those of every configuration."""
    from transformers import PreTrainedConfig

    common = {field.name for field in fields(PreTrainedConfig)}
    names = [field.name for field in fields(kind)]
    return [name for name in names if name not in common and not name.startswith("_")]


def _normalisation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return mean and standard deviation of a preprocessor, if it says them."""
    found = {name: values[name] for name in NORMALISATION.values() if name in values}
    usable = all(
        isinstance(three, list)
        and len(three) == 3
        and all(isinstance(one, int | float) and 0 <= one <= 1 for one in three)
        for three in found.values()
    )
    return found if usable and all(found.get("image_std", [1])) else {}


def read_json(path: Path, within: Path | None = None) -> dict[str, Any]:
    """Read a JSON object of a file, which anybody may have written."""
    try:
        values = json.loads(read_text(path, limit=SETTINGS_BYTES, within=within))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"cannot read {path}: {first_line(error)}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"cannot read {path}: it is no configuration.")
    return values
