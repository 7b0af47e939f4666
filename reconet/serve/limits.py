"""What a server accepts."""

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names of this machine for itself


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on requests and memory."""

    upload_bytes: int = 20_000_000
    pixels: int = 25_000_000  # of one image
    waiting: int = 16  # requests that wait while one is worked on
    read_seconds: float = 60.0  # in which a request must have arrived
    kept_images: int = 8
    kept_bytes: int = 2**29  # of all kept images together
