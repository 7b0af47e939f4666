"""Serve one file on this machine, with or without ranges, as the hosts of public networks do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Answers every path with `data`. It breaks off after `breaks_after` bytes, if set."""

    daemon_threads = True

    def __init__(self, data: bytes, *, ranges: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.data, self.ranges = data, ranges
        self.breaks_after: int | None = None
        self.status = 200
        self.asked: list[str | None] = []  # the ranges of all requests

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/net.pth"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start >= len(server.data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.data) - start))
        self.end_headers()
        stop = server.breaks_after if server.breaks_after is not None else len(server.data)
        self.wfile.write(server.data[start : start + stop])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve(data: bytes, *, ranges: bool = True) -> Iterator[FileServer]:
    """Serve `data` while the block runs."""
    server = FileServer(data, ranges=ranges)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
