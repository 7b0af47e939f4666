"""Download files from the hub, and find the weights of a shared network."""

import logging
from contextlib import suppress
from functools import cache
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from threading import Thread
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from reconet.errors import CheckpointError
from reconet.system.run_files import BEST

PATIENCE = 10.0  # seconds until the hub has answered, or counts as out of reach: as the library's


def download_if_there(hub_id: str, file: str) -> Path | None:
    """Fetch a file that a hub repository may or may not have."""
    with suppress(CheckpointError):
        return download(hub_id, file, instead="")
    return None


def download(hub_id: str, file: str, *, instead: str) -> Path:
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

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []
    asking = Thread(target=lambda: answers.append(_answers(constants.ENDPOINT)), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return any(answers)


def _answers(address: str) -> bool:
    try:
        urlopen(Request(address, method="HEAD"), timeout=PATIENCE).close()
    except HTTPError:
        return True
    except URLError as error:
        return isinstance(error.reason, SSLError)  # the library may know certificates of its own
    except (OSError, ValueError, HTTPException):
        return False
    return True


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
