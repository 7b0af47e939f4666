"""Files are written whole or not at all, and only ordinary files are read, up to a limit."""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save_file

from reconet.errors import OutputError
from reconet.system.files import append_text, readable_bytes, staged_write, write_atomic, write_text
from reconet.system.reading import check_file, open_file, read_file
from reconet.system.tensor_files import check_sum, tensor_bytes
from tests.factories import smooth_image, tiny_network, write_run


def test_a_write_makes_folders_and_replaces_with_the_usual_permissions(tmp_path: Path) -> None:
    path, usual = tmp_path / "new" / "file.txt", tmp_path / "usual"
    usual.touch()
    write_text(path, "one")
    write_text(path, "zwei ä")
    assert path.read_text(encoding="utf-8") == "zwei ä"
    assert path.stat().st_mode == usual.stat().st_mode
    append_text(path, "\n")
    assert path.read_text(encoding="utf-8") == "zwei ä\n"


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def broken(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OutputError, match=r"cannot write .*file\.txt: disk full"):
        write_atomic(path, broken)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_link_within_its_folder_stays_a_link_and_any_other_is_not_followed(
    tmp_path: Path,
) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "within").symlink_to("file")
    write_text(folder / "within", "one")
    with staged_write(folder / "within") as part:
        part.write_text("two")
    assert (folder / "within").is_symlink()
    assert (folder / "file").read_text() == "two"
    (folder / "dangling").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    for name in ("dangling", "loop", "pipe"):
        with pytest.raises(OutputError, match=r"it is a link|no ordinary file"):
            write_text(folder / name, "x")
        with pytest.raises(OutputError, match=r"it is a link|cannot write .*pipe"):
            append_text(folder / name, "x")
    for name in ("dangling", "loop"):
        with pytest.raises(OutputError, match="it is a link"), staged_write(folder / name) as part:
            part.write_text("x")
    assert not outside.exists()


@pytest.mark.parametrize("place", ["link", "link/file", "link/more/file"])
def test_a_link_to_a_folder_that_does_not_exist_makes_none(tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to("a/" * 1000)  # pathlib would make them by as many calls
    with pytest.raises(OutputError, match="a folder that does not exist"):
        write_atomic(tmp_path / place, lambda file: file.write(b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    server = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        server.bind(str(path))
    else:
        path.mkdir()
    # A socket is refused by the system itself.
    reason = "No such device" if kind == "socket" else f"it is a {kind}"
    with server, pytest.raises(OSError, match=reason):
        read_file(path)


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path, large = tmp_path / "a.txt", tmp_path / "large"
    path.write_bytes(b"abc")
    assert read_file(path) == b"abc"
    assert check_file(path, limit=3) == path
    with open_file(path, limit=3, within=tmp_path) as file:
        assert file.read() == b"abc"
    with large.open("wb") as file:
        file.truncate(10**12)  # takes no room
    with pytest.raises(OSError, match="1,000,000,000,000 bytes") as raised:
        read_file(large, limit=100)
    assert raised.value.errno == errno.EFBIG


def test_a_link_may_lead_to_a_file_of_the_same_folder_only(tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "secret"
    (folder / "inner").mkdir(parents=True)
    outside.write_bytes(b"secret")
    (folder / "inner/file").write_bytes(b"fine")
    (folder / "near").symlink_to("inner/file")
    (folder / "away").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("run")
    assert read_file(folder / "near", within=folder) == b"fine"
    assert read_file(tmp_path / "link/inner/file", within=tmp_path / "link") == b"fine"
    assert read_file(folder / "away") == b"secret"  # where no folder is given, links are followed
    with pytest.raises(OSError, match="leads out of its folder"):
        read_file(folder / "away", within=folder)
    for within in (None, folder):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            read_file(folder / "loop", within=within)


def test_equal_tensors_are_equal_files(tmp_path: Path) -> None:
    tensors = {"b": torch.randn(3, 5), "a": torch.arange(7), "empty": torch.zeros(0, 2)}
    metadata = {f"key{n} ä": "x" * n for n in range(9)}
    first = tensor_bytes(tensors, metadata)
    for _ in range(5):
        assert tensor_bytes(tensors, dict(reversed(metadata.items()))) == first
    back = load(first)
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    save_file(tensors, tmp_path / "of-the-library.safetensors", {"format": "pt"})
    check_sum(tmp_path / "of-the-library.safetensors")  # has no checksum, and passes


def test_no_bit_of_a_file_can_change_unnoticed(tmp_path: Path) -> None:
    tensors, path = {"b": torch.arange(5), "a": torch.zeros(3)}, tmp_path / "file.safetensors"
    whole = tensor_bytes(tensors, {"classes": '["checksum", "00000000"]', "a": "ä"})
    unnoticed = []
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            check_sum(path)
            load_file(path)
        except (OSError, SafetensorError):
            continue
        unnoticed.append(place // 8)
    start = whole.index(b'"checksum":"')
    assert set(unnoticed) <= set(range(start + 1, start + 9)), "but in the name of the checksum"


def test_sizes_are_readable() -> None:
    values = (0, 999, 1000, 99_400, 655_360, 3.41e6, 999.9e6, 12e9, 2.5e12)
    told = ["0 B", "999 B", "1.0 kB", "99.4 kB", "655 kB", "3.4 MB", "1.0 GB", "12.0 GB", "2.5 TB"]
    assert [readable_bytes(value) for value in values] == told


def test_the_package_and_a_prediction_need_nothing_that_only_unix_has(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tiny_network())
    Image.fromarray(smooth_image(0)).save(tmp_path / "photo.png")
    code = (
        "import os, sys; sys.modules['fcntl'] = sys.modules['resource'] = None; "
        "del os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CLOEXEC; "
        "import reconet; from reconet.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["predict", str(run), str(tmp_path / "photo.png"), f"--out={tmp_path / 'out'}"]
    subprocess.run([sys.executable, "-c", code, *words, "--device=cpu"], check=True)
    assert (tmp_path / "out/photo.png").is_file()
