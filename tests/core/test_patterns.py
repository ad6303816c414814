"""In a pattern only the star is special; a column of URLs is matched as one URL would be."""

import string
from fnmatch import fnmatchcase

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import patterns


def matches_any(url: str, *given: str) -> bool:
    return bool(pl.DataFrame({"url": [url]}).select(patterns.matches_any(pl.col("url"), given)).item())


@pytest.mark.parametrize(
    ("url", "pattern", "matches"),
    [
        ("http://a.test/x", "http://a.test/*", True),
        ("http://a.test/x", "http://a.test/", False),
        ("http://a.test/x?y=1", "*?y=*", True),
        ("http://a.test/xzy=1", "*?y=*", False),
        ("http://a.test/[1]", "*/[1]", True),
        ("http://a.test/1", "*/[1]", False),
        ("http://a.test/X", "*/x", False),
        ("http://axtest/", "http://a.test/", False),
    ],
)
def test_only_a_star_is_special_in_a_pattern(url, pattern, matches):
    assert matches_any(url, pattern) == matches


def test_without_patterns_nothing_matches():
    assert not matches_any("http://a.test/")


URLS = st.text(string.ascii_letters + string.digits + string.punctuation, max_size=20)


@given(URLS)
def test_a_pattern_of_plain_text_matches_itself_only(url):
    plain = url.replace("*", "")

    assert matches_any(plain, plain)
    assert not matches_any(plain + "x", plain)


@given(st.text("ab?[.*", max_size=8), st.lists(st.text("ab?[.*", max_size=5), max_size=4))
def test_patterns_match_as_file_name_patterns_do(url, some):
    plain = [pattern.replace("[", "[[]").replace("?", "[?]") for pattern in some]

    assert matches_any(url, *some) == any(fnmatchcase(url, pattern) for pattern in plain)


def test_thousands_of_patterns_find_what_each_of_them_finds():
    many = [f"*site{number}.test/q{number}/?x=*" for number in range(2_500)]
    urls = pl.DataFrame({"url": [f"http://site{n}.test/q{n}/?x=1" for n in (0, 999, 1_000, 2_499, 2_500)]})

    found = urls.select(patterns.matches_any(pl.col("url"), many))

    assert found["literal"].to_list() == [True, True, True, True, False]
