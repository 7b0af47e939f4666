import pytest

from reconet.study import StudyResult
from tests.study.tiny_study import run_here, trials_in


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """Run a study of three variants, one of which scores the networks of a fourth."""
    out = tmp_path_factory.mktemp("study")
    return run_here([*trials_in(out, "fcn,tgm_trm"), *trials_in(out, "ms_flip", seeds=1)], out)
