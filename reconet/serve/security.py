"""Check each request before it reaches a route: its host, origin, size and time.

- A page on another site can make a visitor's browser send requests to 127.0.0.1, by giving its own
  name this address (DNS rebinding) or by plain cross-site forms. So requests must name this machine
  as their host, and those with an origin must come from this page.
- Bodies are counted as they arrive, whatever Content-Length says, and must arrive in time. So must
  headers, and answers must be read in time.
- Requests that the server cannot finish before it stops are told so.
- Response headers forbid browsers to load anything from elsewhere.
"""

import asyncio
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
DRAIN_BYTES = 2**26  # read and discarded of a refused body, so that its sender reads the refusal
DRAIN_SECONDS = 5.0
ANSWER_SECONDS = 60.0  # in which an answer must have been read


class SecurityMiddleware:
    """An ASGI middleware that refuses requests, or limits how they are read.

    `hosts` are the names that requests may use for this server. If it is empty, any name will do.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str], max_body: int, read_seconds: float
    ) -> None:
        self.app, self.hosts = app, hosts
        self.max_body, self.read_seconds = max_body, read_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = LimitedBody(receive, self.max_body, self.read_seconds)
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        has_body = "transfer-encoding" in headers or length != "0"

        async def answer(message: Message) -> None:
            """Send an answer with the security headers, when the rest of the body has arrived.

            A connection that is closed earlier is reset, and the sender never reads the answer. A
            body that is too slow is not waited for.
            """
            if message["type"] == "http.response.start":
                for name, value in HEADERS.items():
                    MutableHeaders(scope=message).setdefault(name, value)
                if has_body and message["status"] != 408:
                    await body.drain()
            await send(message)

        refusal = self._refusal(headers)
        if refusal is not None:
            if headers.get("expect", "").lower() == "100-continue":
                has_body = False  # its sender waits for an answer first
            await refusal(scope, receive, answer)
            return
        try:
            await self.app(scope, body.receive, answer)
        except asyncio.CancelledError:  # the server stops, and has waited for this request
            has_body = False
            await refuse(503, "the server stops; try again later.")(scope, receive, answer)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if self.hosts and host_name(host) not in self.hosts:
            return refuse(400, f"this server is not called {host!r}; use {min(self.hosts)}.")
        origin = headers.get("origin")
        if origin is not None and host_and_port(origin) != host:
            return refuse(403, "requests from pages of other sites are not answered.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 18 or int(length) > self.max_body):
            return refuse(413, too_large(self.max_body))
        return None


class TimedConnection(H11Protocol):
    """A connection that ends if no request arrives in time, or if nobody reads the answer.

    uvicorn itself waits for both for ever, and counts such a connection among the most it takes.
    """

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allow(self.timeout_keep_alive)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        unread = self.transport.get_write_buffer_size() > 0
        self._allow(ANSWER_SECONDS if unread else self.timeout_keep_alive)

    def _allow(self, seconds: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Close the connection, unless a request has arrived and is in work."""
        in_work = self.cycle is not None and not self.cycle.response_complete
        if not in_work or self.flow.write_paused:
            self.transport.abort()


class LimitedBody:
    """A request body that raises an HTTP error if it is too large or too slow."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self.most, self.seconds = receive, most, seconds
        self.size, self.complete = 0, False
        self.deadline: float | None = None  # set when the body is first asked for

    async def receive(self) -> Message:
        """Receive the next part of the body."""
        if self.complete:  # the next message says that the client has gone
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
        """Read and discard a body. Otherwise its sender may never read the answer."""
        self.most, self.seconds, self.deadline = DRAIN_BYTES, DRAIN_SECONDS, None
        try:
            while not self.complete:
                await self.receive()
        except HTTPException:
            return


def host_name(host: str) -> str:
    """Strip the port and the brackets of IPv6: "[::1]:8000" -> "::1"."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def host_and_port(origin: str) -> str | None:
    """Return host and port of an origin. An origin such as "null" has none."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def refuse(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, {"Connection": "close"})


def too_large(most: int) -> str:
    return f"the upload is larger than {most / 1e6:.3g} MB; send a smaller file."
