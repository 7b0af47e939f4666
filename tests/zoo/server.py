"""Serve one file on this machine, as the hosts of public networks do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """Answers every path with `data`. It breaks off after `breaks_after` bytes, if set."""

    daemon_threads = True

    def __init__(self, data: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.data = data
        self.breaks_after: int | None = None
        self.status = 200
        self.asked = 0  # requests

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/net.pth"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.data)))
        self.end_headers()
        self.wfile.write(self.server.data[: self.server.breaks_after])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve(data: bytes) -> Iterator[FileServer]:
    """Serve `data` while the block runs."""
    server = FileServer(data)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
