"""What counts as the same word, what is masked, and that a text's words are its own affair."""

import re
import unicodedata

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.tokens import DATE, ID, NORMAL, TIME, hashed, masked, word_hash, words

PINNED = [0, 6725863649267003529, 9199880619984171149, 7422497356208214657]


def _words(text: str) -> list[str]:
    found: list[str] = words(pl.Series([text])).to_list()[0]
    return found


def test_words_are_lower_case_and_without_punctuation() -> None:
    assert _words("It's the SAME: thing_1, again!") == ["it", "s", "the", "same", "thing_1", "again"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-07-01", "2026/7/1", "01.07.2026", "7/1/2026", "1 July 2026", "Wednesday 1 July 2026", "July 1st, 2026",
        "Jul 1", "1. Juli 2026", "1 de julio de 2026", "1 août 2026", "July 2026", "2026年7月1日",
        "2026-07-01T10:42:00Z", "2026-07-01 10:42:00.123 +02:00", "3 hours ago", "２０２６-０７-０１",
    ],
)  # fmt: skip
def test_a_date_is_one_word_whatever_it_says(text: str) -> None:
    assert _words(f"printed on {text}, here") == ["printed", "on", DATE, "here"]


@pytest.mark.parametrize("text", ["10:42", "10:42:07", "9:05 pm", "10:42 UTC", "23:59:60.5 +01:00"])
def test_a_time_is_one_word_whatever_it_says(text: str) -> None:
    assert _words(f"printed at {text}, here") == ["printed", "at", TIME, "here"]


@pytest.mark.parametrize(
    "text",
    ["550e8400-e29b-41d4-a716-446655440000", "d41d8cd98f00b204", "1785312000", "dGhpcyBpc2Eg1x9Zk3q7w", "x1y2z3a4b5c6"],
)
def test_an_id_is_one_word_whatever_it_says(text: str) -> None:
    assert _words(f"session {text}, here") == ["session", ID, "here"]


@pytest.mark.parametrize("text", ["defaced", "deadbeef", "1234567", "v1 74 0", "10 0 0 1", "utf8", "0x1f", "49 eur"])
def test_numbers_versions_and_words_stay(text: str) -> None:
    assert _words(text) == text.split()


def test_scripts_without_spaces_give_a_word_per_character() -> None:
    assert _words("日本語 Wiki ภาษา") == ["日", "本", "語", "wiki", "ภ", "า", "ษ", "า"]


def test_hashes_are_those_of_the_words_in_order() -> None:
    texts = pl.Series(["one two one", "", None, "0a1b2c3d4e two"])
    found = hashed(texts)
    assert found.counts.tolist() == [3, 0, 0, 2]
    assert found.hashes.tolist() == [word_hash(word) for word in ("one", "two", "one", ID, "two")]


def test_words_of_every_length_have_the_hash_that_is_documented() -> None:
    given = [letter * length for letter in "aé" for length in (*range(1, 60), 200)]
    found = hashed(pl.Series([" ".join(given)])).hashes.tolist()
    assert found == [word_hash(word) for word in given]
    assert len(set(found)) == len(given)


def test_word_hashes_never_change() -> None:
    hashes = [word_hash(word) for word in ("", "word", "dictionary", "w" * 49)]
    assert hashes == PINNED


def test_no_text_at_all_is_no_words() -> None:
    assert hashed(pl.Series([], dtype=pl.String)).counts.tolist() == []


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_words_and_hashes_agree_and_do_not_depend_on_the_batch(texts: list[str]) -> None:
    found = hashed(pl.Series(texts))
    alone = [hashed(pl.Series([text])).hashes.tolist() for text in texts]
    assert found.hashes.tolist() == [number for one in alone for number in one]
    listed = words(pl.Series(texts)).to_list()
    assert found.hashes.tolist() == [word_hash(word) for one in listed for word in one]


def test_what_is_taken_for_normal_is_its_own_nfkc_in_any_text() -> None:
    every = (chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000)
    taken = [character for character in every if re.fullmatch(f"[{NORMAL}]", character)]
    assert len(taken) > 30_000
    assert all(unicodedata.combining(character) == 0 for character in taken)
    assert all(unicodedata.is_normalized("NFKC", character) for character in taken)
    # A character that may join the one before it would not be normal after it.
    assert all(unicodedata.is_normalized("NFKC", f"{before}{one}") for one in taken for before in "aか가")


@given(st.text(max_size=30))
def test_spellings_that_nfkc_unites_give_the_same_words(text: str) -> None:
    assert _words(unicodedata.normalize("NFKC", text)) == _words(text)


def test_a_page_of_ligatures_of_whole_phrases_does_not_grow() -> None:
    few, many = "\ufdfa" * 10, "\ufdfa" * 50_000

    assert len(masked(pl.Series([few]))[0]) == 180
    assert len(masked(pl.Series([many]))[0]) == len(many)
