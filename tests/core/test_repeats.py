"""Which pages of a host repeat an earlier one: copies and near copies do, the first page and other contents do not."""

import polars as pl
from crawl_rows import policy

from crawl_pipeline.core import fingerprint, repeats, urls
from crawl_pipeline.testing.sites import prose


def pages(*texts: str | tuple[str, str], host: str = "a.test", start: int = 0, steps: bool = False) -> pl.DataFrame:
    found = [text if isinstance(text, tuple) else (f"http://{host}/{n}", text) for n, text in enumerate(texts, start)]
    rows = pl.DataFrame(
        {"host": [host] * len(found), "url": [url for url, _ in found], "text": [text for _, text in found],
         "url_hash": [urls.url_hash(url) for url, _ in found]}
    )  # fmt: skip
    signed = pl.concat([rows, fingerprint.signatures(rows["text"])], how="horizontal").with_columns(
        text_hash=pl.Series([urls.hash64(text) for text in rows["text"]], dtype=pl.Int64)
    )
    return signed.with_columns(repeats.bare_hashes(rows["text"]), steps=pl.lit(steps))


def verdicts(found: pl.DataFrame, earlier: pl.DataFrame = repeats.NOBODY) -> list[str]:
    return repeats.judged(found, earlier, policy())["verdict"].to_list()


def test_the_first_page_of_a_content_is_good_and_its_copies_are_not():
    assert verdicts(pages(prose("x"), prose("y"), prose("x"), prose("x"))) == ["good", "good", "exact", "exact"]


def test_copies_of_pages_of_earlier_rounds_are_found_and_named():
    found = repeats.judged(pages(prose("x"), start=1), pages(prose("x")), policy())

    assert found["like"].to_list() == ["http://a.test/0"]
    assert found["verdict"].to_list() == ["exact"]


def test_the_same_page_of_another_host_is_none_of_ours():
    assert verdicts(pages(prose("x")), pages(prose("x"), host="b.test")) == ["good"]


def test_a_page_is_never_compared_with_itself():
    assert verdicts(pages(prose("x")), pages(prose("x"))) == ["good"]


def test_a_page_with_a_few_other_words_is_a_near_copy():
    text = prose("x", 300)

    assert verdicts(pages(text, f"{text} printed for you alone")) == ["good", "near"]


def test_pages_that_share_much_of_a_template_are_no_copies():
    shared = prose("template", 200)

    assert verdicts(pages(*(f"{shared} {prose(str(n), 70)}" for n in range(4)))) == ["good"] * 4


def test_variants_that_differ_in_a_price_are_no_copies():
    text = prose("shirt", 15)

    assert verdicts(pages(f"{text} 10 EUR", f"{text} 12 EUR")) == ["good", "good"]


def test_pages_that_differ_in_numbers_only_and_lead_on_by_numbers_are_copies():
    text = prose("month", 15)

    assert verdicts(pages(f"{text} 10", f"{text} 11", steps=True)) == ["good", "near"]


def test_next_to_no_text_is_thin_however_often_it_differs():
    assert verdicts(pages("one two", "three", "")) == ["thin", "thin", "thin"]


def test_a_soft_404_is_believed():
    found = pages(prose("x"), prose("y")).with_columns(soft404=pl.Series([False, True]))

    assert verdicts(found) == ["good", "soft404"]
