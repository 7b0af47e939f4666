from pathlib import Path

import onnx
import pytest
from torch.export import ExportedProgram

from reconet.export import export
from reconet.export.formats import save_openvino, to_openvino, trace
from reconet.inference.backends import open_exported
from reconet.models.trained import load_trained
from tests.export.helpers import EXPORT_MODULE, decided_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decided_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def program(run: Path) -> ExportedProgram:
    return trace(load_trained(run).model)


@pytest.fixture(scope="session")
def exported(run: Path, program: ExportedProgram) -> dict[str, Path]:
    """Export in every format as `export` does, but trace once and convert to ONNX once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EXPORT_MODULE, "trace", lambda model: program)
        paths = {name: export(run, format=name).path for name in ("onnx", "torch")}
    paths["openvino"] = run / "model.xml"
    info = open_exported(paths["onnx"]).info
    save_openvino(to_openvino(onnx.load(paths["onnx"])), info, paths["openvino"])
    return paths
