"""What is remembered of references changes nothing of where they lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import references, urls
from crawl_pipeline.core.references import ENTRIES, Place, resolver

BASES = [
    "https://h.example/d/p.html", "https://h.example/d/q.html?r=/x/y", "https://h.example/d/", "http://h.example/",
    "http://h.example/d/p", "https://g.example:8443/d/p.html",
]  # fmt: skip
PARTS = ["http:", "https:", "HTTP:", "ht\ntp:", "//", "/", "?q=1", "?a:b", "..", ".", "x", "y/z", "é", " ", "\\", "%41",
         "#f", ":", "h.example", "@", "\t"]  # fmt: skip


def _leads(base: str, href: str) -> Place | None:
    try:
        url = urls.joiner(base)(href)
    except urls.NotCrawlable:
        return None
    return Place(url, urls.url_hash(url), urls.host(url))


@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=5).map("".join), min_size=1, max_size=5))
def test_a_reference_leads_where_it_leads_whatever_pages_were_read_before(hrefs: list[str]) -> None:
    for base in (*BASES, *reversed(BASES)):
        resolve = resolver(base, "utf-8")
        assert [resolve(href) for href in hrefs] == [_leads(base, href) for href in hrefs]


@pytest.mark.parametrize("href", ["http:?q", "ht\ntp:?q", "?q", " ?q", "\x01?q", "https:\t?q"])
def test_what_depends_on_the_page_itself_is_not_taken_from_its_neighbour(href: str) -> None:
    one, other = (resolver(f"http://h.example/d/{page}", "utf-8")(href) for page in ("a", "b"))
    assert one == _leads("http://h.example/d/a", href)
    assert other == _leads("http://h.example/d/b", href)


def test_the_encoding_of_a_page_has_a_part_in_where_its_queries_lead() -> None:
    places = [resolver("http://h.example/d/a", encoding)("p?q=é") for encoding in ("utf-8", "cp1252")]
    assert [place and place.url for place in places] == ["http://h.example/d/p?q=%C3%A9", "http://h.example/d/p?q=%E9"]


def test_no_more_than_so_many_places_of_a_folder_are_remembered_and_those_met_often_stay() -> None:
    resolve = resolver("http://h.example/many/a", "utf-8")
    menu = resolve("menu.html")
    for number in range(3 * ENTRIES):
        resolve(f"{number}.html")
        assert resolve("menu.html") is menu
    folder = references._folder("http://h.example/many", "utf-8")
    assert len(folder.met) + len(folder.before) <= 2 * ENTRIES
