"""Redirects that are followed on the spot."""

import itertools
from datetime import UTC, datetime

import httpx
import pytest
import trio

from crawl_pipeline.fetch.exchange import Clock, Limits, ListLog, exchange
from crawl_pipeline.fetch.follow import follow

HOME = "http://h.example/robots.txt"


def run(answers, limit=5):
    """Follow from /robots.txt; `answers` maps a URL to a Location, to an exception or to a response."""
    log = ListLog()

    def handle(request):
        answer = answers[request.extensions["url"]]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(302, headers={"Location": answer})

    async def main():
        transport, clock = httpx.MockTransport(handle), Clock.start(datetime(2026, 7, 1, tzinfo=UTC))

        async def ask(url):
            return await exchange(transport, url, cause="robots", headers={}, limits=Limits(), clock=clock, log=log)

        return await follow(ask, HOME, limit)

    return trio.run(main), log.rows


def test_a_chain_ends_at_its_target_across_hosts():
    got, rows = run({HOME: "https://www.h.example/r", "https://www.h.example/r": httpx.Response(200, text="hello")})

    assert (got.last.body, got.failure, got.chain) == (b"hello", None, (HOME, "https://www.h.example/r"))
    assert [row.url for row in rows] == list(got.chain)


@pytest.mark.parametrize(("hops", "failure"), [(5, None), (6, "redirect_error")])
def test_five_hops_are_followed_and_six_are_not(hops, failure):
    names = [HOME, *(f"http://h.example/{n}" for n in range(hops))]
    answers = dict(itertools.pairwise(names)) | {names[-1]: httpx.Response(200)}
    got, rows = run(answers)

    assert (got.failure, len(rows)) == (failure, 6)


def test_a_loop_ends_before_it_is_walked_twice():
    got, rows = run({HOME: "/b", "http://h.example/b": HOME})

    assert (got.failure, got.reason, len(rows)) == ("redirect_error", "redirects in a loop", 2)


def test_a_failure_of_a_hop_is_the_failure_of_the_chain():
    got, _ = run({HOME: "/b", "http://h.example/b": httpx.ConnectError("x")})

    assert (got.failure, got.last.url) == ("connect_error", "http://h.example/b")


def test_trouble_in_the_body_of_a_redirect_does_not_matter():
    broken = httpx.Response(302, headers={"Location": "/b", "Content-Encoding": "gzip"}, content=b"\x1f\x8bx")
    got, _ = run({HOME: broken, "http://h.example/b": httpx.Response(200, text="ok")})

    assert (got.failure, got.last.body) == (None, b"ok")


def test_a_hop_that_never_answers_is_a_timeout():
    got, _ = run({HOME: "/b", "http://h.example/b": httpx.ReadTimeout("x")})

    assert (got.failure, got.chain[-1]) == ("timeout", "http://h.example/b")


def test_trouble_in_the_body_of_the_target_does_matter():
    got, _ = run({HOME: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=b"\x1f\x8bx")})

    assert got.failure in ("truncated", "decode_error")
