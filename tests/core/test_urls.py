"""URLs have one spelling, and hosts one site and one bucket."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.urls import (
    NotCrawlable,
    bucket,
    can_exist,
    canonical,
    hash64,
    host,
    joiner,
    origin,
    respell,
    site,
)

PIECES = st.lists(
    st.sampled_from([*"aZ09-._~%/?&=#:@;,'\"<> \\é", "%2e", "%41", "%2F", "%%3", "../", "./", "//", "xn--"])
)
HREFS = st.one_of(PIECES.map("".join), PIECES.map("".join).map("http://h.example/".__add__), st.text(max_size=40))
BASES = st.sampled_from(
    [
        "https://h.example/",
        "https://h.example/a/b/c.html?x=1",
        "http://h.example:8080/a//b/",
        "https://h.example/%C3%A9/x",
    ]
)


def _spelling(href: str, base: str | None = None) -> str | None:
    try:
        return canonical(href, base)
    except NotCrawlable:
        return None


@given(HREFS, st.none() | BASES)
def test_canonical_is_idempotent(href: str, base: str | None) -> None:
    url = _spelling(href, base)
    assert url is None or canonical(url) == url


@given(HREFS, BASES)
def test_the_quick_way_to_join_gives_what_the_parser_gives(href: str, base: str) -> None:
    try:
        joined = joiner(base)(href)
    except NotCrawlable:
        joined = None
    assert joined == _spelling(href, base)


PLAIN = st.from_regex(r"https?://(x[nm]--)?[a-z0-9.-]{1,12}\.[a-z]{2,4}/[A-Za-z0-9_.~/-]{0,9}(\?[a-z=&+/:.@]{0,5})?",
                      fullmatch=True)  # fmt: skip


@given(PLAIN)
def test_a_url_that_is_taken_for_plain_is_what_the_parser_would_make_of_it(href: str) -> None:
    """A space in front makes it plain no more, and is dropped by the parser."""
    assert _spelling(href, None) == _spelling(f" {href}", None)


@given(HREFS)
def test_a_canonical_url_is_ascii_and_has_no_fragment_and_no_credentials(href: str) -> None:
    url = _spelling(href, "https://u:p@h.example/x#y")
    assert url is None or (url.isascii() and "#" not in url and "@" not in origin(url))


@pytest.mark.parametrize(
    ("href", "reason"),
    [
        ("http://", "syntax"),
        ("ftp://h.example/", "scheme"),
        ("http://h.example/" + "x" * 70_000, "length"),
        ("\ud800://", "syntax"),
    ],
)
def test_what_is_no_page_is_refused_with_a_reason(href: str, reason: str) -> None:
    with pytest.raises(NotCrawlable) as refused:
        canonical(href)
    assert refused.value.reason == reason


@given(st.text("%34aF2", max_size=60))
def test_escapes_within_escapes_are_undone_however_deep(path: str) -> None:
    plain = path
    while (once := re.sub("%[0-9A-Fa-f]{2}", _one_step, plain)) != plain:
        plain = once
    assert respell(path) == plain


def _one_step(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if re.fullmatch("[A-Za-z0-9._~-]", character) else escape[0].upper()


def test_escapes_nested_without_end_take_no_quadratic_time() -> None:
    assert canonical("http://h.example/" + "%" * 30_000 + "3" * 30_001) == "http://h.example/3"


def test_the_query_of_a_legacy_page_is_escaped_in_its_encoding() -> None:
    assert (
        canonical("/п?п=п€#п", "http://h.example/", encoding="koi8-r") == "http://h.example/%D0%BF?%D0=%D0%26%238364%3B"
    )


def test_an_origin_and_a_host_are_cut_from_the_url() -> None:
    assert origin("https://h.example:8443/a@b:1") == "https://h.example:8443"
    assert host("https://h.example:8443/a") == "h.example"
    assert host("http://[::1]:81/") == "[::1]"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("www.shop.example", "shop.example"),
        ("a.b.co.uk", "b.co.uk"),
        ("me.github.io", "me.github.io"),
        ("github.io", "github.io"),
        ("localhost", "localhost"),
        ("10.1.2.3", "10.1.2.3"),
        ("[::1]", "[::1]"),
        ("h.example.", "h.example"),
    ],
)
def test_the_site_is_the_registrable_domain_or_the_host_itself(name: str, expected: str) -> None:
    assert site(name) == expected


@given(st.text(), st.integers(0, 12))
def test_a_bucket_depends_on_the_site_only_and_splits_into_two(name: str, power: int) -> None:
    half = bucket(name, 2**power)
    assert 0 <= half < 2**power
    assert bucket(name, 2 ** (power + 1)) in (half, half + 2**power)


def test_hashes_never_change() -> None:
    assert hash64("") == 3244421341483603138
    assert hash64("https://h.example/") == hash64("https://h.example/")
    assert -(2**63) <= hash64("x") < 2**63


def test_a_number_of_buckets_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        bucket("h.example", 48)


def test_a_final_dot_makes_no_other_host_of_a_server():
    assert host("http://h.example.:8080/x") == host("http://h.example/x") == "h.example"


@pytest.mark.parametrize("dots", ["..", "...", "." * 300])
def test_more_final_dots_make_no_other_host_either(dots):
    """Each would be asked by a lane of its own, and lead to the same server."""
    assert host(canonical(f"http://h.test{dots}/a")) == "h.test"


@pytest.mark.parametrize(
    "name", ["h.test", "a" * 63 + ".test", "1.2.3.4", "[::1]", "xn--bcher-kva.test", "a_b.test", "localhost"]
)
def test_a_name_of_parts_of_63_letters_can_exist(name):
    assert can_exist(name)


@pytest.mark.parametrize("name", ["", "a..test", ".test", "a" * 64 + ".test"])
def test_a_name_with_an_empty_or_a_longer_part_cannot(name):
    assert not can_exist(name)
