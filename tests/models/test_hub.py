"""The hub: asked once, for a short time, and never waited for."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from reconet.errors import CheckpointError
from reconet.models import hub


@pytest.fixture(autouse=True)
def _ask_anew() -> Iterator[None]:
    clear = hub.hub_answers.cache_clear
    clear()
    yield
    clear()


def test_a_hub_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()

    def listen(*_: object, **__: object) -> None:
        heard.wait(60)
        raise URLError("too late")

    monkeypatch.setattr(hub, "PATIENCE", 0.01)
    monkeypatch.setattr(hub, "urlopen", listen)
    assert not hub.hub_answers()
    heard.set()


def test_a_hub_that_takes_its_time_is_no_hub_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def think(*_: object, **__: object) -> None:
        threading.Event().wait(2)
        raise HTTPError("x", 403, "no", None, None)  # type: ignore[arg-type]

    monkeypatch.setattr(hub, "urlopen", think)
    assert hub.hub_answers()


def test_any_answer_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {
        HTTPError("x", 403, "no", None, None): True,  # type: ignore[arg-type]
        URLError("no such host"): False,
        TimeoutError(): False,
    }
    for error, answers in errors.items():

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(hub, "urlopen", fail)
        hub.hub_answers.cache_clear()
        assert hub.hub_answers() == answers, error


def test_out_of_reach_only_the_cache_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = []

    def fake_download(repo_id: str, filename: str, *, local_files_only: bool) -> str:
        asked.append(local_files_only)
        raise FileNotFoundError

    monkeypatch.setattr(hub, "hub_answers", lambda: False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake_download)
    with pytest.raises(CheckpointError, match="not in the local cache") as raised:
        hub.download("somebody/network", "config.json", instead="name a folder")
    assert "\n" not in str(raised.value)
    assert hub.download_if_there("somebody/network", "config.json") is None
    assert asked == [True, True]
