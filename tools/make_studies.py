"""Write the tables, conditions and figures of docs/studies.md: `make studies`.

A study stands between `<!-- study DIRECTORY -->` and `<!-- end -->`. The directory is where the
study was written, e.g. runs/study-rank-quick. If it is on this machine, the part between the marks
is replaced. If not, the part stays as it is. An empty part gets the command that runs the study.
People write the text around the marks.
"""

import re
from pathlib import Path

from reconet.study import open_study
from reconet.study.page import render_markdown
from reconet.study.plots import save_figures

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
PLACE = re.compile(r"(<!-- study (\S+) -->\n)(.*?)(<!-- end -->)", re.S)
NOT_YET = "not run yet: "
# The options that write the directories study-NAME, study-NAME-quick and study-NAME-dev.
FROZEN = " --recipe voc12/frozen_r50 --set data.root=/data/voc --set data.train_split=devtrain"
FROZEN += " --set data.val_split=dev --set data.project_split=trainaug --set train.steps=800"
FROZEN += " --set train.eval_every=800 --set train.precision=bf16"
OPTIONS = {
    "": "",
    "quick": " --quick",
    "dev": FROZEN + " --seeds 0-4 --out {directory}",
}


def page(text: str, root: Path = ROOT) -> str:
    return PLACE.sub(lambda match: _part(match, root), text)


def _part(match: re.Match[str], root: Path) -> str:
    directory = root / match[2]
    if (directory / "study.json").is_file():
        result = open_study(directory)
        images = save_figures(result, root / "docs" / "studies" / directory.name)
        return f"{match[1]}\n{render_markdown(result, images, root / 'docs')}\n{match[4]}"
    before = match[3].strip()
    if before and not before.startswith(NOT_YET):
        return match[0]
    return f"{match[1]}\n{NOT_YET}`{command(match[2])}`\n\n{match[4]}"


def command(directory: str) -> str:
    """Return the command that writes this directory."""
    _, name, *more = Path(directory).name.split("-")
    return f"reconet study {name}{OPTIONS[more[0] if more else '']}".format(directory=directory)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
