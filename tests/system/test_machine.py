"""Processes, the CPU, time, and texts for people."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from reconet.errors import RecipeError, ReconetError, TrainingError
from reconet.system import hardware
from reconet.system.distributed import Processes, pick_device
from reconet.system.progress import Lines
from reconet.system.readable import (
    counted,
    printable,
    readable_seconds,
    short_path,
    short_paths,
    short_paths_in_text,
)
from reconet.system.timing import ratios, time_in_turns
from tests.launch import in_two_processes

CPU = torch.device("cpu")


def test_a_single_process_communicates_with_nobody() -> None:
    shares = [Processes(rank=rank, size=3, device=CPU).share_of(8) for rank in range(3)]
    assert shares == [3, 3, 2]
    alone = Processes.single(CPU)
    assert alone.is_first
    assert alone.sum(torch.tensor(3)) == 3
    assert alone.gather("a") == ["a"]
    assert alone.run_on_first(lambda: 7) == 7
    with pytest.raises(TrainingError, match="broken"):
        alone.raise_together(TrainingError("broken"))


def fail_in_many_ways(rank: int) -> list[str]:
    """Return how each failure ends on this process."""
    processes = Processes(rank=rank, size=2, device=CPU, local_rank=rank)

    def broken() -> None:
        raise ValueError("broken")  # a bug, not an error of the user

    def in_block(failing: int) -> None:
        with processes.together():
            if rank == failing:
                raise TrainingError("no memory")

    def held() -> None:
        with processes.first_holds(broken):  # type: ignore[arg-type]
            pytest.fail("nothing is held")

    ends = []
    works = (partial(processes.run_on_first, broken), held)
    for work in (*works, partial(in_block, 0), partial(in_block, 1)):
        try:
            work()
        except ReconetError as error:
            ends.append(f"{type(error).__name__}: {error}")
    sums, read = processes.sum_flags(torch.tensor([2, 3]), [lambda: rank == 1, lambda: False])
    return [*ends, str(sums.tolist()), str(read())]


def test_whatever_fails_on_one_process_ends_all_and_the_first_says_why(tmp_path: Path) -> None:
    first, other = in_two_processes(fail_in_many_ways, tmp_path)
    reasons = ["ValueError: broken"] * 2 + ["no memory"] * 2
    assert first == [*(f"DataError: {reason}" for reason in reasons), "[4, 6]", "[True, False]"]
    # What the others have is not printed.
    assert other[:4] == [f"OtherProcessError: {reason}" for reason in reasons]
    assert other[4:] == first[4:]


def test_a_device_that_is_not_there_is_named() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(RecipeError, match="there is no device 'cuda:7'"):
        pick_device("cuda:7")


@pytest.mark.parametrize(
    ("flags", "survives", "expected"),
    [
        ("fma avx2", True, False),
        ("avx512_bf16", False, True),  # nobody needs to try
        ("avx512_bf16 amx_bf16", False, False),
        ("avx512_bf16 amx_bf16", True, True),
    ],
)
def test_bf16_is_trusted_only_after_another_process_survived_it(
    monkeypatch: pytest.MonkeyPatch, flags: str, survives: bool, expected: bool
) -> None:
    monkeypatch.delenv(hardware.ISA_VARIABLE, raising=False)
    monkeypatch.setattr("reconet.system.hardware.Path.read_text", lambda self: f"flags : {flags}\n")
    works: Callable[[dict[str, str]], bool] = lambda environment: survives  # noqa: E731
    monkeypatch.setattr(hardware, "_works", works)
    assert hardware.bf16_works.__wrapped__() is expected
    assert hardware.ISA_VARIABLE not in os.environ


def test_determinism_costs_nothing_unless_it_is_asked_for() -> None:
    code = (
        "import sys, torch; from reconet.system.hardware import set_deterministic as s; s(False); "
        "assert 'torch._inductor' not in sys.modules; s(True); "
        "assert torch.are_deterministic_algorithms_enabled(); s(False); "
        "assert not torch.are_deterministic_algorithms_enabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


COUNT_FAULTS = """
import resource
import numpy as np
from reconet.system.hardware import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        np.ones(2**23)  # 64 MB: more than the C library keeps by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
np.ones(2**23)  # the first one has to be asked for
kept = page_faults()
assert keep_freed_memory(False)
print(kept, page_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_kept_memory_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in hardware.USERS_OWN}
    words = [sys.executable, "-c", COUNT_FAULTS]  # what other tests have left would count too
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    kept, given_back = map(int, done.stdout.split())
    assert 10 * kept < given_back
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")
    assert not hardware.keep_freed_memory(), "settings of the user are left alone"


def test_calls_take_turns_and_the_first_round_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, order = 0.0, []

    def lasts(name: str, seconds: float) -> None:
        nonlocal now
        now += seconds * (10 if name not in order else 1)  # a cold start
        order.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    calls = {"quick": lambda: lasts("quick", 1.0), "slow": lambda: lasts("slow", 3.0)}
    assert time_in_turns(calls, 2) == {"quick": [1.0, 1.0], "slow": [3.0, 3.0]}
    assert order == ["quick", "slow"] * 3
    assert ratios([1.0, 8.0], [2.0, 4.0]) == [0.5, 2.0]  # within a round


def test_counts_and_times_are_readable() -> None:
    assert [counted(n, "image") for n in (0, 1, 1464)] == ["0 images", "1 image", "1,464 images"]
    assert [counted(2, noun) for noun in ("class", "entry")] == ["2 classes", "2 entries"]
    values = (0.4, 18, 119, 120, 7140, 7200, 90000)
    told = ["0 s", "18 s", "119 s", "2 min", "119 min", "2.0 h", "25.0 h"]
    assert [readable_seconds(value) for value in values] == told


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Straße ä 道路 🚗\tb\nc", "Straße ä 道路 🚗\tb\nc"),
        ("\x1b]0;title\x07x", "\\x1b]0;title\\x07x"),
        ("a\rb\x08c\x7f", "a\\x0db\\x08c\\x7f"),
        ("gpj.\u202eexe\x9b2J", "gpj.\\u202eexe\\x9b2J"),
        (b"caf\xe9.png".decode(errors="surrogateescape"), "caf\\xe9.png"),
    ],
)
def test_names_are_printed_but_not_obeyed(name: str, shown: str) -> None:
    assert printable(name) == shown
    printable(name).encode()  # always possible


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/me/weights/resnet50.safetensors", "resnet50.safetensors"),
        ("../elsewhere/voc", "voc"),
        ("~/voc", "voc"),
        (r"C:\Users\me\voc", "voc"),
        ("data/voc", "data/voc"),
        ("..", ".."),
        ("", ""),
    ],
)
def test_a_path_that_leads_elsewhere_is_its_last_name(path: str, shown: str) -> None:
    assert short_path(path) == shown
    assert short_paths({"a": [path, 1, None]}) == {"a": [shown, 1, None]}
    text = "fcn seed 1: cannot read /home/me/a.jpg: no such file; and/or more"
    assert short_paths_in_text(text) == "fcn seed 1: cannot read a.jpg: no such file; and/or more"


def test_progress_in_python_is_a_line_now_and_then_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seconds, lines in (
        (0.0, ["train: 1 of 2, loss 3", "train: 2 of 2, loss 3"]),
        (99.0, ["train: 2 of 2, loss 3"]),
    ):
        progress = Lines(seconds)
        progress.start(2, "train")
        progress.status("loss 3")
        progress.advance()
        progress.advance()
        assert capsys.readouterr().err.splitlines() == lines
