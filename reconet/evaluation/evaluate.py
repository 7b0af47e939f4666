"""Evaluate a trained network on a split of its dataset, and write files for test servers.

The formats of the servers are declared in the files of the datasets.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import torch
from torch import Tensor

from reconet.data import DATASETS, open_split
from reconet.data.dataset import Dataset, SubmissionFormat, has_labels, left_out_note, title_of
from reconet.data.dataset_file import dataset_settings, is_dataset_file
from reconet.errors import CheckpointError, DataError, OutputError, RecipeError
from reconet.evaluation.calibration import Calibration
from reconet.evaluation.confusion import Confusion, count_confusion
from reconet.evaluation.intervals import ImageCounts, interval
from reconet.evaluation.metrics import benchmark_scores, named_scores, without_nan
from reconet.inference.network import (
    FoundNetwork,
    Network,
    find_in_processes,
    hash_files,
    is_export,
    open_network,
)
from reconet.inference.own_network import UNKNOWN
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.models.trained import NetworkInfo, find_weights, read_info, save_temperature
from reconet.recipes import apply_overrides, dump_recipe
from reconet.recipes.schema import Data, Recipe, Train
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import (
    check_output_file,
    check_output_folder,
    check_stays,
    write_atomic,
)
from reconet.system.own_code import explain_missing_import
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import COUNTS
from reconet.types import Label


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of a network and how they were obtained. Without labels there are no scores."""

    dataset: str
    title: str = ""  # of the dataset, for people
    split: str
    images: int
    protocol: str
    step: int
    figures: dict[str, float]
    intervals: dict[str, dict[str, float]] = field(default_factory=dict)  # of figures: low, high
    iou: dict[str, float]  # by class; NaN if the class is absent from truth and prediction
    calibration: Calibration | None = None
    in_training: dict[str, Any] | None = None  # its score and protocol when it was saved
    submission: str | None = None  # the file or folder for the test server
    data: Data | None = field(default=None, repr=False)  # its settings; not in as_dict
    count_kk: Tensor = field(repr=False)  # true class, predicted class; not in as_dict
    counts: ImageCounts | None = field(default=None, repr=False)  # of each image; not in as_dict

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with None in place of NaN."""
        hidden = ("data", "count_kk", "counts")
        calibration = self.calibration and asdict(self.calibration)
        values = {key: one for key, one in vars(self).items() if key not in hidden}
        values["calibration"] = calibration
        return {key: without_nan(one) for key, one in values.items()}


def evaluate(
    source: str | Path | Predictor,
    dataset: Dataset | None = None,
    *,
    data: str | Path | Data | None = None,
    split: str | None = None,
    root: Path | None = None,
    device: str = "auto",
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    submit: Path | None = None,
    reuse: bool = False,
    calibrate: bool = False,
    progress: Progress = SILENT,
) -> Evaluation | None:
    """Score a network.

    `source` is a path or name, or a Predictor, which has its own protocol and device. By default it
    is scored on the validation split of its recipe, by the protocol of the recipe, which `change`
    may change.
    `data` is another dataset: its name, its settings, or a file such as mine.yaml. `dataset` is
    another one that is already open. The counts of each image are kept in a run directory, and
    `reuse` takes those that were kept of this network, these images and this protocol.
    `calibrate` writes the temperature that calibrates confidences into the network's file.
    With several processes only the first one gets a result and reports progress.
    """
    if data is not None and dataset is not None:
        raise RecipeError("give `data` or an open `dataset`, not both.")
    if isinstance(source, Predictor):
        if calibrate:
            raise RecipeError(
                "a temperature is written into a file: name it in place of a Predictor."
            )
        device = str(source.device)
    weights: Path | None = None  # that get the temperature
    with join_processes(device) as processes:
        if isinstance(source, Predictor):
            network, recipe, owner = source.network, source.network.info.recipe, "the network"
            protocol, run = source.protocol, None
        else:
            found = find_in_processes(source, processes, progress)
            weights = _own_weights(found) if calibrate else None
            network, owner = open_network(found.path, processes.device), str(found)
            recipe = change(network.info.recipe)
            protocol = Protocol.of(recipe.eval, recipe.data)
            run = found.path if found.path.is_dir() else None
        settings, given = _settings_of(data, recipe.data), dataset is not None
        settings = settings if root is None else settings.model_copy(update={"root": root})
        if dataset is None:
            chosen = split or settings.val_split
            dataset = open_labelled(settings, chosen, None, network.info, owner)
        check_classes(network.info.classes, dataset, owner)
        submission = None
        if submit is not None:
            submission = open_submission(settings.name, dataset.split, submit)
        elif not has_labels(dataset):
            raise DataError(
                f"{title_of(dataset)} has no labels to score against; --submit writes "
                "predictions for the test server."
            )
        progress = progress if processes.is_first else SILENT
        if note := left_out_note(dataset):
            progress.note(note)
        path = run / COUNTS.format(dataset.split.replace("/", "-")) if run and not given else None
        digest = hash_files(find_weights(run)) if run else ""
        about = _about(network, settings, dataset.split, protocol, digest)
        reuse = reuse and submission is None and weights is None  # those need the predictions
        confusion = _kept(path, about, dataset, processes, progress) if reuse and path else None
        if confusion is None:
            progress.start(processes.share_of(len(dataset)), "evaluate")
            confusion = count_confusion(
                network.forward,
                len(network.info.classes),
                dataset,
                processes,
                protocol=protocol,
                workers=settings.workers,
                on_prediction=submission.put if submission else None,
                per_image=has_labels(dataset),
                progress=progress,
            )
        if not processes.is_first:
            return None
        counts, reliability = confusion.counts, confusion.reliability
        if path is not None and counts is not None and reliability is not None:  # counted now
            try:
                counts.save(path, about)
            except OutputError as error:  # the scores are there all the same
                progress.note(f"the counts are not kept: {error}")
        submitted = None
        if submission is not None:
            submitted = str(submission.finish([dataset.name(i) for i in range(len(dataset))]))
        figures, iou = score_counts(
            confusion.count_kk, dataset.info.name, network.info.classes, counts
        )
        if not figures and submission is None:
            raise no_labels_error(dataset)
        calibration = reliability.result() if reliability else None
        if weights is not None:
            if calibration is None:
                raise DataError("a temperature is fitted on two labelled images or more.")
            if read_info(weights) != network.info:
                raise CheckpointError(f"{weights} has changed meanwhile; run it again.")
            save_temperature(weights, calibration.temperature)
        # A score of other images than the training's stands alone.
        is_own = root is None and not given and settings == network.info.recipe.data
        return Evaluation(
            dataset=dataset.info.name,
            title=dataset.info.title if given else settings.title,
            split=dataset.split,
            images=len(dataset),
            protocol=str(protocol),
            step=network.info.step,
            figures=figures,
            intervals=score_intervals(counts, iou) if counts and figures else {},
            iou=iou,
            calibration=calibration,
            in_training=_score_in_training(network.info, dataset) if is_own else None,
            submission=submitted,
            data=settings,
            count_kk=confusion.count_kk,
            counts=counts,
        )


def _own_weights(found: FoundNetwork) -> Path:
    """Return the file of a network that may be written into."""
    if found.name or is_export(found.path):
        raise RecipeError(
            f"--calibrate writes into the file of the network, and {found} is "
            f"{'public' if found.name else 'an export'}: name a run, or copy its file."
        )
    path = find_weights(found.path)
    check_output_file(path, option="--calibrate")
    return check_stays(path, path.parent, "--calibrate")


def _about(network: Network, data: Data, split: str, protocol: Protocol, digest: str) -> str:
    """Say what counts are of: a network, images and a protocol."""
    info = network.info
    what = {
        "recipe": dump_recipe(info.recipe),
        "step": info.step,
        "score": info.score,
        "weights": digest,
        "run as": network.how,
        "data": data.name,
        "root": None if data.root is None else str(data.root.expanduser().absolute()),
        "options": data.options,
        "split": split,
        "protocol": str(protocol),
    }
    return json.dumps(what, sort_keys=True, default=str)


def _kept(
    path: Path, about: str, dataset: Dataset, processes: Processes, progress: Progress
) -> Confusion | None:
    """Return the counts that were kept of the same, if there are any."""
    counts = processes.run_on_first(lambda: ImageCounts.load(path, about))
    if counts is None or counts.names != [dataset.name(n) for n in range(len(dataset))]:
        return None
    progress.note(f"uses the counts in {path}; delete it if images or masks have changed.")
    return Confusion(torch.from_numpy(counts.confusion()), skipped=0, counts=counts)


def score_counts(
    count_kk: Tensor, dataset: str, classes: tuple[str, ...], counts: ImageCounts | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores by name, and the IoU of each class. Both are empty without labels."""
    if not count_kk.any():
        return {}, {}
    iou_k = benchmark_scores(count_kk, dataset, classes).iou_k
    boundary_3k = None if counts is None else torch.from_numpy(counts.edges().sum(0))
    figures = named_scores(count_kk, dataset, classes, boundary_3k)
    return figures, dict(zip(classes, iou_k.tolist(), strict=True))


def score_intervals(counts: ImageCounts, iou: dict[str, float]) -> dict[str, dict[str, float]]:
    """Return the 95 % intervals of mIoU and boundary IoU, over the classes that have an IoU."""
    scored_k = [value == value for value in iou.values()]  # nan: the mean leaves it out
    found = {"miou": counts.regions(), "boundary_iou": counts.edges()}
    intervals = {name: interval(counts_n3k[..., scored_k]) for name, counts_n3k in found.items()}
    return {name: {"low": one.low, "high": one.high} for name, one in intervals.items()}


def _settings_of(data: str | Path | Data | None, own: Data) -> Data:
    """Return the settings of a dataset that is given as `evaluate` takes it, or the own ones."""
    if data is None or isinstance(data, Data):
        return data or own
    base = Recipe(data=own, train=Train(steps=1))
    if is_dataset_file(str(data)):
        return apply_overrides(base, dataset_settings(Path(data))).data
    if data == own.name:
        return own
    return own.model_copy(update={"name": str(data), "root": None, "options": {}})


def open_labelled(
    data: Data, split: str, root: Path | None, info: NetworkInfo, owner: str
) -> Dataset:
    """Open a split of the dataset that a network says it was trained on."""
    if data.name == UNKNOWN:
        raise DataError(
            f"{owner} does not say which dataset to score it on; name one (--data, in Python "
            "data=...), or pass data=... to reconet.save."
        )
    with explain_missing_import(info.imports, owner):
        return open_split(data, split, root)


def check_classes(known: tuple[str, ...], dataset: Dataset, owner: str | Path) -> None:
    """Raise if the classes that a network knows are not those of a dataset."""
    there = dataset.info.classes
    if known == there:
        return
    differ = next((f"{a!r} is {b!r}" for a, b in zip(known, there, strict=False) if a != b), "")
    raise DataError(
        f"{owner} knows {len(known)} classes and {dataset.info.name} has {len(there)} others"
        f"{f' (the first: {differ})' if differ else ''}."
    )


def no_labels_error(dataset: Dataset) -> DataError:
    """Return the error for a confusion matrix that is empty."""
    return DataError(f"{title_of(dataset)} has no labelled pixel to score against.")


def _score_in_training(info: NetworkInfo, dataset: Dataset) -> dict[str, Any] | None:
    """Return the score that a training gave a network on the same split, and by which protocol."""
    data = info.recipe.data
    if "miou" not in info.score or (data.name, data.val_split) != (
        dataset.info.name,
        dataset.split,
    ):
        return None
    return {"miou": info.score["miou"], "protocol": str(Protocol.in_training(data))}


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Predictions of a split, as files. Any process may `put`; one of them calls `finish`."""

    directory: Path
    split: str
    format: SubmissionFormat

    def put(self, name: str, label_hw: Label) -> None:
        """Write the prediction for one image."""
        content = self.format.encode(label_hw)
        write_atomic(self.path(name), lambda file: file.write(content))

    def path(self, name: str) -> Path:
        return self.directory / self.format.path.format(split=self.split, name=name)

    def finish(self, names: Sequence[str]) -> Path:
        """Return what to send, once all images have been put."""
        if not self.format.archive:
            return self.path("").parent
        target = self.directory / self.format.archive.format(split=self.split)
        write_atomic(target, lambda file: self._zip(file, names))
        shutil.rmtree(self.path("").parent)
        return target

    def _zip(self, file: IO[bytes], names: Sequence[str]) -> None:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            for name in names:
                path = self.path(name)
                archive.writestr(ZipInfo(path.name), path.read_bytes())  # no dates: same bytes


def open_submission(dataset: str, split: str, directory: Path) -> Submission:
    """Return a submission into `directory`, for a dataset that has a test server."""
    known = {name: entry.submission for name, entry in DATASETS.items() if entry.submission}
    if dataset not in known:
        raise RecipeError(
            f"{dataset} has no test server that --submit knows; {', '.join(sorted(known))} have."
        )
    check_output_folder(directory, option="--submit")
    return Submission(directory=directory, split=split, format=known[dataset])
