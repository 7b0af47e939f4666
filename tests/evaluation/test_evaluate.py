"""`reconet evaluate`: scores, protocols, processes, submissions, and what users get wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import confusion_matrix

from reconet import Predictor, Protocol
from reconet.cli import main
from reconet.data import DATASETS, open_dataset
from reconet.data.dataset import Dataset, Sample
from reconet.data.images.read import read_mask
from reconet.data.sets.cityscapes import read_label as read_cityscapes
from reconet.errors import DataError, RecipeError
from reconet.evaluation import StoppedError, count_model_confusion, evaluate, open_submission
from reconet.inference import predict_labels
from reconet.models.trained import load_trained, read_info, save_trained
from reconet.recipes import Data, Recipe, apply_overrides
from reconet.system.distributed import Processes
from reconet.system.tensor_files import check_sum
from reconet.types import IGNORE
from tests.data.trees import make_tree, stripes
from tests.factories import ProgressRecorder, smooth_image, tiny_network, tiny_recipe, write_run
from tests.launch import finish, start

Answer = tuple[int, str, str]
ALONE = Processes.single(torch.device("cpu"))


def make_network(
    dataset: str, directory: Path, classes: tuple[str, ...] | None = None
) -> tuple[Path, Recipe]:
    """Write a dataset, and a network for it that sees small windows. Return file and recipe."""
    settings = [f"data.name={dataset}", f"data.root={directory / 'data'}"]
    if dataset != "scenes":
        make_tree(dataset, directory / "data")
        settings.append("data.options={}")
    recipe = tiny_recipe(*settings, "data.crop=32", "data.base_size=48", "eval.mode=slide")
    path = directory / "net.safetensors"
    save_trained(path, tiny_network(recipe, classes=classes, decided=True))
    return path, recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_network("scenes", tmp_path_factory.mktemp("run"))[0]


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> Answer:
    code = main(["evaluate", *map(str, arguments), "--device=cpu"])
    return code, *capsys.readouterr()


def test_the_matrix_is_that_of_scikit_learn_over_all_images(tmp_path: Path) -> None:
    path, recipe = make_network("camvid", tmp_path)
    progress = ProgressRecorder()
    result = evaluate(path, device="cpu", progress=progress)
    assert result is not None
    assert progress.lines == [f"start {result.images}", *["advance 1"] * result.images]
    dataset = open_dataset("camvid", "val", tmp_path / "data")
    model, protocol = load_trained(path).model, Protocol.of(recipe.eval, recipe.data)
    truth, predicted = [], []
    for index in range(len(dataset)):
        sample = dataset[index]
        predicted_hw = predict_labels(
            model.coarse, torch.from_numpy(sample.image_hwc), protocol, 11
        )
        scored_hw = sample.label_hw != IGNORE
        truth.append(sample.label_hw[scored_hw])
        predicted.append(predicted_hw.numpy()[scored_hw])
    expected = confusion_matrix(np.concatenate(truth), np.concatenate(predicted), labels=range(11))
    assert np.abs(result.count_kk.numpy() - expected).sum() <= 4  # folding may move a pixel
    assert result.count_kk.sum() == expected.sum()


def test_the_protocol_stands_beside_the_score(
    capsys: pytest.CaptureFixture[str], run: Path
) -> None:
    code, out, err = ask(capsys, run, "--scales", "0.75,1.5", "--flip", "--mode", "whole")
    assert (code, err) == (0, "")
    assert "mIoU" in out
    assert "whole images" in out
    assert "scale 0.75, 1.5 of a long side of 48; with mirror images; mean of softmax" in out
    _, out, _ = ask(capsys, run, "--relative-to", "original", "--json")
    values = json.loads(out)
    assert "windows of 32 x 32" in values["protocol"]
    assert "image's own size" in values["protocol"]
    assert values["step"] == 7
    assert list(values["iou"]) == list(DATASETS["scenes"].info.classes)


def test_one_and_two_processes_print_the_same(run: Path) -> None:
    arguments = ["reconet", "evaluate", str(run), "--json", "--flip", "--device=cpu"]
    one, two = finish(start(arguments)), finish(start(arguments, processes=2))
    assert one[0] == two[0] == 0, one[2] + two[2]
    assert json.loads(one[1])["images"] == 8
    assert one[1] == two[1]


@pytest.mark.parametrize(
    "dataset", [name for name, entry in DATASETS.items() if entry.submission is not None]
)
def test_submit_writes_what_the_network_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, dataset: str
) -> None:
    path, _ = make_network(dataset, tmp_path)
    code, out, _ = ask(capsys, path, "--split=test", "--submit", tmp_path / "out", "--json")
    assert code == 0
    values = json.loads(out)
    assert values["figures"] == values["iou"] == {}
    assert Path(values["submission"]).exists()
    if dataset != "ade20k":
        (file,) = Path(values["submission"]).glob("*.png")
        assert read_mask(file).shape == (40, 56)
    shown = ask(capsys, path, "--split=test", "--submit", tmp_path / "out")[1]
    assert "for the test server" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scales", "a,b"], "such as 0.75,1,1.25, got 'a,b'."),
        (["--scales", ""], "--scales takes numbers"),
        (["--scales", "1,-1"], "--scales takes numbers above 0"),
        (["--scales", "nan"], "--scales takes numbers above 0"),
        (["--mode", "windows"], "unknown --mode 'windows'. Choose from: slide, whole."),
        (["--relative-to", "me"], "unknown --relative-to 'me'. Choose from: base_size,"),
        (["--split", "test"], "unknown split of scenes 'test'"),
        (["--submit", "out"], "scenes has no test server"),
        (["--device", "cuda:9"], "there is no device 'cuda:9' here"),
    ],
)
def test_a_wrong_option_is_one_line(
    capsys: pytest.CaptureFixture[str], run: Path, arguments: list[str], message: str
) -> None:
    code = main(["evaluate", str(run), *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def no_labels(directory: Path) -> list[object]:
    return [make_network("voc12", directory)[0], "--split=test"]


def no_file(directory: Path) -> list[object]:
    return [directory / "nowhere"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_labels, "voc12 test has no labels to score against; --submit"),
        (no_file, "there is no such path, and no network of this name"),
    ],
)
def test_a_wrong_network_is_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    make: Callable[[Path], list[object]],
    message: str,
) -> None:
    code, out, err = ask(capsys, *make(tmp_path))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_a_score_by_another_protocol_than_in_training_stands_beside_that_of_the_training(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ask(capsys, run)
    assert code == 0
    assert "protocol: windows of 32 x 32" in out
    assert "in training, at step 7: mIoU 50.00 % by another protocol: whole images" in out
    code, out, _ = ask(capsys, run, "--mode=whole")
    assert "in training" not in out
    code, out, _ = ask(capsys, run, "--mode=whole", "--json")
    assert json.loads(out)["in_training"]["miou"] == 0.5


def test_a_predictor_is_scored_on_data_that_is_named_or_described(
    run: Path, tmp_path: Path
) -> None:
    segment = Predictor.from_run(run, device="cpu", precision="fp32")
    small = Data(name="scenes", workers=0, options={"size": [48, 64], "val": 2})
    result = evaluate(segment, data=small, device="cpu")
    assert result is not None
    assert (result.dataset, result.images) == ("scenes", 2)
    assert result.protocol == str(segment.protocol)
    (tmp_path / "mine.yaml").write_text("classes: [a, b]")
    with pytest.raises(DataError, match="does not look like your own images"):
        evaluate(segment, data=tmp_path / "mine.yaml", device="cpu")
    with pytest.raises(RecipeError, match="not both"):
        evaluate(segment, open_dataset("scenes", "val"), data=small, device="cpu")


def test_a_folder_is_called_by_its_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("images", "masks"):
        (tmp_path / "mine" / kind).mkdir(parents=True)
    for number in range(4):
        Image.fromarray(smooth_image(number)).save(tmp_path / f"mine/images/{number}.png")
        mask_hw = smooth_image(number)[..., 0] % 2
        Image.fromarray(mask_hw).save(tmp_path / f"mine/masks/{number}.png")
    options = 'data.options={"classes": ["a", "b"], "val_fraction": 0.5}'
    recipe = tiny_recipe("data.name=folder", f"data.root={tmp_path / 'mine'}", options)
    run = write_run(tmp_path / "run", tiny_network(recipe))
    code, out, err = ask(capsys, run)
    assert (code, err) == (0, "")
    assert "mine, val, " in out
    for path in (tmp_path / "mine" / "masks").iterdir():
        mask_hw = np.full_like(mask_hw, 255)
        Image.fromarray(mask_hw).save(path)
    assert "mine, train has no labelled pixel to score" in ask(capsys, run, "--split=train")[2]


def test_a_score_has_an_interval_and_its_counts_are_kept_and_used_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tiny_network(tiny_recipe("data.crop=32", "data.base_size=48"), decided=True)
    run = write_run(tmp_path / "run", trained)
    code, out, err = ask(capsys, run)
    assert (code, err) == (0, "")
    assert "95 % interval" in out
    assert "With fewer than 30 images, the intervals are rough" in out
    first = json.loads(ask(capsys, run, "--json")[1])
    for name in ("miou", "boundary_iou"):
        low, high = (first["intervals"][name][side] for side in ("low", "high"))
        assert low < first["figures"][name] < high
    counted, again = (evaluate(run, device="cpu", reuse=reuse) for reuse in (False, True))
    assert counted is not None
    assert again is not None
    assert again.as_dict() | {"calibration": None} == counted.as_dict() | {"calibration": None}
    assert torch.equal(again.count_kk, counted.count_kk)

    def counts_again(**how: Any) -> bool:
        progress = ProgressRecorder()
        evaluate(run, device="cpu", reuse=True, progress=progress, **how)
        return any(line.startswith("start") for line in progress.lines)

    assert not counts_again()
    assert counts_again(change=lambda recipe: apply_overrides(recipe, ["eval.flip=true"]))
    assert counts_again(data=Data(name="scenes", workers=0, options={"val": 3}))
    trained.info.score["miou"] = 0.25
    write_run(run, trained)
    assert counts_again(), "another network"


def test_a_network_is_calibrated_and_its_weights_and_scores_stay(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, copy = tmp_path / "net.safetensors", tmp_path / "copy.safetensors"
    trained = load_trained(run)
    with torch.no_grad():
        trained.model.classify.weight.mul_(5)  # far too sure
    for file in (path, copy):
        save_trained(file, trained)
    code, out, err = ask(capsys, path, "--calibrate", "--json")
    assert (code, err) == (0, "")
    before = json.loads(out)
    assert before["calibration"]["ece_with"] < before["calibration"]["ece"]
    assert sum(before["calibration"]["share"]) == pytest.approx(1)
    info, plain = read_info(path), read_info(copy)
    assert info == replace(plain, temperature=before["calibration"]["temperature"])
    assert info.temperature != plain.temperature == 1
    check_sum(path)
    kept = load_trained(copy).model.state_dict()
    for name, value in load_trained(path).model.state_dict().items():
        assert torch.equal(value, kept[name])
    assert json.loads(ask(capsys, path, "--json")[1]) == before
    assert "which the network keeps now" in ask(capsys, path, "--calibrate")[1]


def test_only_a_file_of_the_user_is_calibrated(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, message in [
        (("voc12", "--calibrate"), "writes into the file of the network, and voc12 is public"),
        (("model.onnx", "--calibrate"), "no network 'model.onnx'"),
        ((run, "--calibrate", "--fast"), "leave out --fast"),
    ]:
        code, _, err = ask(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def test_submissions_are_what_the_servers_want(tmp_path: Path) -> None:
    expected = {
        "voc12": "results/VOC2012/Segmentation/comp6_test_cls/{}.png",
        "cityscapes": "{}_pred_labelIds.png",
        "ade20k": "ade20k_test.zip",
    }
    for dataset, path in expected.items():
        out = tmp_path / dataset / "out"
        make_tree(dataset, tmp_path / dataset)
        test = open_dataset(dataset, "test", tmp_path / dataset)
        names = [test.name(index) for index in range(len(test))]
        classes = len(DATASETS[dataset].info.classes)
        wanted = {name: stripes(name, classes, void=False) for name in names}
        submission = open_submission(dataset, "test", out)
        for name, label_hw in wanted.items():
            label_hw.flat[:classes] = range(classes)
            submission.put(name, label_hw)
        sent = submission.finish(names)
        for name, label_hw in wanted.items():
            if dataset == "voc12":
                assert np.array_equal(read_mask(out / path.format(name)), label_hw)
                with Image.open(out / path.format(name)) as image:
                    assert image.mode == "P"
                    assert image.getpalette()[45:48] == [192, 128, 128]  # type: ignore[index]
            elif dataset == "cityscapes":
                assert np.array_equal(read_cityscapes(sent / path.format(name)), label_hw)
                found = set(np.unique(read_mask(sent / path.format(name))))
                assert found <= {7, 8, *range(11, 34)}
            else:
                with ZipFile(out / path) as archive, archive.open(f"{name}.png") as file:
                    assert np.array_equal(np.array(Image.open(file)) - 1, label_hw)


def val_set() -> Dataset:
    return open_dataset("scenes", "val", None, tiny_recipe().data.options)


def test_an_image_that_cannot_be_read_raises_or_is_skipped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, model, progress = val_set(), tiny_network().model, ProgressRecorder()
    everything = count_model_confusion(model, dataset, ALONE)
    assert everything.skipped == 0
    read = type(dataset).__getitem__

    def first_is_broken(self: Dataset, index: int) -> Sample:
        if index == 0:
            raise DataError("the first image is broken.")
        return read(self, index)

    monkeypatch.setattr(type(dataset), "__getitem__", first_is_broken)
    with pytest.raises(DataError, match="the first image is broken"):
        count_model_confusion(model, dataset, ALONE)
    result = count_model_confusion(model, dataset, ALONE, on_error="skip", progress=progress)
    assert result.skipped == 1
    assert progress.lines == ["advance 1"] * (len(dataset) - 1)
    assert result.count_kk.sum() < everything.count_kk.sum()


def test_stopping_is_an_error_that_says_so() -> None:
    progress = ProgressRecorder()
    with pytest.raises(StoppedError):
        count_model_confusion(
            tiny_network().model, val_set(), ALONE, stop=lambda: True, progress=progress
        )
    assert progress.lines == ["advance 1"]
