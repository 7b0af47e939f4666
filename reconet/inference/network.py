"""Find the network that a user means, and open it: a function to call, and what its output means.

A path that exists comes first: a run directory, a .safetensors file or an export. Then come the
names of networks in this package, then the names of public ones, which are downloaded.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor, nn

from reconet.errors import CheckpointError, RecipeError, unknown
from reconet.inference.windows import Forward
from reconet.models.fold import fold_batchnorm, use_winograd
from reconet.models.segmenter import Segmenter
from reconet.models.trained import NetworkInfo, TrainedNetwork, load_trained
from reconet.system.distributed import Processes
from reconet.system.files import check_stays
from reconet.system.hardware import bf16_works, make_bf16_safe
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import WEIGHTS_BYTES, open_file
from reconet.system.run_files import BEST, LAST, LOG, RECIPE

PRETRAINED = Path(__file__).parent.parent / "pretrained"  # networks of the package
RUN_FILES = (BEST, LAST, LOG, RECIPE)
EXPORTS = (".onnx", ".xml", ".pt2")  # see backends.py
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
AUTO = "auto"
PROBE_SIDE = 128  # of the generated image: a fraction of a second, even for a ResNet-101
PROBE_ROUNDS = 5  # bf16 must be faster in all of them, since other programs disturb single rounds
FASTER = 1.2  # bf16 must be this many times as fast, or it is not worth the rounding
SAME_LABELS = 0.99  # bf16 must give the same class at this fraction of the places


@dataclass(frozen=True, kw_only=True)
class FoundNetwork:
    """A network, and the name that it was found by. One that was found by its path has none."""

    path: Path
    name: str = ""

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def short_name(self) -> str:
        """Return the name for use in names of files."""
        return self.name.replace("/", "-")

    def home(self, file: str) -> Path:
        """Return where results go by default: into the run directory, or beside the file.

        Nothing is written beside a network with a name. Its results go into the working directory.
        """
        if self.name:
            return Path(f"{file}-{self.short_name}")
        folder = self.path if self.path.is_dir() else self.path.parent
        return check_stays(folder / file, folder)


def shipped_networks() -> Mapping[str, Path]:
    """Return the files of the networks in this package, by name."""
    return {path.stem: path for path in sorted(PRETRAINED.glob("*.safetensors"))}


def find_network(source: str | Path, *, progress: Progress = SILENT) -> FoundNetwork:
    """Find a network by its path or name."""
    path, name, shipped = Path(source), str(source), shipped_networks()
    if name in shipped and not path.exists():
        return FoundNetwork(path=shipped[name], name=name)
    from reconet import zoo

    has_name = name in shipped or name in zoo.CATALOGUE
    if path.exists() and not has_name:
        return FoundNetwork(path=path)
    if path.is_file() or any((path / file).exists() for file in RUN_FILES):
        progress.note(f"{name} is a path here. It is used, and not the network of this name.")
        return FoundNetwork(path=path)
    if path.exists():
        progress.note(f"the folder {name} holds no network. The network of this name is used.")
    if has_name:
        path = shipped[name] if name in shipped else zoo.open_public(name, progress)
        return FoundNetwork(path=path, name=name)
    beside: list[str] = []
    with suppress(OSError):  # a folder that may not be read
        beside = [str(path.with_name(other.name)) for other in path.parent.iterdir()]
    near = get_close_matches(name, [*shipped, *zoo.CATALOGUE], n=3)
    near += get_close_matches(name, beside, n=2, cutoff=0.8)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise CheckpointError(
        f"no network {name!r}: there is no such path, and no network of this name.{hint} "
        "`reconet zoo` lists the names."
    )


def find_in_processes(
    source: str | Path, processes: Processes, progress: Progress = SILENT
) -> FoundNetwork:
    """Find a network on several processes. The first one of each machine downloads it."""
    if processes.size == 1:
        return find_network(source, progress=progress)
    with processes.together():
        if processes.local_rank == 0:
            find_network(source, progress=progress if processes.is_first else SILENT)
    return find_network(source)


def hash_files(source: Path, *, digest_bytes: int = 16) -> str:
    """Hash the file of a network, or both files of an OpenVINO one. Results are remembered."""
    weights = source.with_suffix(".bin")
    files = [source, weights] if source.suffix == ".xml" and weights.is_file() else [source]
    status = [(str(path), path.stat()) for path in files]
    version = tuple((name, one.st_size, one.st_mtime_ns, one.st_ino) for name, one in status)
    return _hash(version, digest_bytes)


@lru_cache(maxsize=8)
def _hash(version: tuple[tuple[str, int, int, int], ...], digest_bytes: int) -> str:
    state = blake2b(digest_size=digest_bytes)
    for name, *_ in version:
        with open_file(Path(name), limit=WEIGHTS_BYTES) as file:
            while block := file.read(2**20):
                state.update(block)
    return state.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that can be used but not trained. Several threads may call `forward` at once."""

    forward: Forward
    how: str  # what runs it, for people: "torch fp32"
    info: NetworkInfo
    precision: str = AUTO  # that opens the same network again
    model: Segmenter | None = None  # to look into; an exported file has none


def open_network(source: Path, device: torch.device, precision: str | None = None) -> Network:
    """Open the network of a run directory, or of a file that was saved or exported.

    `precision` is one of
        None      as saved: an export at its own precision, anything else in fp32, so that two
                  machines give the same labels
        "auto"    bf16 if this CPU has it, computes it faster, and gives nearly the same labels on
                  a generated image; else as saved
        "fp32", "bf16"
    """
    if precision is not None and precision not in (AUTO, *PRECISIONS):
        raise unknown("precision", precision, (AUTO, *PRECISIONS))
    if is_export(source):
        if precision in PRECISIONS:
            raise RecipeError(
                f"{source} is exported and keeps its precision; use the precision auto."
            )
        return open_export(source)
    on_cpu = device.type == "cpu"
    if precision == "bf16" and on_cpu and not make_bf16_safe():
        raise RecipeError("this CPU cannot compute in bf16; use the precision fp32 or auto.")
    if precision != AUTO or not on_cpu:
        return make_network(load_trained(source), device, "bf16" if precision == "bf16" else "fp32")
    with ThreadPoolExecutor(1) as background:  # another process tries bf16 while we read the file
        background.submit(bf16_works)  # its result is cached
        trained = load_trained(source)
    network = make_network(trained, device)
    return choose_faster(network, trained, device) if bf16_works() else network


def is_export(source: Path) -> bool:
    """Tell whether a path is that of an exported file."""
    return source.suffix in EXPORTS and not source.is_dir()  # a directory may have a dot


def open_export(source: Path, *, trusted: bool = False) -> Network:
    """Open a file of `reconet export`. Its library runs it on the CPU."""
    from reconet.inference.backends import open_exported

    exported = open_exported(source, trusted=trusted)
    return Network(forward=exported.logits, how=exported.how, info=exported.info.network)


def make_network(trained: TrainedNetwork, device: torch.device, precision: str = "fp32") -> Network:
    """Make a trained network ready for use."""
    model = trained.model.to(device)
    has_norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    return Network(
        forward=make_forward(model, device, PRECISIONS[precision]),
        how=f"torch {precision}{', batch norm folded' if has_norms else ''}, channels last",
        info=trained.info,
        precision=precision,
        model=model,
    )


def make_forward(
    model: Segmenter, device: torch.device, dtype: torch.dtype = torch.float32
) -> Forward:
    """Return the forward pass of a model: image_bchw -> logits_bkij.

    Batch norm is folded, memory is laid out as convolutions like it, and wide 3 x 3 convolutions
    of a CPU take Winograd's way. All only make it faster. In bf16 weights and feature maps are
    rounded.
    """
    folded = fold_batchnorm(model).to(device, dtype)
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if device.type == "cpu" and dtype == torch.float32:
        use_winograd(folded)

    @torch.inference_mode()
    def forward(image_bchw: Tensor) -> Tensor:
        return folded.coarse(image_bchw.contiguous(memory_format=torch.channels_last)).float()

    return forward


def choose_faster(exact: Network, trained: TrainedNetwork, device: torch.device) -> Network:
    """Return a network in bf16 if it is clearly faster and gives nearly the same labels."""
    from reconet.data import open_dataset  # no prediction needs it otherwise

    rounded = make_network(trained, device, "bf16")
    scene = open_dataset("scenes", "val", None, {"size": [PROBE_SIDE] * 2, "train": 1, "val": 1})
    image_bchw = torch.from_numpy(scene[0].image_hwc).permute(2, 0, 1)[None]
    same_bij = exact.forward(image_bchw).argmax(1) == rounded.forward(image_bchw).argmax(1)
    if same_bij.float().mean() < SAME_LABELS:
        return exact
    for _ in range(PROBE_ROUNDS):
        clock = [time.perf_counter()]
        for network in (exact, rounded):
            network.forward(image_bchw)
            clock.append(time.perf_counter())
        if clock[1] - clock[0] < FASTER * (clock[2] - clock[1]):
            return exact
    return rounded
