"""Read files of weights, from strangers and from the hub.

Only tensors are read: safetensors, or torch files in `weights_only` mode. No code in a file is run.
"""

import logging
import pickle
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from ssl import SSLError
from threading import Event, Thread
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import torch
from safetensors.torch import load_file
from torch import Tensor

from reconet.errors import CheckpointError, first_line
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.run_files import BEST
from reconet.system.tensor_files import check_sum

CLASSIFIERS = ("fc.", "classifier.")  # of ImageNet, which a backbone does not need
PATIENCE = 10.0  # seconds until the hub has answered, or counts as out of reach: as the library's
WEIGHT_FILE_INSTEAD = (
    "set model.weights to a .safetensors or .pth file, or model.weights=null to begin with random "
    "weights, which needs many more images"
)


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What happened to every key of a weight file."""

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]  # the classifier
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    other_shape: tuple[str, ...]

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Return the keys that do not fit, by kind."""
        kinds = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape": self.other_shape,
        }
        return {kind: keys for kind, keys in kinds.items() if keys}


def compare_weights(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> LoadReport:
    """Compare names and shapes of a network's own weights with those of a file."""
    # Converted networks often lack batch norm's step counter. With a fixed momentum it is unused.
    needed = {key for key in own if not key.endswith("num_batches_tracked")}
    common = own.keys() & given.keys()
    ignored = {key for key in given if key.startswith(CLASSIFIERS)} - own.keys()
    other_shape = {key for key in common if own[key].shape != given[key].shape}
    return LoadReport(
        loaded=tuple(sorted(common - other_shape)),
        ignored=tuple(sorted(ignored)),
        missing=tuple(sorted(needed - given.keys())),
        unexpected=tuple(sorted(given.keys() - own.keys() - ignored)),
        other_shape=tuple(sorted(other_shape)),
    )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file, or of a torch file without running its pickle."""
    content = read_content(path)
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    return named_tensors(content, path)


def named_tensors(content: object, path: Path) -> dict[str, Tensor]:
    """Return the content of a file if it is tensors by name, or raise an error."""
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) and value.layout is torch.strided
        for name, value in content.items()
    ):
        raise CheckpointError(f"{path} holds something else than named tensors.")
    return content


def read_content(path: Path) -> object:
    """Read all that a file of weights holds, without running its pickle."""
    try:
        check_file(path, limit=WEIGHTS_BYTES)
        if path.suffix == ".safetensors":
            check_sum(path)
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # about tensors that are refused here
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" ({wanted[1]})" if wanted else ""
        raise CheckpointError(
            f"{path} holds more than tensors{what}: it is damaged, or has code in it, which is "
            "never run."
        ) from error
    except Exception as error:  # both parsers raise nearly anything about bytes they do not expect
        reason = (isinstance(error, OSError) and error.strerror) or first_line(error)
        raise CheckpointError(f"cannot read the weights {path}: {reason}.") from error


def download_if_there(hub_id: str, file: str) -> Path | None:
    """Fetch a file that a hub repository may or may not have."""
    with suppress(CheckpointError):
        return download(hub_id, file, instead="")
    return None


def download(
    hub_id: str, file: str = "model.safetensors", *, instead: str = WEIGHT_FILE_INSTEAD
) -> Path:
    """Fetch one file of a hub repository, or take it from the local cache.

    `instead` ends the error message: what the user can do without the hub.
    """
    import huggingface_hub as hub  # takes a moment to import, and most runs do not need it
    from huggingface_hub.errors import HfHubHTTPError

    verbosity = hub.logging.get_verbosity()
    hub.logging.set_verbosity(logging.ERROR)  # its retries would be many lines; ours is one
    try:
        return Path(hub.hf_hub_download(hub_id, file, local_files_only=not hub_answers()))
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise CheckpointError(
            f"cannot get {hub_id!r} from the hub ({type(error).__name__}): it is not in the local "
            f"cache, and the hub cannot be reached or does not have it; {instead}."
        ) from error
    finally:
        hub.logging.set_verbosity(verbosity)


@cache
def hub_answers() -> bool:
    """Tell whether the hub can be reached. Asked once.

    The library would try for half a minute. A name server that is silent waits even longer, so
    the question is asked in a thread of its own.
    """
    from huggingface_hub import constants

    answered = Event()

    def ask() -> None:
        try:
            urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=PATIENCE).close()
        except HTTPError:
            pass  # an answer too
        except URLError as error:
            if not isinstance(error.reason, SSLError):  # the library may know other certificates
                return
        except Exception:  # an address or an answer that makes no sense
            return
        answered.set()

    if constants.HF_HUB_OFFLINE:
        return False
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return answered.is_set()


def find_shared(source: str | Path) -> Path:
    """Find the weights of a shared folder, or of a hub repository by its id, "owner/name"."""
    path = Path(source)
    if path.is_dir():
        if not (path / BEST).is_file():
            raise CheckpointError(f"{path} is no shared network: there is no {BEST} in it.")
        return path / BEST
    if path.exists():
        return path
    hub_id = str(source)
    if hub_id.count("/") != 1 or hub_id.startswith(("/", ".", "~")):
        raise CheckpointError(
            f"no shared network at {source}: it is no folder, no hub id, and no name that "
            "`reconet zoo` lists."
        )
    return download(hub_id, BEST, instead="name a folder that `reconet share` wrote")
