"""The audit's reader of robots.txt, which shares no code with the crawl's, comes to the same verdicts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import robots
from crawl_pipeline.core.second_reading import MOST_BYTES, reading
from crawl_pipeline.core.urls import canonical
from tests.conformance.cases import load
from tests.conformance.kinds.adapter import octets
from tests.conformance.kinds.robots import _made

OWN = Path(__file__).parent.parent / "conformance" / "cases"

# A stray % ends no escape; the two readers differ about a rule that ends in one (docs/decisions.md).
PIECES = ["/", "a", "b", "*", "$", "%41", "%2F", "?", "%3F", "=", "&", ":", "%3A", "ä", "é", " ", "%E9", "%2a", "%24",
          "'", "%27", "<", "~", ";", "%25", "(", "%28"]  # fmt: skip
AGENTS = ["User-agent: ExampleBot", "User-agent: *", "useragent: Other", "user-agent: examplebot/1.0"]
OTHERS = ["Crawl-delay: 3", "Crawl-delay: 1.5", "Sitemap: /x", "Content-Usage: /a train-ai=n", "Foo: bar", "",
          "# Disallow: /"]  # fmt: skip
rules = st.tuples(st.sampled_from(["Disallow: ", "Allow: ", "Disallow ", "dissalow:"]), st.sampled_from(["/", "*", ""]),
                  st.lists(st.sampled_from(PIECES), max_size=5)).map(lambda p: p[0] + p[1] + "".join(p[2]))  # fmt: skip
lines = st.lists(st.one_of(st.sampled_from(AGENTS), st.sampled_from(OTHERS), rules, rules), max_size=9)
files = st.tuples(lines, st.sampled_from(["\n", "\r\n", "\r"])).map(lambda p: p[1].join(p[0]).encode())
urls = st.lists(st.sampled_from(PIECES), max_size=6).map(lambda p: canonical("http://h.test/" + "".join(p)))


@given(files, urls)
def test_two_readers_that_share_nothing_come_to_one_verdict(body: bytes, url: str) -> None:
    ours, second = robots.read(body, "ExampleBot"), reading(body, "ExampleBot")
    assert ours.allowed(url) == (second.forbids(url) is None)
    assert (ours.crawl_delay_s or 0) >= (second.delay_s or 0)


@given(st.binary(max_size=200), st.text(max_size=20))
def test_no_file_and_no_url_is_too_strange_to_judge(body: bytes, path: str) -> None:
    reading(b"User-agent: *\nDisallow: /x" + body, "ExampleBot").forbids(f"http://h.test/{path}")


@pytest.mark.parametrize("case", [case for case in load(OWN, "robots") if case.op == "match"], ids=lambda case: case.id)
def test_the_second_reader_answers_the_conformance_cases(case) -> None:
    given = case.input
    body = _made(given["robots_gen"]) if "robots_gen" in given else octets(given, "robots")
    assert (reading(body, given["agent"]).forbids(canonical(given["url"])) is None) == case.expect["allowed"]


def test_it_names_the_line_that_forbids() -> None:
    body = "User-agent: *\nDisallow: /ä  # no\nAllow: /ä/b\nDisallow: /%C3%A4/b/c\n".encode()
    forbids = reading(body, "ExampleBot").forbids
    assert forbids("http://h.test/%C3%A4/x") == "Disallow: /ä  # no"
    assert forbids("http://h.test/%C3%A4/b") is None
    assert forbids("http://h.test/%C3%A4/b/c") == "Disallow: /%C3%A4/b/c"


def test_a_line_that_the_size_limit_cuts_is_half_a_rule() -> None:
    body = b"#" * (MOST_BYTES - 40) + b"\nUser-agent: *\nDisallow: /private\nDisallow: /later\n"
    assert reading(body[:MOST_BYTES], "ExampleBot").lines == reading(body, "ExampleBot").lines
    assert len(reading(body, "ExampleBot").lines) < 2


def test_wildcards_without_end_cost_no_more_than_their_length() -> None:
    body = b"User-agent: *\n" + b"Disallow: /" + b"*a" * 500 + b"b$\n"
    assert reading(body, "ExampleBot").forbids("http://h.test/" + "a" * 2_000) is None
