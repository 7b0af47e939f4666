"""The augmented training set of VOC 2012: labels of SBD and the list trainaug."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.data.images.read import read_mat, write_index
from reconet.data.labels import LabelReader
from reconet.data.layout import contents, need_folder, read_ids
from reconet.data.names import colour_map
from reconet.data.prepare.run import Job, Plan, check_written, write_list
from reconet.data.sets.voc12 import LISTS, read_label, voc12_root
from reconet.errors import DataError
from reconet.system.files import write_atomic

AUG = "SegmentationClassAug"
SBD_FOLDERS = ("benchmark_RELEASE/dataset", "dataset", "SBD/dataset", "SBD", "sbd/dataset", "sbd")


def plan_voc12(root: Path, source: Path | None = None) -> Plan:
    """trainaug = (VOC train + SBD train + SBD val) - VOC val; VOC's own labels win over SBD's."""
    home = voc12_root(root)
    train = set(read_ids(home / LISTS / "train.txt"))
    val = set(read_ids(home / LISTS / "val.txt"))
    sbd = _find_sbd(root, home, source)
    if sbd is None:
        return _plan_list_only(home, train, val)
    extra = {*read_ids(sbd / "train.txt"), *read_ids(sbd / "val.txt")}
    names = sorted((train | extra) - val)
    official, cls = need_folder(home / "SegmentationClass"), need_folder(sbd / "cls")
    jobs = [
        Job(
            home / AUG / f"{name}.png",
            official / f"{name}.png" if name in train else cls / f"{name}.mat",
        )
        for name in names
    ]
    read_mat(cls / f"{min(extra)}.mat", "GTcls")  # is scipy there? ask before starting workers
    return Plan(jobs=jobs, work=convert, finish=partial(_finish, home, names, jobs))


def convert(job: Job) -> None:
    """Copy a label of VOC as it is, or turn one of SBD into the same format."""
    source: Path = job.source
    if source.suffix == ".png":
        read_label(source)  # a broken file must not be copied
        data = source.read_bytes()
        write_atomic(job.target, lambda file: file.write(data))
    else:
        write_index(job.target, read_sbd(source), colour_map(256))


def _segmentation(path: Path) -> NDArray[Any]:
    truth = read_mat(path, "GTcls")
    try:
        return np.asarray(truth[0]["Segmentation"][0])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} has no GTcls[0].Segmentation[0]: is it of SBD's cls?") from error


read_sbd = LabelReader(read_label.table_n, _segmentation)


def _find_sbd(root: Path, home: Path, source: Path | None) -> Path | None:
    """SBD's folder `dataset`: the source if one is given, or near the root."""
    if source is not None:
        for folder in (source, source / "dataset", source / "benchmark_RELEASE/dataset"):
            if (folder / "cls").is_dir():
                return folder
        raise DataError(f"expected the folder cls of SBD in {source}; found {contents(source)}.")
    for place in (root, home, home.parent, home.parent.parent):
        for name in SBD_FOLDERS:
            if (place / name / "cls").is_dir():
                return place / name
    return None


def _plan_list_only(home: Path, train: set[str], val: set[str]) -> Plan:
    """Somebody has put SegmentationClassAug there already: only the list is to be made."""
    if not (home / AUG).is_dir():
        raise DataError(
            f"no SBD near {home}: expected the folder benchmark_RELEASE/dataset/cls in "
            f"{home.parent.parent}, or its place as the source."
        )
    names = sorted({path.stem for path in (home / AUG).glob("*.png")} - val)
    absent = train - set(names)
    if absent:
        raise DataError(f"{home / AUG} lacks {len(absent)} labels of train, such as {min(absent)}.")
    return Plan(jobs=(), work=convert, finish=partial(_finish, home, names, ()))


def _finish(home: Path, names: list[str], jobs: tuple[Job, ...] | list[Job]) -> Mapping[str, int]:
    check_written(jobs)
    return {"trainaug": write_list(home / LISTS / "trainaug.txt", names)}
