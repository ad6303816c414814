"""Pages made to hurt whoever reads them take little time, or are refused, and cost their neighbours nothing."""

import random
import time

import pytest
from test_reading import RULES, page, policy, read_apart

from crawl_pipeline.fetch.bodies import Body, ReadPage
from crawl_pipeline.fetch.reading import read

CPU_S = 4.0
"""No page may take longer; the limit of the policy is 10 s. On a quiet machine each takes less than one."""
_RANDOM = random.Random(7).randbytes(2_900_000)

HOSTILE = {
    "elements in elements": b"<div>" * 500_000,
    "elements in elements, no deeper than browsers go": (b"<div>" * 500 + b"</div>" * 500) * 500,
    "formatting without end": b"<p><b><i><u>" * 120 + b"<p>x" * 20_000,
    "20,000 attributes": b"<a " + b" ".join(b"a%d=1" % n for n in range(20_000)) + b">",
    "20,000 attributes without white space": b"<a " + b"".join(b'a%d="1"' % n for n in range(20_000)) + b">",
    "a row of 290,000 cells": b"<table><tr>" + b"<td>x</td>" * 290_000,
    "150,000 rows": b"<table>" + b"<tr><td>x</td></tr>" * 150_000,
    "a table with text where none belongs": b"<table>" + b"x<tr>" * 200_000,
    "bytes of no page": _RANDOM,
    "an image that calls itself a page": b"\x89PNG\r\n\x1a\n" + _RANDOM[:500_000].replace(b"<", b" "),
    "nothing but noughts": bytes(2_900_000),
    "nothing but openings": b"<" * 2_900_000,
    "100,000 links": b"".join(b"<a href=/%d>x</a>" % n for n in range(100_000)),
    "200,000 menus": b"<nav>x</nav>" * 200_000,
    "headers deep in articles": b"<article>" + b"<div>" * 400 + b"<header>x</header>" * 130_000,
    "advertising all over": b"<p class=advert>x" * 150_000,
    "blocks without text": b"<p>" * 900_000,
    "form feeds and marks": b"\f\x010\f" * 700_000,
    "a text of dates": b"1-1 " * 700_000,
    "comments without end": b"<!--" * 700_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_takes_little_time_or_is_refused(name):
    body = Body("http://a.test/", "page", HOSTILE[name], "text/html")
    began = time.process_time()

    result = read(body, RULES)

    assert time.process_time() - began < CPU_S
    assert isinstance(result, ReadPage) or result.startswith("expected nesting") or "attributes" in result


def test_neighbours_of_hostile_pages_are_read_as_ever():
    hostile = [Body("http://a.test/", "page", body, "text/html") for body in list(HOSTILE.values())[::3]]
    bodies = [one for number, body in enumerate(hostile) for one in (page(number), body)]

    results = read_apart(bodies, policy(batch_pages=4))

    assert results[::2] == [read(page(number), RULES) for number in range(len(hostile))]
    assert not any("not read within" in result for result in results if isinstance(result, str))


def test_what_is_kept_of_a_hostile_page_is_bounded():
    found = read(Body("http://a.test/", "page", HOSTILE["100,000 links"], "text/html"), RULES)

    assert len(found.links.urls) == RULES.limits.links
    assert len(found.blocks) == 4 * len(found.regions) == 4 * len(found.text.split("\n"))


def test_a_long_script_is_no_tag_with_many_attributes():
    script = b"<p>before</p><script>" + b"if (a <b) c = d; " * 3_000 + b"</script><p>after"

    found = read(Body("http://a.test/", "page", script, "text/html"), RULES)

    assert isinstance(found, ReadPage)
    assert found.text == "before\nafter"
