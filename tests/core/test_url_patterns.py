"""URL patterns: alike URLs share one, frequent segments stand in it, and neither order nor number of URLs matters."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline.core import url_patterns
from crawl_pipeline.core.url_patterns import CANDIDATES, MERGED, SIBLINGS

NO_WORDS = pl.DataFrame(schema=url_patterns.WORDS | {"count": pl.Int64, "literal": pl.Boolean})


def of_host(*paths: str) -> pl.DataFrame:
    return pl.DataFrame({"host": ["a.test"] * len(paths), "url": [f"http://a.test{path}" for path in paths]})


def shape(path: str) -> str:
    return url_patterns.keyed(of_host(path))["shape"].item()


def learnt(*paths: str, words: pl.DataFrame = NO_WORDS, known: int | None = None) -> pl.DataFrame:
    named = url_patterns.keyed(of_host(*paths))
    counts = (
        named.with_columns(path=url_patterns.path_of("shape"))
        .group_by("host", "path")
        .agg(known=pl.len() if known is None else pl.lit(known))
    )
    return url_patterns.grown(words, of_host(*paths), counts)


def patterns(words: pl.DataFrame, *paths: str) -> list[str]:
    return url_patterns.keyed(of_host(*paths), url_patterns.literals_of(words))["pattern"].to_list()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("/calendar/2026/7", "/{slug}/{int}/{int}"),
        ("/2026-07-01/x", "/{date}/{slug}"),
        ("/deadbeef01/ab12", "/{hex}/{mixed}"),
        ("/my-post-10.HTML", "/{slug}.html"),
        ("/a/", "/{slug}/"),
        ("/%E3%81%82", "/{slug}"),
        ("/p;jsessionid=AB12?b=1&a=2&a=3", "/{slug};jsessionid?a&b"),
        ("/l?f[0]=1&f[12]=2", "/{slug}?f[]"),
        ("/s?12345", "/{slug}?{int}"),
        ("/s?a81bc81b=1", "/{slug}?{hex}"),
    ],
)
def test_a_shape_has_a_class_for_each_segment_and_the_names_of_parameters(path, expected):
    assert shape(path) == expected


def test_a_segment_of_many_urls_becomes_a_literal_and_others_do_not():
    words = learnt(*(f"/calendar/{n}" for n in range(30)), *(f"/once-{'x' * n}/{n}" for n in range(5)))

    assert patterns(words, "/calendar/99", "/shop/1", "/calendar/x") == [
        "/calendar/{int}", "/{slug}/{int}", "/{slug}/{slug}",
    ]  # fmt: skip


def test_segments_count_whatever_parameters_follow():
    words = learnt(*(f"/list/{n}?a={n}" for n in range(12)), *(f"/list/{n}?b={n}&c=1" for n in range(12)))

    assert patterns(words, "/list/99?a=1", "/list/99?z=1") == ["/list/{int}?a", "/list/{int}?z"]


def test_literals_add_up_over_rounds_and_stay():
    words = learnt(*(f"/calendar/{n}" for n in range(15)))
    assert patterns(words, "/calendar/99") == ["/{slug}/{int}"]

    words = learnt(*(f"/calendar/{n}" for n in range(15, 30)), words=words)
    words = learnt("/shop/1", words=words, known=10_000)

    assert patterns(words, "/calendar/99") == ["/calendar/{int}"]


def test_words_dealt_out_at_random_never_become_literals():
    names = [f"{a}{b}" for a in "abcdefg" for b in "hijklmnopq"]
    words = learnt(*(f"/m/{names[n % 70]}/{n}" for n in range(5_000)))

    assert patterns(words, "/m/ah/1") == ["/m/{slug}/{int}"]


def test_a_place_with_too_many_literals_holds_content_and_takes_no_more():
    words = NO_WORDS
    for n in range(SIBLINGS + 1):
        name = "abcdefghij"[n // 10] + "abcdefghij"[n % 10]
        words = learnt(*(f"/{name}/{i}" for i in range(20)), words=words, known=20)

    assert words["segment"].to_list() == [MERGED]
    words = learnt(*(f"/new/{i}" for i in range(50)), words=words)
    assert patterns(words, "/new/1", "/aa/1") == ["/{slug}/{int}"] * 2


def test_of_a_million_names_few_are_kept():
    words = learnt(*(f"/user-{'abcdefghij'[n % 10] * (1 + n // 10)}/x" for n in range(300)))

    assert words.filter(~pl.col("literal")).height <= CANDIDATES


PATHS = st.lists(
    st.sampled_from([f"/{s}/{n}" for s in ("cal", "blog", "x") for n in range(40)]), min_size=1, unique=True
)


@given(PATHS, st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_urls_changes_nothing(paths, chance):
    shuffled = list(paths)
    chance.shuffle(shuffled)

    assert learnt(*paths).equals(learnt(*shuffled))
