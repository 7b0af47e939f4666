"""Bad uploads get a status and one line, and leave nothing behind."""

import errno
import os
import socket
import zlib

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.serve.helpers import encode, image
from tests.serve.launch import RunningServer

IMAGE = image()


def bomb() -> bytes:
    """Make a small PNG of 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, check = len(data).to_bytes(4, "big"), zlib.crc32(kind + data).to_bytes(4, "big")
        return size + kind + data + check

    head = (60_000).to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    return start + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")


FORM = "multipart/form-data; boundary=x"
BAD: dict[str, tuple[bytes, str, int]] = {
    "too many bytes": (bytes(300_000), "image/png", 413),
    "too many pixels": (encode(np.zeros((400, 400, 3), np.uint8)), "image/png", 413),
    "a bomb": (bomb(), "image/png", 413),
    "text": (b"hello", "text/plain", 415),
    "no type": (encode(IMAGE), "", 415),
    "a vector image": (b"<svg/>", "image/svg+xml", 415),
    "garbage": (b"\x00garbage" * 99, "image/jpeg", 422),
    "cut off": (encode(IMAGE)[:900], "image/png", 422),
    "a cut-off photograph": (encode(IMAGE, "JPEG")[:900], "image/jpeg", 422),
    "nothing": (b"", "image/png", 422),
    "a form without an end": (b"--x\r\nnonsense", FORM, 422),
    "a form without a file": (
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',
        FORM,
        422,
    ),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("url", ["/api/segment", "/api/images"])
@pytest.mark.parametrize("what", BAD)
def test_bad_uploads_get_a_status_and_one_line(client: TestClient, url: str, what: str) -> None:
    body, kind, status = BAD[what]
    answer = client.post(url, content=body, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == status
    assert isinstance(answer.json()["detail"], str)
    assert "\n" not in answer.json()["detail"]
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}


def test_a_full_temporary_folder_is_the_servers_problem(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", refuse)
    answer = client.post("/api/segment", files={"image": ("a.png", encode(IMAGE), "image/png")})
    assert answer.status_code == 507
    assert "No space left" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("kind", "megabytes", "status"), [("text/plain", 1.9, 415), ("image/png", 9, 413)]
)
def test_an_upload_that_is_refused_early_is_still_answered(
    server: RunningServer, kind: str, megabytes: float, status: int
) -> None:
    """Send without a length, so that the server learns the size only as the body arrives."""
    part = bytes(100_000)
    head = (
        f"POST /api/segment HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: {kind}\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(round(megabytes * 10)):
            connection.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert connection.recv(12).decode() == f"HTTP/1.1 {status}"
