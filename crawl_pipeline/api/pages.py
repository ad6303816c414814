"""The status page in a browser: a form to log in, one page that loads nothing from elsewhere, and its stream of events.

A token never stands in an address: it is typed into a form once and exchanged for a cookie that scripts cannot read
and other sites cannot send. The cookie only reads; see guarding.
"""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from importlib import resources
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from crawl_pipeline.api.guarding import COOKIE, LOOPBACK, cookie, name_in
from crawl_pipeline.api.problems import problem, to_json
from crawl_pipeline.api.tokens import SESSION_S, Sessions, Tokens
from crawl_pipeline.api.watching import Watch

LOOK_S, ALIVE_S = 1.0, 15.0
"""How often an open page is looked after, and told that the server is still there; in seconds."""
MOST_OPEN = 32
"""Pages that may be open at a time."""
WRONG_S = 0.5
"""What a wrong token waits for its answer."""


class Events(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


def routes(tokens: Tokens, sessions: Sessions, watch: Watch) -> APIRouter:
    """What a browser asks for."""
    router = APIRouter(include_in_schema=False)
    page, login = _page("page.html"), _page("login.html")

    @router.get("/")
    async def status_page(request: Request) -> Response:
        return page() if request.state.name else RedirectResponse("/login", 303)

    @router.get("/login")
    async def form() -> Response:
        return login()

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        if _of_another_site(request):
            return problem(401, "expected the form of this server, found one of another site")
        token = parse_qs((await request.body()).decode("latin-1")).get("token", [""])[0].strip()
        name = tokens.name_of(token)
        if name is None:
            await anyio.sleep(WRONG_S)
            return RedirectResponse("/login#wrong", 303)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, sessions.begin(name), max_age=SESSION_S, httponly=True, samesite="strict",
                          secure=name_in(request.headers["host"]) not in LOOPBACK)  # fmt: skip
        return answer

    @router.get("/logout")
    async def log_out(request: Request) -> Response:
        sessions.end(cookie(request))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    @router.get("/favicon.ico")
    async def favicon() -> Response:
        return Response(status_code=204)

    return router


def events(watch: Watch) -> Response:
    """The pulse again and again: at once, as rounds are committed, and every ALIVE_S."""
    if watch.pages >= MOST_OPEN:
        return problem(503, f"expected at most {MOST_OPEN} open pages: close one", headers={"retry-after": "30"})
    return Events(_told(watch), headers={"x-accel-buffering": "no"})


async def _told(watch: Watch) -> AsyncIterator[bytes]:
    watch.pages += 1
    try:
        number, told = -1, anyio.current_time()
        while not watch.stopping:
            taken = await anyio.to_thread.run_sync(watch.latest)
            if taken.number != number:
                number, told = taken.number, anyio.current_time()
                yield b"event: status\nid: %d\ndata: %s\n\n" % (number, to_json(taken.pulse.figures()))
            elif anyio.current_time() > told + ALIVE_S:
                told = anyio.current_time()
                yield b": nothing new\n\n"
            await anyio.sleep(LOOK_S)
    finally:
        watch.pages -= 1


def _of_another_site(request: Request) -> bool:
    """Whether a browser says that a page of another site sends this form; older ones say only where it is from."""
    origin = request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == request.headers["host"]
    return request.headers.get("sec-fetch-site", "none" if ours else "cross-site") not in ("same-origin", "none")


def _page(name: str) -> Callable[[], Response]:
    """A page that may use its own style and script, and this server; nothing else."""
    text = (resources.files("crawl_pipeline.api") / name).read_text(encoding="utf-8")
    own = {tag: re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script")}
    allowed = "".join(f"{tag}-src {_digest(found[1])}; " for tag, found in own.items() if found)
    rule = (
        f"default-src 'none'; {allowed}connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    return lambda: HTMLResponse(text, headers={"content-security-policy": rule})


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
