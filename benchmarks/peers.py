"""Compare the speed of the same networks in torchvision and here: in the venv of `make test-peers`.

    .venv-peers/bin/python -m benchmarks.peers

Both have the same weights and get the same images. They run in turns in one process and one thread,
and the CPU time of that thread counts. A ratio above 1 means that ours is faster.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.zoo.convert import convert_file

ROUNDS, SIZE, CLASSES = 7, (2, 3, 192, 256), 21


def main() -> None:
    """Print images per second and ratios as JSON, a line for each network."""
    import torchvision

    torch.set_num_threads(1)
    image_bchw, label_bhw = torch.rand(SIZE), torch.randint(0, CLASSES, (SIZE[0], *SIZE[2:]))
    for name in ("fcn_resnet50", "deeplabv3_resnet50"):
        make = getattr(torchvision.models.segmentation, name)
        theirs = make(weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.pth"
            torch.save(theirs.state_dict(), path)
            ours = convert_file(path, "torchvision", dataset="voc12").network.model
        for mode, step in (("forward", forward), ("training", training)):
            times = in_turns(
                {
                    "theirs": step(theirs, lambda out: (out["out"], out["aux"]), label_bhw),
                    "ours": step(ours, lambda out: (out.main_bkhw, out.aux_bkhw), label_bhw),
                },
                image_bchw,
            )
            ratio = median(a / b for a, b in zip(times["theirs"], times["ours"], strict=True))
            speeds = {who: round(SIZE[0] / median(seconds), 2) for who, seconds in times.items()}
            row = {"network": name, "what": mode, "images_per_second": speeds}
            print(json.dumps({**row, "ours_over_theirs": round(ratio, 3)}), flush=True)


def forward(
    net: nn.Module, outputs: Callable[..., tuple[Tensor, Tensor]], label_bhw: Tensor
) -> Callable[[Tensor], None]:
    """Return a step that only computes the logits."""

    def step(image_bchw: Tensor) -> None:
        with torch.no_grad():
            net.eval()(image_bchw)

    return step


def training(
    net: nn.Module, outputs: Callable[..., tuple[Tensor, Tensor]], label_bhw: Tensor
) -> Callable[[Tensor], None]:
    """Return a step of training with the auxiliary head."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

    def step(image_bchw: Tensor) -> None:
        main_bkhw, aux_bkhw = outputs(net.train()(image_bchw))
        loss = F.cross_entropy(main_bkhw, label_bhw) + 0.5 * F.cross_entropy(aux_bkhw, label_bhw)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def in_turns(
    steps: dict[str, Callable[[Tensor], None]], image_bchw: Tensor
) -> dict[str, list[float]]:
    """Return the CPU seconds of each round. The first, which warms up, does not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(ROUNDS + 1):
        for name, step in steps.items():
            start = time.process_time()
            step(image_bchw)
            if round_number:
                times[name].append(time.process_time() - start)
    return times


if __name__ == "__main__":
    main()
