"""Of the sizes in which a page offers a picture the largest is taken, however the attribute is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.srcset import MOST, candidates, largest


@pytest.mark.parametrize(
    ("srcset", "expected"),
    [
        ("a.png", "a.png"),
        ("a.png 1x, b.png 2x", "b.png"),
        ("a.png 480w,b.png 800w , c.png 320w", "b.png"),
        (" \n, a.png,", "a.png"),
        ("a,b.png 2x, c.png", "a,b.png"),
        ("a.png (x, y) 3x, b.png 2x", "a.png"),
        ("a.png 1.5x, b.png 1.25x", "a.png"),
        ("a.png big, b.png small", "a.png"),
        ("a.png,  b.png 2x", "b.png"),
        ("", None),
        (" , ,", None),
    ],
)
def test_the_largest_of_a_srcset(srcset, expected):
    assert largest(srcset) == expected


@given(st.text(alphabet="ab ,()12wx.\n"))
def test_any_srcset_gives_few_references_without_white_space(srcset):
    found = list(candidates(srcset))

    assert len(found) <= MOST
    assert all(href and href.split() == [href] for href, _ in found)
