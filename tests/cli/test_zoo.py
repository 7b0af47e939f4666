"""`reconet zoo` and `reconet convert`."""

import json
from pathlib import Path

import pytest
from PIL import Image

from reconet.inference import network as by_name
from reconet.models.trained import save_compact
from tests.cli.run import run
from tests.factories import smooth_image, tiny_network, write_run
from tests.zoo.test_convert import CLASSES, mmseg_net, save


def test_the_zoo_lists_networks_by_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path))
    name = "danet_r50-d8_512x512_80k_ade20k"
    (tmp_path / "zoo" / name).mkdir(parents=True)
    (tmp_path / "zoo" / name / "best.safetensors").write_bytes(b"")
    code, out, _ = run(capsys, "zoo", "danet", "ade20k")
    assert code == 0
    lines = [line for line in out.splitlines() if line.lstrip().startswith("danet_")]
    assert len(lines) == 4
    assert lines[0].split() == [
        *(name, "danet", "resnet50", "ade20k", "41.66", "200", "MB", "Apache-2.0", "yes")
    ]
    _, out, _ = run(capsys, "zoo", "danet", "ade20k", "--json")
    rows = json.loads(out)["networks"]
    assert [row["cached"] for row in rows] == [True, False, False, False]
    assert rows[0]["sha256"] == "edb18e08"
    code, _, err = run(capsys, "zoo", "danet", "mars")
    assert code == 2
    assert err == "reconet: no network has danet and mars. Try `reconet zoo`.\n"


def test_the_zoo_lists_networks_of_the_package_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    network = tiny_network()
    save_compact(tmp_path / "mine.safetensors", network)
    (tmp_path / "mine.md").write_text('---\nlicense: "cc0-1.0"\n---\n')
    monkeypatch.setattr(by_name, "PRETRAINED", tmp_path)
    _, out, _ = run(capsys, "zoo", "--json")
    first, second = json.loads(out)["networks"][:2]
    assert (first["name"], first["source"], first["licence"]) == ("mine", "reconet", "cc0-1.0")
    assert first["miou"] == network.info.score["miou"]
    assert first["cached"]
    assert second["source"] == "torchvision"
    _, out, _ = run(capsys, "zoo", "reconet")
    assert [line.split()[0] for line in out.splitlines() if "cc0-1.0" in line] == ["mine"]


def test_a_converted_network_predicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = save(tmp_path / "a.pth", mmseg_net("ccnet")), tmp_path / "net"
    names = ",".join(CLASSES)
    arguments = ["convert", str(file), "--from", "mmseg", "--out", str(out)]
    code, text, err = run(capsys, *arguments, "--classes", names)
    assert (code, err) == (0, "")
    assert text.splitlines()[0] == "ccnet on resnet50, 5 classes (leaky=False)"
    _, text, _ = run(capsys, *arguments, "--classes", names, "--json")  # again, over its own files
    assert json.loads(text)["classes"] == list(CLASSES)
    Image.fromarray(smooth_image(1, 40, 60)).save(tmp_path / "street.png")
    labels = ["--out", str(tmp_path / "labels"), "--device", "cpu", "--precision", "fp32"]
    code, _, err = run(capsys, "predict", str(out), str(tmp_path / "street.png"), *labels)
    assert code == 0, err
    with Image.open(next((tmp_path / "labels").rglob("street*.png"))) as mask:
        assert mask.size == (60, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "mmseg"], "does not name them. Use --dataset or --classes"),
        (["--from", "mmsegm"], "unknown toolkit 'mmsegm'. Did you mean 'mmseg'?"),
        (["--from", "mmseg", "--classes", "a,a"], "--classes takes different names"),
        (["--from", "mmseg", "--classes", "a", "--dataset", "voc12"], "give one of them"),
        (["--from", "mmseg", "--dataset", "voc12"], "it has 5 classes, and voc12 has 21"),
        (["--from", "torchvision", "--dataset", "voc12"], "use --from mmseg"),
    ],
)
def test_a_conversion_that_cannot_be_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = save(tmp_path / "a.pth", mmseg_net("fcn"))
    out = tmp_path / "net"
    code, _, err = run(capsys, "convert", str(file), "--out", str(out), *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_files_of_others_are_not_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "thesis.txt").write_text("mine")
    out = ["--from", "mmseg", "--out", str(tmp_path / "net")]
    code, _, err = run(capsys, "convert", str(tmp_path / "a.pth"), *out)
    assert code == 2
    assert "holds other files" in err
    (tmp_path / "net" / "thesis.txt").unlink()
    write_run(tmp_path / "net", tiny_network())  # not converted, but trained or downloaded
    assert "holds other files" in run(capsys, "convert", str(tmp_path / "a.pth"), *out)[2]
