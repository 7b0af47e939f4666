"""Describe your own images in one file, mine.yaml or mine.json, that every verb takes.

    root: .                            where the images are, as seen from the file
    classes: [road, grass]             and every other option of the dataset `folder`

The file becomes the settings data.name, data.root and data.options. So a recipe that was made of
it does not need it any more.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]
from pydantic import ValidationError

from reconet.data.dataset import example, read_options
from reconet.data.sets.folder import FOLDER
from reconet.data.sets.folder_masks import FolderOptions
from reconet.errors import DataError, RecipeError, unknown
from reconet.recipes.public import NEW_OPTIONS
from reconet.recipes.schema import validation_message
from reconet.recipes.values import without_repeats
from reconet.system.reading import SETTINGS_BYTES, read_text

SUFFIXES = (".yaml", ".yml", ".json")
ROOT = "root"


def is_dataset_file(name: str) -> bool:
    """Return whether a text names a file, and not a dataset of the table."""
    return Path(name).suffix.lower() in SUFFIXES


def dataset_settings(path: Path) -> list[str]:
    """Read the description of a dataset, as settings that --set takes."""
    values, lines = read_values(path)
    if not isinstance(values, dict):
        raise RecipeError(f"{path} describes no dataset: expected root, classes and so on.")
    root = values.pop(ROOT, ".")
    if not isinstance(root, str):
        raise RecipeError(f"{path}{_line(lines, ROOT)}: root must be a folder, got {root!r}.")
    folder = path.absolute().parent / Path(root).expanduser()
    _check(path, folder, values, lines)
    options = json.dumps(values if "splits" in values else NEW_OPTIONS | values)
    return [f"data.name={FOLDER.info.name}", f"data.root={folder}", f"data.options={options}"]


def _check(path: Path, root: Path, options: dict[str, Any], lines: Mapping[str, int]) -> None:
    """Raise an error that names the file and the line of what is wrong."""
    for name in options:
        if name not in FolderOptions.model_fields:
            error = unknown("entry", name, [ROOT, *FolderOptions.model_fields])
            raise RecipeError(f"{path}{_line(lines, name)}: {error}")
    assert FOLDER.complete is not None
    try:
        read_options(FolderOptions, FOLDER.complete(root, options))
    except RecipeError as error:
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            raise RecipeError(f"{path}: {error}") from error
        where = next((str(e["loc"][0]) for e in cause.errors() if e["loc"]), "")
        message = validation_message(cause) + example(FolderOptions, cause, "{}: {}")
        raise RecipeError(f"{path}{_line(lines, where)}: {message}") from error


def _line(lines: Mapping[str, int], name: str) -> str:
    return f", line {lines[name]}" if name in lines else ""


def read_values(path: Path) -> tuple[Any, dict[str, int]]:
    """Return the content of a file, and the line of each entry if it is known."""
    try:
        text = read_text(path, limit=SETTINGS_BYTES)
    except (OSError, ValueError) as error:  # not there, or not UTF-8
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {path}: {reason}.") from error
    try:
        if path.suffix.lower() == ".json":
            return json.loads(text, object_pairs_hook=without_repeats), {}
        return _parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{where}: {error.problem}.") from error
    except json.JSONDecodeError as error:
        raise RecipeError(f"{path}, line {error.lineno}: {error.msg}.") from error
    except (TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise RecipeError(f"cannot read {path}: {' '.join(str(error).split())[:200]}.") from error


def _parse_yaml(text: str) -> tuple[Any, dict[str, int]]:
    loader = _Loader(text)
    node = loader.get_single_node()
    if node is None:
        return {}, {}
    lines = {}
    if isinstance(node, yaml.MappingNode):
        lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    values = loader.construct_document(node)
    return json.loads(json.dumps(values)), lines  # keys become texts, as in every recipe


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads plain values only: `no` and 2024-01-01 stay names, and nothing refers to others."""

    yaml_implicit_resolvers: ClassVar = {
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag.rsplit(":", 1)[1] in ("int", "float", "null")
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse references: a few lines of them unpack to gigabytes."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, "references (*name) are not read", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that is there twice."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there more than once", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
