"""Add the context and the dataset of the two guides, each by one file and one line, and use them.

The files are the ones that docs/add-a-context.md and docs/add-a-dataset.md print. Every command
and every generated page must know them without further changes.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from torch import nn

from reconet import CONTEXTS, DATASETS, ContextModule
from reconet.cli import main
from reconet.models.context.base import AttentionMaps, RecordedPass
from reconet.models.features import Stages
from tests.factories import smooth_image
from tools import make_contexts, make_datasets

DOCS = Path(__file__).parent.parent / "docs"
SMALL = (
    *("--set=model.context=mine", "--set=model.options.groups=2", "--set=data.name=fields"),
    *("--set=data.options={}", "--set=data.crop=48", "--set=data.base_size=48"),
    *("--set=train.steps=2", "--set=train.batch=2", "--set=train.eval_every=2", "--device=cpu"),
)


def load_guide(page: str, folder: Path) -> ModuleType:
    """Import the file that a guide prints."""
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found is not None
    name = page.removesuffix(".md").replace("-", "_")
    path = folder / f"{name}.py"
    path.write_text(found[1])
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_tree(root: Path) -> Path:
    """Write four images of fields with their masks, where 0 is void."""
    for number, split in enumerate(("train", "train", "val", "val")):
        for folder in ("images", "masks"):
            (root / split / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(smooth_image(number, 40, 56)).save(root / f"{split}/images/{number}.jpg")
        mask_hw = np.random.default_rng(number).integers(0, 5, (40, 56), dtype=np.uint8)
        Image.fromarray(mask_hw).save(root / f"{split}/masks/{number}.png")
    return root


@pytest.fixture(scope="module")
def additions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Add both for the time of this module, and train one on the other."""
    folder = tmp_path_factory.mktemp("additions")
    CONTEXTS["mine"] = load_guide("add-a-context.md", folder).Mine
    DATASETS["fields"] = load_guide("add-a-dataset.md", folder).FIELDS
    write_tree(folder / "data")
    root = f"--set=data.root={folder / 'data'}"
    assert main(["train", "scenes/tiny", root, *SMALL, f"--out={folder / 'run'}"]) == 0
    yield folder
    del CONTEXTS["mine"], DATASETS["fields"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a verb that must succeed, and return what it prints."""
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_evaluate_scores_the_new_classes(
    additions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = json.loads(run(capsys, "evaluate", str(additions / "run"), "--json", "--device=cpu"))
    assert (scores["dataset"], scores["images"]) == ("fields", 2)
    assert list(scores["iou"]) == ["soil", "crop", "weed", "path"]


def test_cost_data_list_and_data_check_know_both(
    additions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "mine" in run(capsys, "cost", "--context", "mine", "--size", "64")
    assert "CC BY 4.0" in run(capsys, "data", "list")
    root = str(additions / "data")
    run(capsys, "data", "check", "fields", "--root", root, "--subset", "--workers", "0")


def test_a_core_is_measured_beside_the_others(
    additions: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = CONTEXTS["mine"]

    def build(self: ContextModule, stages: Stages, *, num_classes: int) -> None:
        mine.__init__(self, stages, num_classes=num_classes)
        width = stages.c4.channels // 4
        self.core = nn.Conv2d(width, width, 1)

    monkeypatch.setitem(CONTEXTS, "mine", type("WithCore", (mine,), {"__init__": build}))
    size = ("--channels", "16", "--size", "8", "--rounds", "1")
    assert "mine" in run(capsys, "bench", "module", "--context", "mine", *size)


def test_explain_draws_attention_maps_and_says_so_where_there_are_none(
    additions: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    arguments = ["explain", str(additions / "run"), "val:0", f"--out={tmp_path / 'explain'}"]
    assert main(arguments) == 2
    assert "context 'mine' has no attention to explain" in capsys.readouterr().err

    def attention_maps(self: ContextModule, recorded: RecordedPass) -> AttentionMaps:
        x_bchw = recorded.input_of(self.get_submodule("conv"))
        return AttentionMaps("The mean of its input.", maps=(("input", x_bchw[0].mean(0)),))

    with_maps = type("WithMaps", (CONTEXTS["mine"],), {"attention_maps": attention_maps})
    monkeypatch.setitem(CONTEXTS, "mine", with_maps)
    run(capsys, *arguments)
    assert "The mean of its input." in (tmp_path / "explain" / "explain.html").read_text()
    assert (tmp_path / "explain" / "figure.png").is_file()


def test_export_report_and_share_take_it(
    additions: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(capsys, "export", str(additions / "run"), f"--out={tmp_path / 'mine.onnx'}")
    run(capsys, "report", str(additions / "run"))
    assert "weed" in (additions / "run" / "report.html").read_text()
    run(capsys, "share", str(additions / "run"), f"--out={tmp_path / 'shared'}")
    assert "CC BY 4.0" in (tmp_path / "shared" / "README.md").read_text()


def test_the_generated_tables_have_their_rows(additions: Path) -> None:
    assert "| `fields` | 4 | train 800, val 200 | - |" in make_datasets.table().splitlines()
    row, idea = (line for line in make_contexts.page().splitlines() if "`mine`" in line)
    assert row.startswith("| [`mine`](")
    assert "One sentence that says what the method does." in idea
