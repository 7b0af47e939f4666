"""Share a trained network: write a folder with weights, recipe, images and model card.

On the hub such a folder is a repository. Predictor.from_pretrained opens either.
"""

import re
from dataclasses import replace
from pathlib import Path

from reconet.errors import OutputError, RecipeError, first_line
from reconet.export.model_card import LIBRARY, default_title, model_card
from reconet.inference import find_network
from reconet.models.trained import find_weights, load_trained, save_compact, save_trained
from reconet.recipes import dump_recipe, without_paths
from reconet.system.files import check_output_folder, write_bytes, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.run_files import BEST, LAST, LOG, RECIPE, SHEET

CARD = "README.md"
SHARED_FILES = (CARD, RECIPE, BEST, SHEET)
RUN_FILES = (LAST, LOG)  # a folder with one of these is a run directory
NO_LICENCE = (
    "no licence is stated, so others may look at the network but not use it. "
    "State one, for example with --licence apache-2.0."
)


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
    sheet_png = _read_sheet(weights.parent / SHEET)
    try:
        out.mkdir(parents=True, exist_ok=True)
        # The card first: with a card, a folder that is only half written may be written again.
        card = model_card(
            trained,
            title,
            licence,
            images=sheet_png is not None,
            trained_on=trained_on,
            compact=compact,
        )
        write_text(out / CARD, card)
        if sheet_png is not None:
            write_bytes(out / SHEET, sheet_png)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}.") from error
    (save_compact if compact else save_trained)(out / BEST, trained)
    write_text(out / RECIPE, dump_recipe(trained.info.recipe) + "\n")
    return out


def _read_sheet(path: Path) -> bytes | None:
    """Read the images of a run, if there are some. A link out of the run might tell secrets."""
    try:
        return read_file(path, within=path.parent) if path.is_file() else None
    except OSError as error:
        raise OutputError(f"cannot share {path}: {error.strerror or error}.") from error


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
