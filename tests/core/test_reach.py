"""A copy leads where the page leads that it is a copy of, whenever their URLs share what its references depend on."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_pipeline.core import page
from crawl_pipeline.core.reach import reach, stem

URLS = [f"{origin}{path}" for origin in ("http://a.test", "https://a.test", "http://b.test:8080")
        for path in ("/", "/x", "/x/", "/x/y", "/x/y?q=1", "/x/y?q=/2/", "/x/z")]  # fmt: skip
PIECES = ["http", "https", ":", "//", "/", "\\", "?", "#", ".", "..", "x", "a.test", " ", "\t", "\n", "", "mailto",
          "javascript", "q=1", "%2F", "@", ";"]  # fmt: skip
references = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
bodies = st.tuples(st.lists(references, max_size=4), st.none() | references)


@given(bodies, st.sampled_from(URLS), st.sampled_from(URLS))
@example((["http:x"], None), "http://a.test/x/", "http://a.test/")
@example((["x"], "http://[bad/"), "http://a.test/x/", "http://a.test/")
@example((["x"], "http://"), "http://a.test/x/", "http://a.test/")
@example((["\\\\b.test/"], None), "http://a.test/x", "https://a.test/x")
def test_pages_with_one_content_and_one_stem_lead_to_the_same_places(body, one, other):
    hrefs, base = body
    head = "" if base is None else f'<base href="{base}">'
    links = "".join(f'<a href="{href}">x</a><iframe src="{href}"></iframe>' for href in hrefs)
    markup = f'<head>{head}<link rel=canonical href="{hrefs[0] if hrefs else ""}"></head>{links}'.encode()
    first, second = (page.read(markup, url, "text/html; charset=utf-8") for url in (one, other))
    of = reach(first.references, first.base_href)
    if stem(one, of) == stem(other, of):
        assert (first.links, first.canonical) == (second.links, second.canonical)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([], "nothing"), (["http://b.test/", "mailto:x@b.test"], "nothing"), (["http://b.test/", "/x"], "origin"),
        (["//b.test/"], "origin"), (["/x", "y"], "folder"), (["../y"], "folder"), (["y", "?q"], "page"),
        (["https:y"], "page"), (["h\tttp://b.test"], "page"),
    ],
)  # fmt: skip
def test_the_most_dependent_reference_decides(written, expected):
    assert reach(written, None) == expected


def test_a_base_that_names_its_host_makes_all_references_depend_on_nothing_else():
    assert reach(["x", "?y"], "http://b.test/") == "nothing"
    assert reach(["http://c.test/"], "y/") == "page"


@pytest.mark.parametrize(
    ("of", "expected"),
    [("nothing", ""), ("origin", "http://a.test"), ("folder", "http://a.test/x"), ("page", "http://a.test/x/y?q=/z")],
)
def test_the_stem_of_a_url_is_what_the_reach_depends_on(of, expected):
    assert stem("http://a.test/x/y?q=/z", of) == expected
