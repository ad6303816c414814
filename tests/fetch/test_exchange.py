"""One request gives one value and one row, whatever happens to it."""

import gzip
import ssl
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import trio
import trio.testing

from crawl_pipeline.fetch.exchange import CANCELLED, Clock, Limits, ListLog, exchange

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
URL = "http://h.example/a"
LIMITS = Limits(total_s=30, connect_s=5, read_s=10, wire_bytes=10_000, body_bytes=20_000)


class Pieces(httpx.AsyncByteStream):
    """A body that comes in pieces: bytes, pauses in seconds, or trouble."""

    def __init__(self, *pieces):
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self):
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, bytes):
                yield piece
            else:
                await trio.sleep(piece)

    async def aclose(self):
        self.closed = True


def ask(answer, *, url=URL, seconds=float("inf"), **options):
    """Ask once through a transport that gives `answer`, inside `seconds`; give (exchange or None, rows)."""
    log, got = ListLog(), []

    async def handle(request):
        outcome = answer(request) if callable(answer) else answer
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, float):
            await trio.sleep(outcome)
        return outcome

    async def main():
        options.setdefault("headers", {"User-Agent": "ExampleBot/1.0"})
        options.setdefault("limits", LIMITS)
        clock = Clock.start(NOON)
        with trio.move_on_after(seconds):
            got.append(await exchange(httpx.MockTransport(handle), url, cause="page", clock=clock, log=log, **options))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return (got[0] if got else None), log.rows


def respond(status=200, *pieces, **fields):
    headers = [(name.replace("_", "-"), value) for name, value in fields.items()]
    return httpx.Response(status, headers=headers, stream=Pieces(*pieces))


def test_an_answer_becomes_a_value_and_the_same_value_becomes_a_row():
    got, rows = ask(respond(200, b"he", 2.0, b"llo", content_type="text/html"))

    assert rows == [got]
    assert (got.status, got.failure, got.body, got.wire_bytes) == (200, None, b"hello", 5)
    assert (got.url, got.cause, got.headers) == (URL, "page", (("content-type", "text/html"),))
    assert (got.started_at, got.ended_at, got.first_byte_s) == (NOON, NOON + timedelta(seconds=2), 0)


def test_the_content_is_decoded_and_the_wire_is_counted():
    sent = gzip.compress(b"hello" * 100)
    got, _ = ask(respond(200, sent[:7], sent[7:], content_encoding="GZIP"))

    assert (got.body, got.wire_bytes) == (b"hello" * 100, len(sent))


def test_what_can_be_decoded_is_what_is_accepted():
    seen = []
    ask(lambda request: seen.append(request.headers) or respond())

    assert seen[0]["accept-encoding"] == "gzip, deflate, br, zstd"
    assert seen[0]["user-agent"] == "ExampleBot/1.0"


def test_the_target_reaches_other_transports_byte_for_byte():
    seen = []
    ask(lambda request: seen.append(request.extensions) or respond(), url="http://h.example/a?b=[c]|'&%7e")

    assert seen[0]["target"] == b"/a?b=[c]|'&%7e"


@pytest.mark.parametrize("url", ["http://xn--n3h.example/", "http://h.example/" + "a" * 70_000])
def test_a_url_that_httpx_refuses_is_asked_all_the_same(url):
    seen = []
    got, _ = ask(lambda request: seen.append(request) or respond(200, b"ok"), url=url)

    assert (got.body, seen[0].extensions["url"]) == (b"ok", url)
    assert seen[0].headers["host"] == url.split("/")[2]


@pytest.mark.parametrize(
    ("trouble", "failure"),
    [
        (httpx.ConnectTimeout("x"), "timeout"),
        (httpx.ReadTimeout("x"), "timeout"),
        (httpx.PoolTimeout("x"), "timeout"),
        (httpx.ConnectError("x"), "connect_error"),
        (httpx.ReadError("x"), "truncated"),
        (httpx.RemoteProtocolError("peer closed connection without sending complete message body"), "truncated"),
        (httpx.RemoteProtocolError("x"), "protocol_error"),
        (httpx.UnsupportedProtocol("x"), "protocol_error"),
        (httpx.DecodingError("x"), "decode_error"),
        (httpx.InvalidURL("x"), "protocol_error"),
        (ssl.SSLCertVerificationError("x"), "tls_error"),
        (ConnectionResetError("x"), "connect_error"),
        (UnicodeError("x"), "protocol_error"),
        (ExceptionGroup("x", [KeyError("y")]), "protocol_error"),
    ],
)
def test_whatever_a_transport_raises_is_a_failure_in_the_row(trouble, failure):
    got, rows = ask(trouble)

    assert (got.failure, got.status, rows) == (failure, None, [got])
    assert type(trouble).__name__ in got.reason


def test_the_cause_of_an_exception_is_what_counts():
    trouble = httpx.ConnectError("x")
    trouble.__cause__ = ssl.SSLError("certificate has expired")

    assert ask(trouble)[0].failure == "tls_error"


def test_trouble_inside_the_body_keeps_the_status_and_drops_the_body():
    got, _ = ask(respond(200, b"he", httpx.ReadError("x")))

    assert (got.status, got.failure, got.body, got.wire_bytes) == (200, "truncated", b"", 2)


def test_the_deadline_covers_the_body():
    got, rows = ask(respond(200, *[b"x", 5.0] * 20))

    assert (got.failure, got.reason, got.status) == ("timeout", "over 30 s in all", 200)
    assert got.ended_at == NOON + timedelta(seconds=30)
    assert rows == [got]


def test_the_end_of_the_round_leaves_a_row_and_goes_on():
    got, rows = ask(respond(200, b"x", 20.0), seconds=3)

    assert got is None
    assert [(row.failure, row.reason, row.status) for row in rows] == [("timeout", CANCELLED, 200)]
    assert rows[0].ended_at == NOON + timedelta(seconds=3)


def test_the_end_of_the_round_before_any_answer_leaves_a_row_too():
    _, rows = ask(1_000.0, seconds=3)

    assert [(row.failure, row.reason, row.status) for row in rows] == [("timeout", CANCELLED, None)]


def test_a_stop_that_is_no_cancellation_leaves_a_row_too():
    log = ListLog()

    async def stop(request):
        raise KeyboardInterrupt

    async def main():
        with pytest.raises(KeyboardInterrupt):
            await exchange(
                httpx.MockTransport(stop),
                URL,
                cause="page",
                headers={},
                limits=LIMITS,
                clock=Clock.start(NOON),
                log=log,
            )

    trio.run(main)
    assert log.rows[0].reason == "stopped by KeyboardInterrupt"


@pytest.mark.parametrize(("size", "failure"), [(10_000, None), (10_001, "too_large")])
def test_the_limit_on_the_wire_is_exact(size, failure):
    assert ask(respond(200, b"x" * size))[0].failure == failure


@pytest.mark.parametrize(("size", "failure"), [(20_000, None), (20_001, "too_large")])
def test_the_limit_on_the_content_is_exact(size, failure):
    got, _ = ask(respond(200, gzip.compress(b"x" * size), content_encoding="gzip"))

    assert got.failure == failure


def test_a_length_over_the_limit_is_believed_at_once():
    body = Pieces(AssertionError("was read"))
    got, _ = ask(httpx.Response(200, headers={"content-length": "10001"}, stream=body))

    assert (got.failure, body.closed) == ("too_large", True)


def test_a_304_may_tell_the_length_of_what_it_does_not_send():
    assert ask(respond(304, content_length="10001"))[0].failure is None


def test_an_answer_to_head_may_tell_the_length_of_what_it_does_not_send():
    assert ask(respond(200, content_length="10001"), method="HEAD")[0].failure is None


def test_a_body_that_is_not_wanted_is_not_read():
    body = Pieces(AssertionError("was read"))
    got, _ = ask(
        httpx.Response(200, headers={"content-type": "image/png"}, stream=body),
        wanted=lambda status, headers: ("content-type", "text/html") in headers,
    )

    assert (got.failure, got.reason, got.body, body.closed) == (None, "the body is not wanted", b"", True)


def test_a_cut_gzip_is_truncated_though_the_message_is_whole():
    assert ask(respond(200, gzip.compress(b"hello")[:-9], content_encoding="gzip"))[0].failure == "truncated"


def test_repeated_fields_stay_apart():
    got, _ = ask(httpx.Response(302, headers=[("Location", "/a"), ("Location", "/b")], stream=Pieces()))

    assert (got.location, got.values("location")) == ("/a", ("/a", "/b"))


def test_retry_after_is_told_in_seconds_from_the_answer():
    date = "Wed, 01 Jul 2026 12:10:00 GMT"

    assert ask(respond(503, retry_after=date))[0].retry_after_s == 600
    assert ask(respond(429, retry_after="120"))[0].retry_after_s == 120
    assert ask(respond(429, retry_after="soon"))[0].retry_after_s is None


def test_of_several_retry_after_fields_the_longest_counts():
    fields = [("Retry-After", value) for value in ("1", "soon", "Wed, 01 Jul 2026 12:10:00 GMT", "30")]

    assert ask(httpx.Response(503, headers=fields, stream=Pieces()))[0].retry_after_s == 600
