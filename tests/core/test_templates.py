"""Short blocks that stand on many pages of a host are its template, and what is counted for that is bounded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import templates
from crawl_pipeline.core.templates import Counts, distinct, hashes


def page(*lines):
    return distinct(hashes("\n".join(lines)))


def counted(pages, known=None, numbers=None, fewest=10, share=0.01, at_a_time=5):
    """What is known after these pages, some at a time."""
    known = known or Counts()
    numbers = numbers or range(known.pages, known.pages + len(pages))
    for start in range(0, len(pages), at_a_time):
        some = slice(start, start + at_a_time)
        known = templates.add(known, pages[some], list(numbers)[some], fewest, share)
    return known


def is_template(known, line):
    return page(line)[0] in known.template()


def test_a_block_is_template_from_its_tenth_page_on():
    known = counted([page("Home", f"story {n}") for n in range(9)])
    assert not len(known.template())

    known = counted([page("Home", "story 9")], known)

    assert list(known.template()) == list(page("Home"))


def test_a_block_of_too_small_a_share_of_the_pages_is_content():
    pages = [page("Home", *(["ten of them"] if n % 200 == 0 else []), f"story {n}") for n in range(2_000)]

    known = counted(pages, at_a_time=100)

    assert is_template(known, "Home")
    assert not is_template(known, "ten of them")


def test_a_block_of_one_page_in_fifty_is_found_among_many_that_stand_once():
    pages = [page(*(["rare"] if n % 50 == 0 else []), *(f"{n} {m}" for m in range(60))) for n in range(1_000)]

    assert is_template(counted(pages, at_a_time=10), "rare")


def test_long_blocks_are_never_template():
    assert not len(counted([page("x" * 201)] * 50).template())
    assert len(counted([page("x" * 200)] * 50).template()) == 1


def test_a_page_that_is_visited_again_and_again_makes_no_template():
    assert not len(counted([page("only here")] * 500, numbers=[7] * 500).template())


def test_what_is_left_out_for_a_comparison_is_the_template_of_then_and_what_came_later():
    known = counted([page("Home", "Slow" if n == 3 else "x", f"story {n}") for n in range(20)])
    known = counted([page("Home", "New", "Slow", f"tale {n}") for n in range(20)], known)

    assert {*known.template()} >= {*page("Home"), *page("New"), *page("Slow")}
    assert {*known.template_for(20)} == {*page("Home", "x", "New")}  # Slow may have been in a page of then
    assert {*known.template_for(5)} == {*page("New")}


def test_what_was_template_stays_so_when_the_host_grows():
    known = counted([page("old", f"story {n}") for n in range(20)])

    assert is_template(counted([page(f"tale {n}") for n in range(5_000)], known, at_a_time=500), "old")


def test_what_is_kept_is_bounded_and_templates_stay_longest():
    noisy = [page("Home", *(f"{n // 2} {m}" for m in range(500))) for n in range(100)]

    known = counted(noisy)

    assert len(known.hashes) <= templates.MOST_BLOCKS
    assert len(known.once) <= templates.MOST_ONCE
    assert is_template(known, "Home")


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5), max_size=30), st.integers(1, 7))
def test_what_is_stored_is_what_was_counted_without_the_blocks_seen_once(pages, at_a_time):
    known = counted([page(*lines) for lines in pages], at_a_time=at_a_time, fewest=2)

    again = templates.from_row(templates.row(known))

    assert again.pages == known.pages
    for name in ("hashes", "counts", "classes", "first", "since"):
        np.testing.assert_array_equal(getattr(again, name), getattr(known, name))


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5), max_size=30))
def test_counts_do_not_depend_on_how_pages_are_dealt_out_to_rounds(pages):
    one, many = (counted([page(*lines) for lines in pages], at_a_time=size) for size in (100, 1))

    several = one.counts > 1
    np.testing.assert_array_equal(one.hashes[several], many.hashes)
    np.testing.assert_array_equal(one.counts[several], many.counts)


def test_a_host_costs_rows_by_the_logarithm_of_its_pages():
    stored, rows = 0, 0
    for pages in range(1, 10_001):
        if templates.is_worth_storing(Counts(pages), stored, 10):
            stored, rows = pages, rows + 1

    assert rows <= 25


def test_a_block_with_a_date_or_a_time_is_the_same_block_another_day():
    assert hashes("Built 2026-03-01 12:30:11") == hashes("Built 2026-11-30 09:01:00")
    assert hashes("Price: 120") != hashes("Price: 130")


def test_an_empty_page_has_no_blocks():
    assert hashes("") == b""
    assert not len(counted([page("")] * 20).template())
