"""Run trials side by side, each in a process of its own.

    OUT/study.json                which study, on which recipe
    OUT/<variant>/seed<k>/        a run directory, with result.json once the trial is finished

A finished trial is not run again. An unfinished one resumes from its checkpoint. A trial that fails
leaves failure.json and does not stop the others. The next start tries it again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch

from reconet.recipes.storage import write_recipe
from reconet.study.trial import FAILURE, IMPORT, RESULT, Trial, read_result, write_failure
from reconet.system.files import open_own
from reconet.system.own_code import imported_sources
from reconet.system.progress import Progress

POLL_SECONDS = 0.3
VISIBLE = "CUDA_VISIBLE_DEVICES"
PATIENCE_SECONDS = 120.0  # for a trial that is asked to stop: it finishes its step and saves


@dataclass(kw_only=True)
class _Job:
    trial: Trial
    process: subprocess.Popen[bytes]
    slot: int
    started: float = field(default_factory=time.monotonic)


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
    for trial in trials:
        if trial.is_finished() and trial.variant.name in dropped:
            trial.drop_networks()  # a kill may have left them
    running: list[_Job] = []
    done = 0
    progress.start(steps * len(trained), "steps")
    handler = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while waiting or running:
            _start_jobs(waiting, running, jobs, device)
            time.sleep(POLL_SECONDS)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                _close_job(job, trials, progress)
                if job.trial.is_finished() and job.trial.variant.name in dropped:
                    job.trial.drop_networks()
            now = _steps_done(trained, running, steps)
            if now > done:
                progress.advance(now - done)
                done = now
    except BaseException:  # after Ctrl-C too, no training goes on alone
        _stop(running)
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _steps_done(trained: Sequence[Trial], running: Sequence[_Job], steps: int) -> int:
    ended = sum(trial.is_finished() or trial.failure() is not None for trial in trained)
    return ended * steps + sum(job.trial.step() for job in running if not job.trial.is_finished())


def _start_jobs(waiting: list[Trial], running: list[_Job], jobs: int, device: str) -> None:
    for trial in list(waiting):
        if len(running) >= jobs:
            return
        if trial.network is not None and not (trial.network / RESULT).is_file():
            unfinished = [*waiting, *(job.trial for job in running)]
            if any(other.directory == trial.network for other in unfinished):
                continue  # wait until that network is trained
            write_failure(trial.directory, "the network to score was not trained")
            waiting.remove(trial)
            continue
        waiting.remove(trial)
        slot = next(n for n in range(jobs) if n not in {job.slot for job in running})
        running.append(_Job(trial=trial, process=_launch(trial, slot, jobs, device), slot=slot))


def _launch(trial: Trial, slot: int, jobs: int, device: str) -> subprocess.Popen[bytes]:
    trial.directory.mkdir(parents=True, exist_ok=True)
    write_recipe(trial.recipe, trial.recipe_file)
    network = [] if trial.network is None else [str(trial.network)]
    arguments = [str(trial.recipe_file), str(trial.directory), trial.variant.name, device, *network]
    arguments += [f"{IMPORT}{source}" for source in imported_sources()]
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


def _close_job(job: _Job, trials: Sequence[Trial], progress: Progress) -> None:
    trial, code = job.trial, job.process.returncode
    if job.process.stdin is not None:
        job.process.stdin.close()
    result = read_result(trial.directory)
    if result is None and trial.failure() is None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        reason = f"its process ended with {how}; its output is in {trial.output_file}"
        write_failure(trial.directory, reason)
    if result is None:
        outcome = f"failed: {trial.failure()}"
    else:
        outcome = f"mIoU {100 * result.figures['miou']:.2f} %"
    done = sum(one.is_finished() for one in trials)
    seconds = time.monotonic() - job.started
    progress.note(f"{done} of {len(trials)} trials: {trial.name}: {outcome} ({seconds:.0f} s)")


def _stop(running: Sequence[_Job]) -> None:
    """Let every trial save. A second Ctrl-C, or no answer, ends them at once."""
    for job in running:
        job.process.terminate()
    try:
        for job in running:
            job.process.wait(PATIENCE_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        for job in running:
            job.process.kill()
            job.process.wait()
