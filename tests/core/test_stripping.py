"""What is taken out of a page, and what is left of it."""

import numpy as np
import polars as pl
import pytest

from crawl_pipeline.core import stripping, templates
from crawl_pipeline.core.page import read

LONG = "This is what the page has to say, and nobody else says it, in so many words. " * 3


def stripped(html, *template):
    """One page, stripped of these template blocks."""
    page = read(html.encode(), "http://a.test/", "text/html; charset=utf-8")
    of_host = templates.distinct(templates.hashes("\n".join(template)))
    return stripping.strip([page.text], [templates.hashes(page.text)], [page.regions], [of_host]).row(0, named=True)


@pytest.mark.parametrize(
    ("markup", "gone"),
    [
        ("<nav><a href=/>Home</a></nav>", True),
        ("<header>A site</header>", True),
        ("<body><aside>Read also</aside>", True),
        ("<article><header>A headline</header></article>", False),
        (f"<footer>{LONG}</footer>", False),
        (f"<div class='advert'>{LONG}</div>", True),
        ("<div class='x ad y'>Buy</div>", True),
        ("<div class='adroit'>Skill</div>", False),
        ("<ins class=adsbygoogle>Buy</ins>", True),
        ("<div hidden>cheap cheap</div>", False),
    ],
)
def test_navigation_and_advertising_are_taken_out_and_content_is_not(markup, gone):
    row = stripped(f"{markup}<p>{LONG}</p><p>{LONG} Again.</p>")

    assert (row["removed_blocks"] == [1]) == gone
    assert (row["removed_share"] > 0) == gone


def test_the_template_of_the_host_is_taken_out():
    row = stripped(f"<p>Home</p><p>{LONG}</p><p>All rights reserved</p>", "Home", "All rights reserved")

    assert row["main"] == " ".join(LONG.split())
    assert row["removed_blocks"] == [1, 3]


def test_a_page_that_is_nearly_all_template_is_kept_whole():
    row = stripped("<p>Home sweet home</p><p>x</p>", "Home sweet home")

    assert (row["main"], row["removed_blocks"]) == ("Home sweet home\nx", [])
    assert row["removed_share"] > stripping.MOST_REMOVED


def test_hidden_text_and_repeated_blocks_are_noise_that_stays():
    row = stripped(f"<p>{LONG}</p><p hidden>cheap pills</p><p style='display:none'>more</p><p>buy</p><p>buy</p>")

    assert row["removed_share"] == 0
    assert row["noise_share"] == pytest.approx(len("cheap pillsmorebuy") / len(LONG.strip() + "cheap pillsmorebuybuy"))


def test_each_page_is_stripped_by_the_template_of_its_own_host():
    home, none = templates.distinct(templates.hashes("Home")), np.empty(0, np.uint32)
    text = f"Home\n{LONG}"

    rows = stripping.strip([text] * 4, [templates.hashes(text)] * 4, [bytes(2)] * 4, [none, home, home, none])

    assert [len(numbers) for numbers in rows["removed_blocks"]] == [0, 1, 1, 0]


def test_pages_without_text_are_stripped_of_nothing():
    rows = stripping.strip(["", "x"], [b"", templates.hashes("x")], [b"", b"\0"], [np.empty(0, np.uint32)] * 2)

    assert rows.select("main", "removed_share", "noise_share").rows() == [("", 0, 0), ("x", 0, 0)]
    assert stripping.strip([], [], [], []).schema == stripping.SCHEMA == pl.Schema(rows.schema)
