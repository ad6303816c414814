"""Who may come in, before a byte of a body is believed: host, token, size and time, in this order.

One ASGI layer around the routes. It never looks into a body. Invariants: a page of another site cannot use a browser's
session to order anything (sessions only read; orders need the token in a header, and no answer permits another origin);
a name that somebody's DNS points here (rebinding) is refused; a body is never held beyond its limit.
"""

import re
from collections.abc import Collection, Mapping
from http.cookies import CookieError, SimpleCookie

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawl_pipeline.api.problems import problem
from crawl_pipeline.api.tokens import Sessions, Tokens

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MOST_BYTES = 2 << 20
"""Of a body: ten thousand URLs of two hundred characters."""
BODY_S = 20.0
COOKIE = "crawl_session"
OPEN = ("/api/v1/openapi.json", "/login", "/logout", "/", "/favicon.ico")
"""What is answered without a token: nothing of it tells about the crawl."""
READ = ("/api/v1/status", "/api/v1/events")
"""What a browser's session may read, besides the page itself."""
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "x-frame-options": "DENY", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip


class Guard:
    """Lets requests through to an application if they may come in; `request.state.name` then says who it is."""

    def __init__(self, app: ASGIApp, tokens: Tokens, sessions: Sessions, names: Collection[str]) -> None:
        self._app, self._tokens, self._sessions = app, tokens, sessions
        self._names = {name.lower() for name in (*LOOPBACK, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, body = Request(scope), b""
        scope.setdefault("state", {})["name"] = None
        refusal = self._refusal(request)
        if refusal is None:
            refusal, body = await _body(receive)
        if refusal is not None:
            await refusal(scope, receive, _hardened(send))
        else:
            await self._app(scope, _replayed(body, receive), _hardened(send))

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if name_in(host) not in self._names:
            known = ", ".join(sorted(self._names))
            return problem(421, f"expected a Host of {known}, found {host[:100]!r}: see --name of crawl serve")
        name = self._name(request)
        request.scope["state"]["name"] = name
        if name is None and request.scope["path"] not in OPEN:
            return problem(401, "expected the header `Authorization: Bearer TOKEN` with a token of this server",
                           headers={"www-authenticate": "Bearer"})  # fmt: skip
        if (told := request.headers.get("content-length", "0")).isdigit() and int(told[:20]) > MOST_BYTES:
            return _too_large()
        return None

    def _name(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            return self._tokens.name_of(token.strip()) if scheme.lower() == "bearer" else None
        if request.method not in ("GET", "HEAD") or request.scope["path"] not in (*READ, "/"):
            return None
        return self._sessions.name_of(cookie(request))


def cookie(request: Request) -> str:
    """The session's cookie, empty if there is none."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _hardened(send: Send) -> Send:
    """Send answers with the headers that all of them have."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return hardened


async def _body(receive: Receive) -> tuple[Response | None, bytes]:
    """Read a body up to its limits of size and time."""
    body, more = bytearray(), True
    with anyio.move_on_after(BODY_S) as scope:
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
            if len(body) > MOST_BYTES:
                return _too_large(), b""
    if scope.cancelled_caught:
        return problem(408, f"expected the whole body within {BODY_S:.0f} s", headers={"connection": "close"}), b""
    return None, bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message; then what the connection says."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _too_large() -> Response:
    return problem(413, f"expected at most {MOST_BYTES:,} bytes: send a long list in parts, each with a key of its own",
                   headers={"connection": "close"})  # fmt: skip


def name_in(host: str) -> str:
    """The name in a Host header; empty unless it is a name or an address and perhaps a port, and nothing else.

    A URL that is made from it, as `request.url` is, could be one with another path: so nothing here goes by that.
    """
    found = _HOST.fullmatch(host.lower())
    return found[1].rstrip(".") if found else ""


_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
