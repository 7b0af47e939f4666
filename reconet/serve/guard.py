"""Stands before every route: who may ask, how much a request may bring and how long it may take.

- A page on another site can make a visitor's browser send requests to 127.0.0.1, by giving its own
  name this address (DNS rebinding) or by plain cross-site forms. So requests must name this machine
  as their host, and those with an origin must come from this page.
- Bodies are counted as they arrive, whatever Content-Length says, and must arrive in time.
- Browsers are told to load nothing from elsewhere.
"""

import asyncio
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
DRAIN_BYTES = 2**26  # of a refused body that is thrown away, so that its sender reads the refusal
DRAIN_SECONDS = 5.0


class Guard:
    """`hosts` are the names that requests may use for this server; none: any."""

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str], max_body: int, read_seconds: float
    ) -> None:
        self.app, self.hosts = app, hosts
        self.max_body, self.read_seconds = max_body, read_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = with_headers(send)
        body = Body(receive, self.max_body, self.read_seconds)
        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal is not None:
            if headers.get("expect", "").lower() != "100-continue":  # that sender waits for a yes
                await body.drain()
            await refusal(scope, receive, send)
            return
        await self.app(scope, body.receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if self.hosts and host_name(host) not in self.hosts:
            return refuse(400, f"this server is not called {host!r}; ask for {min(self.hosts)}.")
        origin = headers.get("origin")
        if origin is not None and place(origin) != host:
            return refuse(403, "requests from pages of other sites are not answered.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 18 or int(length) > self.max_body):
            return refuse(413, too_large(self.max_body))
        return None


class Body:
    """Hands on what arrives, as long as it is not too much and not too late."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self.most, self.seconds = receive, most, seconds
        self.size, self.complete = 0, False
        self.deadline: float | None = None  # from the first time that somebody wants the body

    async def receive(self) -> Message:
        if self.complete:  # what comes now is the news that the other side has gone
            return await self._receive()
        if self.deadline is None:
            self.deadline = asyncio.get_running_loop().time() + self.seconds
        try:
            async with asyncio.timeout_at(self.deadline):
                message = await self._receive()
        except TimeoutError as error:
            late = f"the request did not arrive within {self.seconds:g} seconds."
            raise HTTPException(408, late, {"Connection": "close"}) from error
        self.complete = not message.get("more_body", False)
        self.size += len(message.get("body", b""))
        if self.size > self.most:
            raise HTTPException(413, too_large(self.most), {"Connection": "close"})
        return message

    async def drain(self) -> None:
        """Throw a body away. Its sender may else find the door shut before it reads the answer."""
        self.most, self.seconds = DRAIN_BYTES, DRAIN_SECONDS
        try:
            while not self.complete:
                await self.receive()
        except HTTPException:
            return


def with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def host_name(host: str) -> str:
    """Without the port and the brackets of IPv6: "[::1]:8000" -> "::1"."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def place(origin: str) -> str | None:
    """Host and port of an origin; none where it names no place, as "null" does."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def refuse(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, {"Connection": "close"})


def too_large(most: int) -> str:
    return f"the upload is larger than {most / 1e6:.3g} MB; send a smaller file."
