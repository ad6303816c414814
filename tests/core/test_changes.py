"""Whether a page that was read again has changed in substance."""

import polars as pl
import pytest

from crawl_pipeline.core import changes, fingerprint

WORDS = [f"word{n}" for n in range(2_000)]


def version(text):
    marks = fingerprint.signatures(pl.Series([text]))
    return marks.select("main_hash").with_columns(changes.sketch(marks["minhash"]))


def alike(old, new):
    return changes.alike(version(new), version(old), 0.98).item()


def edited(count):
    """The text with so many words exchanged, far from each other."""
    places = range(5, len(WORDS), len(WORDS) // count) if count else ()
    return " ".join("other" if n in places else word for n, word in enumerate(WORDS))


@pytest.mark.parametrize(("count", "is_alike"), [(0, True), (2, True), (100, False), (400, False)])
def test_a_page_is_alike_as_long_as_next_to_nothing_of_it_differs(count, is_alike):
    assert alike(edited(0), edited(count)) == is_alike


def test_a_clock_is_no_difference():
    assert alike("It is 12:03:11 on 3 March 2026 now", "It is 18:59:02 on 4 March 2026 now")


def test_a_short_page_is_alike_only_if_it_is_equal():
    assert alike("one two three", "one two three")
    assert not alike("one two three", "one two four")


def test_of_a_page_that_was_not_known_nothing_is_said():
    known = pl.DataFrame({"main_hash": [None], "main_sketch": [None]}, schema={"main_hash": pl.Int64,
                                                                             "main_sketch": pl.Binary})  # fmt: skip
    assert changes.alike(version("one two"), known, 0.98).to_list() == [None]


def test_a_sketch_takes_32_bytes():
    assert len(version(edited(0))["main_sketch"][0]) == changes.SKETCH_BYTES == 32
