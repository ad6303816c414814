"""Sitemaps of every form are read within bounds."""

import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import sitemap

URL = "https://s.example/map.xml"


def _locs(body: bytes) -> list[str]:
    return [entry.loc.removeprefix("https://s.example/") for entry in sitemap.read(body, URL).entries]


def _urlset(*locs: str) -> bytes:
    return f"<urlset>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>".encode()


@given(st.binary(max_size=200))
def test_no_file_is_too_strange_to_read(body: bytes) -> None:
    sitemap.read(body, URL)
    sitemap.read(b"<urlset>" + body, URL)


@given(st.integers(0, 300))
def test_a_cut_file_gives_whole_entries_only(length: int) -> None:
    whole = _urlset("https://s.example/one", "https://s.example/two", "https://s.example/three")
    assert _locs(whole[:length]) == ["one", "two", "three"][: whole[:length].count(b"</url>")]


def test_gzip_members_are_unpacked_one_after_the_other() -> None:
    body = _urlset("https://s.example/a", "https://s.example/b")
    assert _locs(gzip.compress(body[:30]) + gzip.compress(body[30:]) + b"junk") == ["a", "b"]


def test_a_file_that_unpacks_beyond_the_limit_is_refused() -> None:
    with pytest.raises(sitemap.TooLarge):
        sitemap.read(gzip.compress(bytes(2_000_000)), URL, most_bytes=1_000_000)
    with pytest.raises(sitemap.TooLarge):
        sitemap.read(bytes(2_000_000), URL, most_bytes=1_000_000)


def test_more_entries_than_the_limit_are_cut_and_it_is_told() -> None:
    found = sitemap.read(_urlset(*(f"https://s.example/{n}" for n in range(9))), URL, most=4)
    assert (len(found.entries), found.cut) == (4, True)


def test_bare_ampersands_and_html_entities_survive_but_unknown_entities_spoil_their_entry() -> None:
    assert _locs(
        _urlset("https://s.example/?a=1&b=2", "https://s.example/caf&eacute;", "https://s.example/&what;")
    ) == ["?a=1&b=2", "caf%C3%A9"]
    assert _locs(b"<urlset><url><loc><![CDATA[https://s.example/?a&b]]></loc></url></urlset>") == ["?a&b"]


def test_namespaces_and_prefixes_do_not_matter() -> None:
    assert _locs(
        b"<urlset><sm:url><sm:loc>/a</sm:loc><image:image><image:loc>/i</image:loc></image:image></sm:url></urlset>"
    ) == ["a"]


def test_utf_16_is_read_by_its_mark() -> None:
    body = f'<?xml version="1.0" encoding="utf-16"?>{_urlset("/ä").decode()}'.encode("utf-16")
    assert _locs(body) == ["%C3%A4"]


def test_feeds_lead_to_their_items() -> None:
    item = b"<item><guid>/g</guid><pubDate>Tue, 30 Jun 2026 10:00:00 +0200</pubDate></item>"
    found = sitemap.read(b"<rss><channel><link>/c</link>" + item + b"</channel></rss>", URL)
    assert (found.type, found.entries) == (
        "rss",
        (sitemap.Entry("https://s.example/g", datetime(2026, 6, 30, 8, tzinfo=UTC)),),
    )


def test_files_made_to_backtrack_are_read_in_no_time() -> None:
    sitemap.read(b"<urlset>" + b"<![CDATA[" * 500_000, URL)
    sitemap.read(b"\xef\xbb\xbf<?xml" + b" " * 5_000_000, URL)


def test_pages_that_are_no_sitemap_hold_nothing() -> None:
    assert sitemap.read(b"<!doctype html><html><a href=/x>", URL) == sitemap.Sitemap("none")
    assert sitemap.read(b"not found", URL) == sitemap.Sitemap("none")


def test_translations_are_named_once_after_all_locations_and_within_a_limit() -> None:
    a, b, c = (f"https://s.example/{name}" for name in "abc")
    found = sitemap.Sitemap("urlset", (sitemap.Entry(a, datetime(2026, 1, 1, tzinfo=UTC), (a, b, c)), sitemap.Entry(b)))

    assert sitemap.named(found) == (*found.entries, sitemap.Entry(c))
    assert sitemap.named(found, most=0) == found.entries
