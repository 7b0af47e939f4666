"""The lock file: all pinned packages, with hashes, at the versions of constraints.txt."""

from tools.make_lock import CONSTRAINTS, LEFT_OUT, LOCK, hashes_of, read_lock, read_pins

LINKS = [
    "../../a/one-1.0-py3-none-any.whl#sha256=aa",
    "../../a/one-1.0.tar.gz#sha256=bb",
    "../../a/one-1.0.1.tar.gz#sha256=cc",
    "../../a/one_more-1.0.tar.gz#sha256=dd",
    "../../a/one-1.0.exe#sha256=ee",
    "../../a/one-1.0%2Blocal-py3-none-any.whl#sha256=ff",
]


def test_the_lock_has_hashes_for_every_pinned_package_and_no_other() -> None:
    pins, lock = read_pins(CONSTRAINTS), read_lock(LOCK)
    expected = {name: version for name, version in pins.items() if name not in LEFT_OUT}
    assert {name: version for name, (version, _) in lock.items()} == expected, "run `make lock`"
    assert all(hashes for _, hashes in lock.values())
    assert len(LOCK.read_text().split("--hash=")) - 1 == sum(len(h) for _, h in lock.values())


def test_a_lock_holds_the_files_of_one_version_alone() -> None:
    assert hashes_of(LINKS, "one", "1.0") == ["aa", "bb"]
