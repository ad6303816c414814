"""What the HTTP API can be asked: each route calls the function of the command of the same name, and answers.

Orders are answered 202: they hold from the next round of their bucket on. Routes are plain functions and run in a few
threads. With an Idempotency-Key a request that was obeyed is answered again and not ordered again.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response as Answer

from crawl_pipeline import __version__, explaining, order_log, ordering
from crawl_pipeline.api import bodies, pages
from crawl_pipeline.api.problems import Problem, of_mistakes, problem, to_json
from crawl_pipeline.api.tokens import Sessions, Tokens
from crawl_pipeline.api.watching import Watch
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import urls
from crawl_pipeline.core.orders import KINDS, OrderError, Tag
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.lake import Lake, LakeBusy, LakeMismatch, LakeMissing, LakeUnwritable
from crawl_pipeline.ordering import Giver

THREADS = 8
"""Requests that read or write the lake at a time."""
RETRY_S = 5
PREFIX = "/api/v1"
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is no JSON."},
    401: {"model": Problem, "description": "No token of this server."},
    408: {"model": Problem, "description": "The body took too long."},
    413: {"model": Problem, "description": "The body is too large."},
    421: {"model": Problem, "description": "The Host header names another server."},
    422: {"model": Problem, "description": "What was expected, what was found; nothing was ordered."},
    503: {"model": Problem, "description": "The lake is busy or cannot be reached: try again."},
}


@dataclass(frozen=True, slots=True)
class Served:
    """What the routes are about."""

    lake: Callable[[], Lake]
    policy: Callable[[], Policy]
    """The policy file as it is now."""
    tokens: Tokens
    sessions: Sessions
    watch: Watch


def application(served: Served) -> FastAPI:
    """The routes as an ASGI application, to be put behind a Guard."""

    @asynccontextmanager
    async def few_threads(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield

    app = FastAPI(
        title="crawl", version=__version__, description=DESCRIPTION, openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=few_threads,
        separate_input_output_schemas=False,
    )  # fmt: skip
    app.include_router(_orders(served), responses=REFUSALS)
    app.include_router(_readings(served), responses={code: said for code, said in REFUSALS.items() if code != 400})
    app.include_router(pages.routes(served.tokens, served.sessions, served.watch))
    _refusals(app)
    _secured(app)
    return app


def document() -> dict[str, Any]:
    """The OpenAPI document, without a lake."""

    def absent() -> Any:
        raise LakeMissing("expected a lake, found none: this application only documents itself")

    nobody = Tokens({})
    return application(Served(absent, absent, nobody, Sessions(), Watch(absent))).openapi()


DESCRIPTION = (
    "Orders to a crawl, how it stands and why. Orders are rows of the lake's table `orders`; the worker that holds a "
    "bucket obeys in its next round."
)
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$",
        description="A request that is repeated with its key is answered again, and not ordered again.",
    ),
]  # fmt: skip
HostName = Annotated[str, Path(max_length=253, description="A host name, without scheme and port.")]


def _orders(served: Served) -> APIRouter:
    """The routes that order something."""
    router = APIRouter(prefix=PREFIX, tags=["orders"])

    def ordered(
        request: Request, answer: Response, key: str | None, asked: object, act: Callable[[Lake, Giver], object]
    ) -> bodies.Given:
        if request.state.name is None:  # the Guard lets nobody come here without one
            raise HTTPException(401, "expected a token")
        digest = urls.hash64(f"{request.method} {request.scope['path']} {to_json(asked).decode()}")
        giver = Giver(request.state.name, key or secrets.token_urlsafe(16), digest)
        lake = served.lake()
        entry = order_log.once(lake, giver, lambda: act(lake, giver))
        answer.headers["location"] = f"{PREFIX}/orders/{entry.order}"
        return bodies.given(entry)

    def now() -> datetime:
        return datetime.now(UTC)

    @router.post("/seeds", status_code=202, summary="Order URLs to be crawled")
    def seeds(body: bodies.Seeds, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        tag = body.tag or (f"priority-{body.priority}" if body.priority else None)
        facts = Tag(body.topic, body.region, bodies.BANDS[body.priority] if body.priority else body.band)
        return ordered(request, answer, key, body.model_dump(), lambda lake, giver:
                       ordering.seed(lake, body.urls, tag=tag, facts=facts, now=now(), by=giver))  # fmt: skip

    @router.post("/crawl/policy", status_code=202, summary="Order keys of the policy to be something else")
    def policy(body: bodies.Policy, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        values = {name: policies.as_toml(value) for name, value in body.keys.items()}
        return ordered(request, answer, key, body.model_dump(), lambda lake, giver: ordering.change_policy(
            lake, served.policy(), values, unset=body.unset, host=body.host, now=now(), by=giver))  # fmt: skip

    @router.post("/host/{host}/pause", status_code=202, summary="Order that a host is not asked until it is resumed")
    def pause(host: HostName, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        return ordered(request, answer, key, None, lambda lake, giver:
                       ordering.pause(lake, [host], paused=True, now=now(), by=giver))  # fmt: skip

    @router.post("/host/{host}/resume", status_code=202, summary="Order that a paused host may be asked again")
    def resume(host: HostName, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        return ordered(request, answer, key, None, lambda lake, giver:
                       ordering.pause(lake, [host], paused=False, now=now(), by=giver))  # fmt: skip

    @router.post("/recrawl", status_code=202, summary="Order that known URLs are visited again now")
    def recrawl(body: bodies.Scopes, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        return ordered(request, answer, key, body.model_dump(), lambda lake, giver: ordering.recrawl(
            lake, hrefs=body.urls, hosts=body.hosts, sites=body.sites, now=now(), by=giver))  # fmt: skip

    @router.post("/forget", status_code=202, summary="Order that URLs are neither asked for nor shown any more")
    def forget(body: bodies.Scopes, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        return ordered(request, answer, key, body.model_dump(), lambda lake, giver: ordering.forget(
            lake, hrefs=body.urls, hosts=body.hosts, sites=body.sites, now=now(), by=giver))  # fmt: skip

    @router.post("/release", status_code=202, summary="Order that URL patterns are not held for traps any more")
    def release(body: bodies.Patterns, request: Request, answer: Response, key: Key = None) -> bodies.Given:
        return ordered(request, answer, key, body.model_dump(), lambda lake, giver:
                       ordering.release(lake, body.patterns, now=now(), by=giver))  # fmt: skip

    return router


def _readings(served: Served) -> APIRouter:
    """The routes that tell something."""
    router = APIRouter(prefix=PREFIX, tags=["readings"])

    @router.get("/status", summary="How the crawl does right now")
    def status() -> bodies.Status:
        return bodies.Status.model_validate(served.watch.latest().pulse.figures())

    @router.get("/crawl/policy", summary="The policy in force, and what was set by whom")
    def policy() -> bodies.InForce:
        return bodies.InForce.model_validate(ordering.policy_told(served.lake(), served.policy()))

    @router.get("/explain", summary="What is known of a URL, and why it was or was not fetched")
    def explain(url: Annotated[str, Query(min_length=1, max_length=bodies.LONGEST_URL)]) -> bodies.Explanation:
        found = explaining.explain(served.lake(), served.policy(), url, datetime.now(UTC))
        return Answer(to_json({"url": found.url, "because": found.because, "facts": found.facts}),  # type: ignore[return-value]
                      media_type="application/json")  # fmt: skip

    @router.get("/orders", summary="What was ordered, by whom, and whether it is obeyed")
    def orders(
        most: Annotated[int, Query(ge=1, le=1_000)] = 50,
        before: Annotated[int | None, Query(ge=0, le=2**62, description="only orders with a smaller number")] = None,
        kind: Annotated[str | None, Query(pattern=f"^({'|'.join(KINDS)})$")] = None,
        by: Annotated[str | None, Query(max_length=200, description="only orders of this giver")] = None,
        host: Annotated[
            str | None, Query(max_length=253, description="only orders about this host or its site")
        ] = None,
    ) -> bodies.Orders:
        found = order_log.listed(served.lake(), order_log.Wanted(most, before, kind, by, host))
        return bodies.Orders(orders=[bodies.order(entry) for entry in found])

    @router.get("/orders/{order}", summary="One order", responses={404: {"model": Problem, "description": "None."}})
    def one_order(order: Annotated[int, Path(ge=0, le=2**62)]) -> bodies.Order:
        entry = order_log.one(served.lake(), order)
        if entry is None:
            raise HTTPException(404, f"expected the number of an order, found {order}: GET {PREFIX}/orders lists them")
        return bodies.order(entry)

    @router.get("/events", summary="The status again and again, as rounds are committed (server-sent events)",
                response_class=pages.Events)  # fmt: skip
    async def events() -> Answer:
        return pages.events(served.watch)

    return router


def _refusals(app: FastAPI) -> None:
    """Say every error in one form."""

    @app.exception_handler(RequestValidationError)
    async def mistaken(request: Request, error: RequestValidationError) -> Answer:
        return of_mistakes(error)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Answer:
        return problem(error.status_code, str(error.detail), headers=error.headers)

    async def misfit(request: Request, error: Exception) -> Answer:
        return problem(422, str(error))

    async def busy(request: Request, error: Exception) -> Answer:
        return problem(503, str(error), headers={"retry-after": str(RETRY_S)})

    async def broken(request: Request, error: Exception) -> Answer:
        return problem(
            500, "a fault of ours, nothing was ordered by this request as far as is known: see the server's log"
        )

    for ours in (OrderError, PolicyError):
        app.add_exception_handler(ours, misfit)
    for lakes in (LakeBusy, LakeMismatch, LakeMissing, LakeUnwritable):
        app.add_exception_handler(lakes, busy)
    app.add_exception_handler(Exception, broken)


def _secured(app: FastAPI) -> None:
    """Say in the document that every route wants a token, which the Guard asks for, and what refusals look like."""
    made = app.openapi()
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    for path in made["paths"].values():
        for operation in path.values():
            for code, answer in operation["responses"].items():
                if int(code) >= 400 and "application/json" in answer.get("content", {}):
                    answer["content"] = {"application/problem+json": answer["content"]["application/json"]}
