"""Train, predict and serve for some minutes, with kills and hostile clients, and check the results.

    .venv/bin/python -m tests.soak --minutes 30

Three tasks take turns until the time is over. A tiny network is trained, killed at random moments,
resumed, and compared with an undisturbed training to the bit. A folder is predicted in the same
way. A server on 127.0.0.1 gets requests of many clients, most of which misbehave. At the end its
memory and open files are checked, and that no temporary file and no process is left. The exit code
is 1 if anything was wrong.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.launch import ENVIRONMENT
from tests.serve.helpers import lively_run
from tests.serve.launch import serving
from tests.soak.clients import OPTIONS, Clients
from tests.soak.jobs import Jobs
from tests.soak.tally import Tally


def soak(place: Path, minutes: float, seed: int) -> Tally:
    """Let the three tasks take turns for some minutes."""
    tally = Tally()
    run = lively_run(place / "served")
    jobs = Jobs(place, seed, tally)
    with tally.noting("server"), serving(run, *OPTIONS) as server:
        clients = Clients(server, run, seed, tally)
        start = time.monotonic()
        while time.monotonic() - start < 60 * minutes:
            for task in (jobs.train, jobs.predict, clients.burst):
                with tally.noting(task.__name__):
                    task()
            tally.counts["rounds"] += 1
            note(tally, time.monotonic() - start)
        clients.finish()
        tally.figures["minutes"] = round((time.monotonic() - start) / 60, 1)
    jobs.close()
    # Files, because torch makes an empty folder of its own.
    left = sorted(path.name for path in (place / "tmp").rglob("*") if not path.is_dir())
    tally.check(not left, f"temporary files are left: {left}")
    tally.check(not (ours := descendants()), f"processes are left: {ours}")
    return tally


def descendants() -> list[str]:
    """Return the commands of processes with our cache, also of those without a parent."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            same = process.environ().get("RECONET_CACHE") == os.environ["RECONET_CACHE"]
            if same and process.pid != os.getpid():
                found.append(" ".join(process.cmdline()))
    return found


def note(tally: Tally, seconds: float) -> None:
    kills = sum(count for name, count in tally.counts.items() if name.startswith("kills"))
    wrong = f", {len(tally.problems)} WRONG" if tally.problems else ""
    text = f"soak: {seconds / 60:.1f} min, round {tally.counts['rounds']}, {kills} kills{wrong}"
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long, by default 30")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other kills")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if not 0 < options.minutes <= 24 * 60:
        parser.error("--minutes takes a number up to 1440")
    with tempfile.TemporaryDirectory(prefix="reconet-soak-") as folder:
        Path(folder, "tmp").mkdir()
        own = {"RECONET_CACHE": f"{folder}/cache", "TMPDIR": f"{folder}/tmp"}
        os.environ.update(own)
        ENVIRONMENT.update(own)
        tally = soak(Path(folder), options.minutes, options.seed)
    if options.json:
        values = {"counts": tally.counts, "figures": tally.figures, "problems": tally.problems}
        print(json.dumps(values, indent=2))
    else:
        print(tally.table())
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
