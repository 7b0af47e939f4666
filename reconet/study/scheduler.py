"""Run trials side by side, each in a process of its own.

A finished trial is not run again. An unfinished one resumes from its checkpoint. A trial that fails
leaves failure.json and does not stop the others. The next start tries it again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch

from reconet.recipes import write_recipe
from reconet.study.trial import FAILURE, Trial, read_result, write_failure
from reconet.system.files import open_own
from reconet.system.own_code import imported_sources
from reconet.system.progress import Progress
from reconet.system.run_files import BEST, LAST

POLL_SECONDS = 0.3
VISIBLE = "CUDA_VISIBLE_DEVICES"
PATIENCE_SECONDS = 120.0  # for a trial that is asked to stop: it finishes its step and saves


class _Job(NamedTuple):
    trial: Trial
    process: subprocess.Popen[bytes]
    started: float


def run_trials(
    trials: Sequence[Trial],
    *,
    jobs: int,
    steps: int,
    device: str,
    progress: Progress,
    dropped: Collection[str] = (),
) -> None:
    """Run the trials that are not finished. Each training has `steps` steps.

    `dropped` are the variants whose networks are deleted once they are scored.
    On Ctrl-C or SIGTERM the running trials save and stop. Then a KeyboardInterrupt is raised.
    """
    waiting = [trial for trial in trials if not trial.is_finished()]
    trained = [trial for trial in trials if trial.network is None]
    for trial in waiting:
        (trial.directory / FAILURE).unlink(missing_ok=True)
    running: dict[int, _Job] = {}  # by slot: a share of the machine
    done = 0
    progress.start(steps * len(trained), "steps")
    handler = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _drop(trials, dropped)  # a kill may have left them
        while waiting or running:
            for slot in sorted(set(range(jobs)) - running.keys()):
                busy = {trial.directory for trial in waiting}
                busy |= {job.trial.directory for job in running.values()}
                # Not those whose network is still to be trained.
                chosen = next((trial for trial in waiting if trial.network not in busy), None)
                if chosen is None:
                    break
                waiting.remove(chosen)
                process = _launch(chosen, slot, jobs, device)
                running[slot] = _Job(chosen, process, time.monotonic())
            time.sleep(POLL_SECONDS)
            for slot, job in list(running.items()):
                if job.process.poll() is not None:
                    del running[slot]
                    _close(job, trials, progress)
                    _drop([job.trial], dropped)
            ended = sum(one.is_finished() or one.failure() is not None for one in trained)
            unfinished = [job.trial for job in running.values() if not job.trial.is_finished()]
            now = ended * steps + sum(trial.step() for trial in unfinished)
            if now > done:
                progress.advance(now - done)
                done = now
    except BaseException:  # after Ctrl-C too, no training goes on alone
        _stop([job.process for job in running.values()])
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _drop(trials: Sequence[Trial], dropped: Collection[str]) -> None:
    """Delete the networks of finished trials. Their results need none of them."""
    for trial in trials:
        if trial.variant.name in dropped and trial.is_finished():
            for name in (LAST, BEST):
                (trial.directory / name).unlink(missing_ok=True)


def _launch(trial: Trial, slot: int, jobs: int, device: str) -> subprocess.Popen[bytes]:
    trial.directory.mkdir(parents=True, exist_ok=True)
    write_recipe(trial.recipe, trial.recipe_file)
    arguments = [str(trial.recipe_file), str(trial.directory), trial.variant.name, device]
    arguments += [str(trial.network or ""), *map(str, imported_sources())]
    with os.fdopen(open_own(trial.output_file, os.O_WRONLY | os.O_APPEND), "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "reconet.study.run_trial", *arguments],
            env=_environment(slot, jobs),
            stdin=subprocess.PIPE,  # its end tells the trial that this process is gone
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this process, which passes it on
        )


def _environment(slot: int, jobs: int) -> dict[str, str]:
    """Give each job its share of the cores, or a GPU of its own."""
    result = dict(os.environ)
    if jobs > 1:
        result.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        if torch.cuda.is_available():
            gpus = list(map(str, range(torch.cuda.device_count())))
            if VISIBLE in result:  # numbers or names of those that this study may use
                gpus = result[VISIBLE].split(",")[: len(gpus)]
            result[VISIBLE] = gpus[slot % len(gpus)]
    return result


def _close(job: _Job, trials: Sequence[Trial], progress: Progress) -> None:
    """Tell how a trial ended."""
    trial, code = job.trial, job.process.returncode
    if job.process.stdin is not None:
        job.process.stdin.close()
    result = read_result(trial.directory)
    if result is None and trial.failure() is None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        reason = f"its process ended with {how}; its output is in {trial.output_file}"
        write_failure(trial.directory, reason)
    figures = result and f"mIoU {100 * result.figures['miou']:.2f} %"
    done = sum(one.is_finished() for one in trials)
    progress.note(
        f"{done} of {len(trials)} trials: {trial.name}: {figures or f'failed: {trial.failure()}'} "
        f"({time.monotonic() - job.started:.0f} s)"
    )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let every trial save. A second Ctrl-C, or no answer, ends them at once."""
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait(PATIENCE_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        for process in processes:
            process.kill()
            process.wait()
