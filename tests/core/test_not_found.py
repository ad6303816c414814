"""Made-up URLs are nobody's, and a page is a soft 404 if it says what the host says of what does not exist."""

from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import not_found, urls
from crawl_pipeline.testing.sites import prose

MENU = prose("menu", 300)


def said(text: str, url: str = "http://a.test/x") -> frozenset[int]:
    return not_found.words(text, url)


def test_a_made_up_url_stands_beside_the_page_and_ends_like_it():
    made = not_found.made_up("http://a.test/docs/page.html?x=1")

    assert made.startswith("http://a.test/docs/")
    assert made.endswith(".html")
    assert not set("aeiou") & set(made.rpartition("/")[2].partition(".")[0])
    assert not_found.made_up("http://a.test/docs/other.html") == made
    assert not_found.made_up("http://a.test/other/page.html") != made


@given(st.lists(st.sampled_from(["a", "b-c", "d.html", "e.tar.gz", ""]), min_size=1, max_size=4))
def test_a_made_up_url_is_canonical(parts):
    url = not_found.made_up("http://a.test/" + "/".join(parts))

    assert urls.canonical(url) == url


def test_an_answer_that_repeats_the_url_or_counts_is_the_same_answer():
    one = said("The page /shop/red-shoes was not found. Request 4711.", "http://a.test/shop/red-shoes")
    other = said("The page /shop/xkcdqz was not found. Request 12.", "http://a.test/shop/xkcdqz")

    assert not_found.alike(one, other)


def test_a_page_with_a_few_words_of_its_own_under_a_large_menu_is_no_soft_404():
    missing = said(f"{MENU} Sorry, there is no such page here.")
    stub = said(f"{MENU} open(path) gives a handle; raises when it cannot.")

    assert not not_found.alike(missing, stub)
    assert not_found.alike(missing, said(f"{MENU} Sorry, there is no such page here, friend."))


def test_short_answers_are_alike_only_if_they_say_the_same():
    assert not_found.alike(said("not found"), said("Not found!"))
    assert not not_found.alike(said("not found"), said("good morning"))


@given(st.text(max_size=200), st.text(max_size=200))
def test_likeness_has_no_direction_and_every_page_is_like_itself(one, other):
    assert not_found.alike(said(one), said(other)) == not_found.alike(said(other), said(one))
    assert not said(one) or not_found.alike(said(one), said(one))
