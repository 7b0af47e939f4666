"""Two machines train together by the command of docs/scale.md.

They are pretended: network namespaces with a name, an address, data and a cache of their own each.
Only the run directory is shared. Only root on Linux can make them.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from reconet.engine import read_log
from tests.data.trees import make_tree
from tests.launch import ENVIRONMENT, assert_same_run, finish, last, reached, run

pytestmark = pytest.mark.slow

BRIDGE, NAMES = "reconet-br", ("reconet-one", "reconet-two")
SETTINGS = [
    "--device=cpu",
    "--set=data.crop=48",
    "--set=data.base_size=48",
    "--set=data.workers=0",
    "--set=model.backbone=resnet18",
    "--set=model.width=0.125",
    "--set=model.weights=null",
    "--set=model.options.dropout=0",
    "--set=model.aux=false",
    "--set=model.rank=2",
    "--set=optim.lr=0.0001",  # so that rounding does not grow
    "--set=train.batch=2",
    "--set=train.steps=40",
    "--set=train.eval_every=20",
    "--set=train.save_every=5",
    "--set=train.log_every=5",
    "--set=train.deterministic=true",
]
CACHED = ["--set=model.frozen=true", "--set=data.views=1", "--set=data.view_seed=0"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Machine:
    name: str
    folder: Path  # of its own files

    def start(self, out: Path, *more: str) -> subprocess.Popen[str]:
        """Run the command of docs/scale.md on this machine."""
        page = (Path(__file__).parents[2] / "docs/scale.md").read_text()
        found = re.search(r"^torchrun --nnodes 2 [^`]*", page, re.MULTILINE)
        assert found is not None
        words = found[0].replace("\\\n", " ").replace("--nproc-per-node 8", "--nproc-per-node 1")
        words = words.replace("HOST", NAMES[0]).replace("/shared/runs/voc", str(out))
        exports = dict(re.findall(r"^export (\w+)=(\S+)", page, re.MULTILINE))
        own = {"RECONET_DATA": f"{self.folder}/data", "RECONET_CACHE": f"{self.folder}/cache"}
        inside = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
        hosts = self.folder.parent / "hosts"
        return subprocess.Popen(
            [
                *("ip", "netns", "exec", self.name, "unshare", "--uts", "--mount"),
                *("sh", "-c", inside, "sh", self.name, str(hosts)),
                *(sys.executable, "-m", "torch.distributed.run"),
                *words.split()[1:],
                *SETTINGS,
                *more,
            ],
            env=ENVIRONMENT | exports | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kill all that runs on this machine."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True
        )
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root on Linux, with iproute2, can pretend two machines")
    addresses = {name: f"10.77.31.{number}" for number, name in enumerate(NAMES, start=1)}
    hosts = "".join(f"{address} {name}\n" for name, address in addresses.items())
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n" + hosts)
    _remove()
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for number, (name, address) in enumerate(addresses.items()):
            plug = f"{BRIDGE}{number}"
            ip("netns", "add", name)
            ip("link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", plug, "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        _remove()
        pytest.skip(f"this container makes no networks: {error.stderr.decode().strip()}")
    found = [Machine(name, tmp_path / name) for name in NAMES]
    for machine in found:
        make_tree("voc12", machine.folder / "data" / "voc12")
    try:
        yield found
    finally:
        for machine in found:
            machine.kill()
        _remove()


def _remove() -> None:
    for words in (*(["netns", "del", name] for name in NAMES), ["link", "del", BRIDGE]):
        subprocess.run(["ip", *words], capture_output=True, check=False)


def train(machines: list[Machine], out: Path, *more: str) -> list[tuple[int, str, str]]:
    return [finish(process) for process in [one.start(out, *more) for one in machines]]


@pytest.mark.parametrize("more", [[], CACHED])
def test_two_machines_learn_what_one_process_does(
    more: list[str], machines: list[Machine], tmp_path: Path
) -> None:
    for code, out, err in train(machines, tmp_path / "two", *more):
        assert code == 0, out + err
    root = f"--set=data.root={machines[0].folder / 'data' / 'voc12'}"
    words = ["reconet", "train", "voc12/reconet_r101", root, f"--out={tmp_path / 'one'}"]
    run([*words, *SETTINGS, *more])
    one, two = ([x for x in read_log(tmp_path / n) if x["kind"] == "train"] for n in ("one", "two"))
    assert [x["loss"] for x in one] == pytest.approx([x["loss"] for x in two], rel=1e-3)
    a, b = last(tmp_path / "one")["model"], last(tmp_path / "two")["model"]
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    for key, value in a.items():
        torch.testing.assert_close(value, b[key], atol=2e-3, rtol=2e-2, msg=key)
    stores = [{p.name: p.read_bytes() for p in m.folder.rglob("c4.bin")} for m in machines]
    assert bool(stores[0]) == bool(more)
    assert stores[0] == stores[1]  # each has all features in a cache of its own


def test_a_machine_that_dies_and_a_link_that_is_cut_cost_nothing(
    machines: list[Machine], tmp_path: Path
) -> None:
    for code, out, err in train(machines, tmp_path / "whole"):
        assert code == 0, out + err
    directory = tmp_path / "run"
    first, second = (machine.start(directory) for machine in machines)
    while not reached(directory, 10):
        time.sleep(0.05)
        assert first.poll() is None
    machines[1].kill()
    second.communicate()
    second = machines[1].start(directory)
    while not reached(directory, 25):
        time.sleep(0.05)
        assert first.poll() is None
    ip("link", "set", BRIDGE, "down")
    time.sleep(60)
    ip("link", "set", BRIDGE, "up")
    for process in (first, second):
        code, out, err = finish(process)
        assert code == 0, out + err
    assert_same_run(tmp_path / "whole", directory)


def test_other_data_on_one_machine_is_refused_on_both(
    machines: list[Machine], tmp_path: Path
) -> None:
    for image in (machines[1].folder / "data").rglob("JPEGImages/*.jpg"):
        image.write_bytes(image.read_bytes() + b" ")
    started = [machine.start(tmp_path / "run") for machine in machines]
    while all(process.poll() is None for process in started):
        time.sleep(0.2)
    time.sleep(20)
    for machine, process in zip(machines, started, strict=True):
        machine.kill()  # torchrun starts again three times, and may wait for one that gave up
        code, _, err = finish(process)
        assert code != 0
        assert "process 1 on reconet-two are not those of process 0 on reconet-one" in err
    assert not (tmp_path / "run").exists()
