from pathlib import Path

import pytest

from reconet.errors import TrainingError
from reconet.study.trial import RESULT, read_result


def test_a_damaged_result_is_explained(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text('{"format": 1}')
    with pytest.raises(TrainingError, match="damaged"):
        read_result(tmp_path)
