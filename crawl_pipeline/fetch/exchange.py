"""One request, one answer, one row: the only function that may open a request.

`exchange` asks for one URL within a deadline and within limits, and gives what came of it as a value. Remote
trouble of any kind is a failure code in that value, never an exception. Whatever happens, the round's end in
the middle included, exactly one row goes to the request log before control goes back; so retries, redirects,
robots.txt and probes cannot be forgotten by whoever audits politeness.

It never decides what an outcome means, waits for a host's turn, follows a redirect, or tries again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import httpx
import trio

from crawl_pipeline.core.retry_after import retry_after_s
from crawl_pipeline.fetch import through_httpx
from crawl_pipeline.fetch.decoding import ACCEPTED, CodingError, decode
from crawl_pipeline.fetch.transport import Pulse, WireTransport
from crawl_pipeline.fetch.turns import NoTurn, Turn, at_once
from crawl_pipeline.fetch.wire import Headers, WireError

Wanted = Callable[[int, Headers], bool]

CANCELLED = "cancelled by the round's end"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take: time in all, to connect, of silence; bytes of head, wire and content."""

    total_s: float = 30.0
    connect_s: float = 10.0
    read_s: float = 20.0
    header_bytes: int = 64_000
    wire_bytes: int = 5_000_000
    body_bytes: int = 10_000_000
    cut: bool = False
    """Take the first `wire_bytes` of a longer body instead of refusing it: a long robots.txt still counts."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall-clock time that moves with Trio's clock: an anchor read once, and what Trio has counted since."""

    wall: datetime
    anchor: float

    @classmethod
    def start(cls, now: datetime) -> "Clock":
        """Tie this wall-clock time (UTC) to Trio's present."""
        return cls(now, trio.current_time())

    def now(self) -> datetime:
        """Tell the wall-clock time."""
        return self.at(trio.current_time())

    def at(self, trio_time: float) -> datetime:
        """Tell the wall-clock time of a Trio time."""
        return self.wall + timedelta(seconds=trio_time - self.anchor)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was asked, when, of which address, and what came of it; `body` is the content, or b""."""

    url: str
    cause: str
    method: str
    started_at: datetime
    ended_at: datetime
    first_byte_s: float | None
    address: str | None
    status: int | None
    failure: str | None
    reason: str | None
    headers: Headers
    body: bytes
    wire_bytes: int
    retry_after_s: float | None
    location: str | None
    user_agent: str | None = None

    def values(self, name: str) -> tuple[str, ...]:
        """Give all fields of this lower-case name, raw, in order."""
        return tuple(value for own, value in self.headers if own == name)


class RequestLog(Protocol):
    """Where every request leaves its row."""

    def add(self, row: Exchange, /) -> None: ...


@dataclass(slots=True)
class ListLog:
    """A request log in memory."""

    rows: list[Exchange] = field(default_factory=list)

    def add(self, row: Exchange, /) -> None:
        """Keep the row."""
        self.rows.append(row)


class Answers(Protocol):
    """An answer whose head is there and whose body is still to be read, from whatever transport."""

    status: int
    headers: Headers
    address: str | None

    @property
    def wire_bytes(self) -> int: ...
    async def piece(self) -> bytes | None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the caller asks for beside the URL."""

    headers: Mapping[str, str]
    limits: Limits
    wanted: Wanted | None
    turn: Turn


@dataclass(slots=True)
class _Draft:
    """A row in the making: true at any moment, so that it can be cut off at any moment."""

    url: str
    cause: str
    method: str
    began: float
    user_agent: str | None = None
    answer: Answers | None = None
    address: str | None = None
    waits: bool = False  # for its turn
    first_byte: float | None = None
    body: bytes = b""
    failure: str | None = None
    reason: str | None = None

    def fail(self, failure: str, reason: str) -> None:
        self.failure, self.reason, self.body = failure, reason, b""


async def exchange(
    transport: httpx.AsyncBaseTransport,
    url: str,
    *,
    cause: str,
    headers: Mapping[str, str],
    limits: Limits,
    clock: Clock,
    log: RequestLog,
    wanted: Wanted | None = None,
    method: str = "GET",
    turn: Turn = at_once,
) -> Exchange:
    """Ask for a canonical URL once and log what came of it.

    `wanted` sees status and headers and says whether the body is to be read; if not, the connection is
    closed. `turn` is waited for before each address is asked; a request starts with the turn of the address that it
    reaches, or tries last. Raises NoTurn, and leaves no row, if it does not come for the first.
    """
    draft = _Draft(url, cause, method, trio.current_time(), headers.get("User-Agent"))
    try:
        await _within_deadline(draft, transport, _Terms(headers, limits, wanted, turn))
    except BaseException as stop:
        if draft.address is None and (isinstance(stop, NoTurn) or draft.waits):
            raise
        reason = CANCELLED if isinstance(stop, trio.Cancelled) else f"stopped by {type(stop).__name__}"
        draft.fail("timeout", reason)
        log.add(_row(draft, clock))
        raise
    row = _row(draft, clock)
    log.add(row)
    return row


async def _within_deadline(
    draft: _Draft,
    transport: httpx.AsyncBaseTransport,
    terms: _Terms,
) -> None:
    """Bound the whole by `total_s` and each wait for the peer by `read_s`: one scope, its deadline moves."""
    limits = terms.limits
    end = draft.began + limits.total_s
    with trio.CancelScope(deadline=end) as scope:

        def pulse(address: str) -> None:
            draft.address = address
            scope.deadline = min(end, trio.current_time() + limits.read_s)

        async def turn(address: str) -> float:
            nonlocal end
            since, scope.deadline, draft.waits = trio.current_time(), float("inf"), True
            now = await terms.turn(address)
            draft.waits = False
            end = now + limits.total_s if draft.address is None else end + now - since
            # What was done before, looking the name up or trying another address, was no request at this one.
            draft.began, draft.address, scope.deadline = now, address, end
            return now

        try:
            await _ask_and_read(draft, transport, terms, pulse, turn)
        except NoTurn:
            if draft.address is None:
                raise
            draft.fail("connect_error", "the connection broke, and the work ended before there could be another")
        except (WireError, CodingError) as trouble:
            draft.fail(trouble.failure, trouble.reason)
        except Exception as trouble:
            draft.fail(*through_httpx.failure_of(trouble))
        finally:
            if draft.answer is not None:
                await draft.answer.close()
    if scope.cancelled_caught:
        late = scope.deadline >= end
        draft.fail("timeout", f"over {limits.total_s:g} s in all" if late else f"silent for {limits.read_s:g} s")


async def _ask_and_read(
    draft: _Draft,
    transport: httpx.AsyncBaseTransport,
    terms: _Terms,
    pulse: Pulse,
    turn: Turn,
) -> None:
    limits, wanted = terms.limits, terms.wanted
    names = list(terms.headers.items())
    if "accept-encoding" not in {name.lower() for name in terms.headers}:
        names.append(("Accept-Encoding", ACCEPTED))
    answer: Answers
    if isinstance(transport, WireTransport):
        answer = await transport.ask(
            draft.url,
            names,
            method=draft.method,
            connect_s=limits.connect_s,
            head_bytes=limits.header_bytes,
            pulse=pulse,
            turn=turn,
        )
    else:
        answer = await through_httpx.ask(
            transport,
            draft.url,
            turn,
            names,
            method=draft.method,
            waits={"connect": limits.connect_s, "read": limits.read_s, "write": limits.read_s, "pool": limits.total_s},
        )
    draft.answer, draft.address, draft.first_byte = answer, answer.address, trio.current_time()
    if wanted is not None and not wanted(answer.status, answer.headers):
        draft.reason = "the body is not wanted"
        return
    coded = await _read_body(answer, draft.method, limits)
    encodings = [value for name, value in answer.headers if name == "content-encoding"]
    draft.body = decode(coded, encodings, limits.body_bytes)


async def _read_body(answer: Answers, method: str, limits: Limits) -> bytes:
    """Collect the body as sent; a length over the limit is believed before the first byte of it."""
    bodiless = method == "HEAD" or answer.status in (204, 304)
    if not bodiless and not limits.cut and _declared_bytes(answer.headers) > limits.wire_bytes:
        raise WireError("too_large", f"says it has over {limits.wire_bytes} bytes")
    pieces: list[bytes] = []
    size = 0
    while (piece := await answer.piece()) is not None:
        pieces.append(piece)
        size += len(piece)
        # Framing counts too: chunks may have extensions longer than what they hold.
        if size > limits.wire_bytes or answer.wire_bytes > limits.wire_bytes + limits.header_bytes:
            if limits.cut:
                break
            raise WireError("too_large", f"over {limits.wire_bytes} bytes on the wire")
    return b"".join(pieces)


def _declared_bytes(headers: Headers) -> int:
    for name, value in headers:
        if name == "content-length":
            return int(value) if value.isdecimal() and len(value) < 20 else 0
    return 0


def _row(draft: _Draft, clock: Clock) -> Exchange:
    answer = draft.answer
    started_at, ended_at = clock.at(draft.began), clock.now()
    headers = answer.headers if answer else ()
    return Exchange(
        url=draft.url,
        cause=draft.cause,
        method=draft.method,
        started_at=started_at,
        ended_at=ended_at,
        first_byte_s=None if draft.first_byte is None else draft.first_byte - draft.began,
        address=draft.address,
        status=answer.status if answer else None,
        failure=draft.failure,
        reason=draft.reason,
        headers=headers,
        body=draft.body,
        wire_bytes=answer.wire_bytes if answer else 0,
        retry_after_s=_retry_after(headers, ended_at),
        location=_first(headers, "location"),
        user_agent=draft.user_agent,
    )


def _retry_after(headers: Headers, now: datetime) -> float | None:
    """The longest wish, if there are several: a proxy may have added its own."""
    wishes = [retry_after_s(value, now) for name, value in headers if name == "retry-after"]
    return max((wish for wish in wishes if wish is not None), default=None)


def _first(headers: Headers, name: str) -> str | None:
    for own, value in headers:
        if own == name:
            return value
    return None
