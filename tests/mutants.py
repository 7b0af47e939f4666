"""Break a copy of the package on purpose, and report which tests notice.

Usage: python -m tests.mutants NAME ... Each mutation is applied to a fresh copy of package and
tests. The test named beside it runs there, in a forked child, so that torch is imported once.
Prints "NAME CODE" for each mutation. CODE is pytest's exit code. 1 means that a test failed, as it
should.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  (imported here once, not in every child)
import pytest
import torch  # noqa: F401

ROOT = Path(__file__).parent.parent
OWN_ERROR = 3  # pytest's code for an error of its own


class Mutation(NamedTuple):
    """A mistake, and the test that must notice it."""

    file: str  # under reconet/
    old: str  # occurs in it once
    new: str
    test: str  # under tests/: file, or file::test


RECO = "models/context/reconet.py"
LOW_RANK = "models/context/low_rank.py"
NO_MISTAKE = "no mistake"  # its test passes: a copy without a mistake works
MUTATIONS = {
    NO_MISTAKE: Mutation("types.py", "IGNORE = 255", "IGNORE = 255", "models/test_segmenter.py"),
    "rows and columns swapped": Mutation(
        LOW_RANK,
        "row_brh.unsqueeze(3) * column_brw.unsqueeze(2)",
        "row_brh.unsqueeze(2) * column_brw.unsqueeze(3)",
        "models/context/test_ranks.py::test_reconstruct_equals_the_sum_of_rank_one_tensors",
    ),
    "rows pooled over rows": Mutation(
        RECO,
        "row_brh = self.row(mean_bch.mean(dim=1))",
        "row_brh = self.row(x_bchw.mean(dim=(1, 2)))",
        "models/context/test_ranks.py::test_the_core_equals_the_formula_of_the_paper",
    ),
    "lambda dropped": Mutation(
        LOW_RANK,
        "(channel_brc * weight_r[:, None])",
        "channel_brc",
        "models/context/test_ranks.py::test_reconstruct_equals_the_sum_of_rank_one_tensors",
    ),
    "lambda not normalised": Mutation(
        RECO,
        "self.rank_logits_r.softmax(dim=0)",
        "self.rank_logits_r.sigmoid()",
        "models/context/test_ranks.py",
    ),
    "attention instead of attention times map": Mutation(
        RECO,
        "return x_bchw * reconstruct(self.factors(x_bchw))",
        "return reconstruct(self.factors(x_bchw))",
        "models/context/test_ranks.py::test_the_core_equals_the_formula_of_the_paper",
    ),
    "gates without a sigmoid": Mutation(
        RECO,
        "_resample(self.gate(logits_brn), ",
        "_resample(logits_brn, ",
        "models/context/test_ranks.py",
    ),
    "ranks and positions mixed up": Mutation(
        RECO,
        "self.linear(profile_bn).unflatten(1, (self.rank, -1))",
        "self.linear(profile_bn).unflatten(1, (-1, self.rank)).transpose(1, 2)",
        "models/context/test_ranks.py",
    ),
    "confusion transposed": Mutation(
        "evaluation/metrics.py",
        "label_n[scored_n] * num_classes + predicted_n[scored_n]",
        "predicted_n[scored_n] * num_classes + label_n[scored_n]",
        "evaluation/test_metrics.py",
    ),
    "void scored as the last class": Mutation(
        "evaluation/metrics.py",
        "scored_n = (label_n >= 0) & (label_n < num_classes)",
        "label_n = label_n.clamp(max=num_classes - 1)\n    scored_n = label_n >= 0",
        "evaluation/test_metrics.py",
    ),
    "union without subtracting the hits": Mutation(
        "evaluation/metrics.py",
        "(truth_k + predicted_k - hit_k)",
        "(truth_k + predicted_k)",
        "evaluation/test_metrics.py",
    ),
    "wrong ignore": Mutation("types.py", "IGNORE = 255", "IGNORE = 254", "models/test_losses.py"),
    "auxiliary loss not weighted": Mutation(
        "models/losses.py",
        "total = total + settings.aux_weight * aux",
        "total = total + aux",
        "models/test_losses.py",
    ),
    "regions averaged over void images too": Mutation(
        "models/losses.py",
        "(label_bhw != IGNORE).flatten(1).any(1).sum()",
        "(label_bhw >= 0).flatten(1).any(1).sum()",
        "models/test_losses.py",
    ),
    "smallest errors first": Mutation(
        "models/losses.py", "descending=True", "descending=False", "models/test_losses.py"
    ),
    "rate decays from the end": Mutation(
        "engine/loop.py", "1.0 - step / steps", "step / steps", "engine/test_optim.py"
    ),
    "image mirrored, label not": Mutation(
        "data/transforms.py",
        "nearest(columns)[::-1] if mirrored else nearest(columns)",
        "nearest(columns)",
        "data/test_transforms.py",
    ),
    "labels half a pixel off": Mutation(
        "data/transforms.py",
        "(np.arange(axis.offset, axis.offset + axis.length) + 0.5) / axis.zoom",
        "np.arange(axis.offset, axis.offset + axis.length) / axis.zoom",
        "data/test_transforms.py",
    ),
    "last window not pulled back": Mutation(
        "inference/protocol.py",
        "(*range(0, length - crop, stride), max(0, length - crop))",
        "tuple(range(0, max(1, length - crop), stride))",
        "inference/test_windows.py::test_windows_of_a_pixelwise_function_equal_the_whole_image",
    ),
    "mirror image not turned back": Mutation(
        "inference/windows.py",
        "(column_wj.flip(1) if mirrored else column_wj)",
        "column_wj",
        "inference/test_windows.py",
    ),
}


def copy_with_mistake(folder: Path, mutation: Mutation) -> None:
    """Copy the repository to `folder`, with one mistake in it."""
    for name in ("reconet", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / "reconet" / mutation.file
    text = path.read_text()
    assert text.count(mutation.old) == 1, mutation
    path.write_text(text.replace(mutation.old, mutation.new))


def run_test(folder: Path, test: str) -> int:
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        for name in [n for n in sys.modules if n.split(".")[0] in {"reconet", "tests"}]:
            del sys.modules[name]
        sys.path[:0] = [str(folder)]
        os.environ["PYTHONPATH"] = str(folder)
        os.dup2(2, 1)
        plain = ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
        plain += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported above
        code: int = OWN_ERROR
        try:
            code = pytest.main([*plain, f"tests/{test}"])
        finally:  # an exception would end the child with 1, as if a test had failed
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(names: list[str]) -> None:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            copy_with_mistake(Path(folder), MUTATIONS[name])
            print(name, run_test(Path(folder), MUTATIONS[name].test), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(MUTATIONS))
