"""robots.txt is read as RFC 9309 says, and every verdict names its line."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from crawl_pipeline.core import robots
from crawl_pipeline.core.urls import canonical

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def _allowed(text: str, path: str) -> bool:
    return robots.read(text.encode(), "ExampleBot").allowed(canonical(f"https://h.example{path}"))


def test_the_verdict_names_the_longest_line() -> None:
    rules = robots.read(b"User-agent: *\nDisallow: /a  # no\nAllow: /a/b\n", "ExampleBot")
    assert rules.verdict("https://h.example/a/b") == robots.Verdict(True, "Allow: /a/b")
    assert rules.verdict("https://h.example/a/c") == robots.Verdict(False, "Disallow: /a  # no")
    assert rules.verdict("https://h.example/") == robots.Verdict(True, None)


# Without a question mark, which protego counts as three octets when it looks for the longest rule.
PATTERNS = st.lists(st.sampled_from(["/", "a", "b", "*", "ab", "%41"]), max_size=6).map(lambda p: "/" + "".join(p))
PATHS = st.lists(st.sampled_from(["/", "a", "b", "ab", "?", "=", "%41"]), max_size=8).map(lambda p: "/" + "".join(p))


@given(
    st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), PATTERNS, st.sampled_from(["", "$"])), max_size=5), PATHS
)
def test_matching_agrees_with_protego_where_protego_follows_the_rfc(
    rules: list[tuple[str, str, str]], path: str
) -> None:
    text = "User-agent: *\n" + "".join(f"{name}: {pattern}{end}\n" for name, pattern, end in rules)
    url = canonical(f"https://h.example{path}")
    assert robots.read(text.encode(), "ExampleBot").allowed(url) == Protego.parse(text).can_fetch(url, "ExampleBot")


@given(st.binary(max_size=300))
def test_no_file_is_too_strange_to_read(body: bytes) -> None:
    rules = robots.read(b"User-agent: *\nDisallow: /" + body, "ExampleBot", "https://h.example/robots.txt")
    assert rules.allowed("https://h.example/robots.txt")
    assert rules.verdict("https://h.example/x").allowed == rules.allowed("https://h.example/x")


def test_unknown_records_do_not_end_a_group() -> None:
    assert not _allowed("User-agent: ExampleBot\nNoindex: /x\nUser-agent: B\nDisallow: /p\n", "/p")


def test_each_agent_has_the_delay_that_follows_it() -> None:
    agents = (("A", 5), ("ExampleBot", 10), ("C", 15))
    text = "".join(f"User-agent: {agent}\nCrawl-delay: {delay}\n" for agent, delay in agents).encode()
    assert robots.read(text, "ExampleBot").crawl_delay_s == 10.0
    assert robots.read(text, "A").crawl_delay_s == 5.0


@pytest.mark.parametrize("value", ["-1", "1e9", "inf", "nan", "ten", "5s", ""])
def test_a_delay_that_is_no_decimal_number_is_none(value: str) -> None:
    assert robots.read(f"User-agent: *\nCrawl-delay: {value}\n".encode(), "ExampleBot").crawl_delay_s is None


def test_of_several_delays_the_longest_counts() -> None:
    text = b"User-agent: *\nCrawl-delay: 2\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 7.5\n"
    assert robots.read(text, "ExampleBot").crawl_delay_s == 7.5


def test_a_line_that_the_size_limit_cuts_is_no_rule() -> None:
    filler = b"#" * (robots.READ_BYTES - 30) + b"\nUser-agent: *\n"
    body = filler + b"Disallow: /private\nDisallow: /later\n"
    assert len(filler) < robots.READ_BYTES < len(body)
    assert robots.read(body, "ExampleBot").rules == ()


def test_misspelled_records_and_missing_colons_are_forgiven() -> None:
    assert not _allowed("Useragent: *\nDissallow /x\n", "/x")
    assert _allowed("User-agent: *\nDisallow all robots here\n", "/x")


def test_the_robots_file_itself_is_always_allowed() -> None:
    assert _allowed("User-agent: *\nDisallow: /\n", "/robots.txt")


def test_sitemaps_are_resolved_and_stand_once() -> None:
    text = b"Sitemap: /a.xml\nSitemap https://h.example/a.xml\nSitemap: javascript:x\nSitemap:\n"
    assert robots.read(text, "ExampleBot", "https://h.example/robots.txt").sitemaps == ("https://h.example/a.xml",)


@pytest.mark.parametrize(
    ("status", "failure", "expected"),
    [
        (200, None, "rules"),
        (304, None, "disallow_all"),
        (200, "too_large", "disallow_all"),
        (404, None, "allow_all"),
        (403, None, "allow_all"),
        (302, None, "allow_all"),
        (None, "redirect_error", "allow_all"),
        (429, None, "disallow_all"),
        (503, None, "disallow_all"),
        (None, "dns_error", "disallow_all"),
        (200, "truncated", "disallow_all"),
        (None, None, "disallow_all"),
    ],
)
def test_a_status_or_failure_says_whether_rules_apply(status: int | None, failure: str | None, expected: str) -> None:
    assert robots.answer(status, failure) == expected


def test_an_answer_grows_old_in_a_day_and_a_failure_sooner() -> None:
    lives = [robots.lives_s("disallow_all", 86_400, 600, failures) for failures in (0, 1, 2, 3, 99)]

    assert lives == [600, 600, 1_200, 2_400, 86_400]
    assert robots.lives_s("rules", 86_400, 600, 9) == robots.lives_s("allow_all", 86_400, 600) == 86_400
