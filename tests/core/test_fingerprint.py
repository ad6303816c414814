"""Fingerprints are right, stay what they are, and say what the rule says."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from datasketch import MinHash
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline.core import fingerprint, sketches, tokens
from crawl_pipeline.core.fingerprint import bands, distance, jaccard, near, shingle_hash, signatures, within

TEXT = (
    "The quick brown fox jumps over the lazy dog, printed on 2026-07-01 at 10:42 for session d41d8cd98f00b204; "
    "Ｆｕｌｌ width, ½ and 日本語のテキスト."
)
# Stored columns hold these numbers: a change here is a change of format.
PINNED = (30, -1165578526719005740, -7253195806843862270, "6dfb480703fa370bf443772506dce501")


def _text(words: int, seed: int = 7) -> list[str]:
    drawn = random.Random(seed)
    return [f"w{drawn.randrange(100_000)}" for _ in range(words)]


def _of(*texts: Sequence[str]) -> pl.DataFrame:
    return signatures(pl.Series([" ".join(text) for text in texts]))


def _near(a: Sequence[str], b: Sequence[str], bits: int = fingerprint.BITS) -> bool:
    return bool(near(_of(a), _of(b), bits=bits).item())


def _changed(words: list[str], *places: int) -> list[str]:
    return [f"other{number}" if number in places else word for number, word in enumerate(words)]


def test_fingerprints_never_change() -> None:
    found = signatures(pl.Series([TEXT])).row(0)
    assert (*found[:3], found[3][:16].hex()) == PINNED


def test_fingerprints_are_the_same_in_another_process() -> None:
    program = (
        "import sys, polars as pl\n"
        "from crawl_pipeline.core.fingerprint import signatures\n"
        "print(signatures(pl.Series([sys.argv[1]])).row(0))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "4711", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program, TEXT], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(signatures(pl.Series([TEXT])).row(0))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_order_and_size_of_a_batch_make_no_difference(lengths: list[int], drawn: random.Random) -> None:
    texts = [" ".join(_text(length, seed)) for seed, length in enumerate(lengths)]
    shuffled = drawn.sample(range(len(texts)), len(texts))
    batch = signatures(pl.Series([texts[number] for number in shuffled]))
    alone = [signatures(pl.Series([texts[number]])) for number in shuffled]
    assert batch.equals(pl.concat(alone))


def test_a_batch_larger_than_a_chunk_gives_what_its_parts_give() -> None:
    texts = [_text(20_000, 1), _text(15, 2), _text(70_000, 3), _text(40_000, 4), _text(3, 5)]
    assert _of(*texts).equals(pl.concat([_of(text) for text in texts]))


def test_short_texts_have_only_the_exact_hash_and_null_has_nothing() -> None:
    found = signatures(pl.Series([None, "", "one two three", " ".join(_text(10))]))
    assert found["token_count"].to_list() == [None, 0, 3, 10]
    assert found["main_hash"].is_null().to_list() == [True, False, False, False]
    assert found["simhash"].is_null().to_list() == found["minhash"].is_null().to_list() == [True, True, True, False]
    assert signatures(pl.Series([], dtype=pl.String)).schema == fingerprint.SCHEMA


def test_the_exact_hash_sees_order_and_words_but_no_layout_and_no_date() -> None:
    one, layout, order, other = signatures(
        pl.Series(
            ["Seen on 1 May 2026. By us", "seen on\n2 June 2026 by US!", "by us seen on 1 May 2026", "seen by us"]
        )
    )["main_hash"]
    assert one == layout
    assert len({one, order, other}) == 3


@given(st.lists(st.integers(1, 600), min_size=1, max_size=5), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_the_byte_lane_simhash_is_the_plain_one(sizes: list[int], seed: int) -> None:
    drawn = np.random.default_rng(seed)
    sets = [drawn.integers(0, 1 << 64, size, np.uint64) for size in sizes]
    found = sketches.simhash(np.concatenate(sets), np.array(sizes))
    assert found.tolist() == [_plain_simhash(one.tolist()) for one in sets]


def _plain_simhash(features: list[int]) -> int:
    """Charikar's definition, a bit at a time."""
    ones = [sum(feature >> bit & 1 for feature in features) for bit in range(64)]
    return sum(1 << bit for bit, count in enumerate(ones) if 2 * count > len(features))


def test_features_are_a_set() -> None:
    words = _text(60)
    once, twice = _of(words, [*words, *words[:40]]).rows(named=True)
    added = len(set(zip(words[-2:], words[:2], strict=True)))
    assert fingerprint.distance(pl.Series([once["simhash"]]), pl.Series([twice["simhash"]])).item() <= 4 + added
    assert jaccard(pl.Series([once["minhash"]]), pl.Series([twice["minhash"]])).item() > 0.9


def test_datasketch_goes_on_with_a_stored_minhash() -> None:
    words = _text(300)
    stored, whole = _of(words[:200], words)["minhash"]
    shingles = list(zip(words, words[1:], words[2:], strict=False))
    loaded = MinHash(hashvalues=np.frombuffer(stored, "<u4"), scheme="affine32", hashfunc=shingle_hash)
    loaded.update_batch(shingles[150:290])
    for shingle in shingles[290:]:
        loaded.update(shingle)
    assert loaded.hashvalues.tolist() == np.frombuffer(whole, "<u4").tolist()


def test_datasketch_alone_makes_the_same_minhash() -> None:
    (words,) = tokens.words(pl.Series([TEXT])).to_list()
    made = MinHash(num_perm=128, hashfunc=shingle_hash)
    made.update_batch(zip(words, words[1:], words[2:], strict=False))
    assert made.hashvalues.tolist() == np.frombuffer(signatures(pl.Series([TEXT]))["minhash"].item(), "<u4").tolist()


def test_distance_counts_the_sign_bit_as_one_bit() -> None:
    a, b = pl.Series([-(1 << 63), -1, 5, None]), pl.Series([0, 0, 5, 0])
    assert distance(a, b).to_list() == [1, 64, 0, None]
    assert pl.select(distance(pl.lit(a), pl.lit(b))).to_series().to_list() == [1, 64, 0, None]


@pytest.mark.parametrize("shared", [0, 100, 200, 300])
def test_the_estimate_is_close_to_the_jaccard_index(shared: int) -> None:
    common, own, other = _text(shared, 1), _text(300 - shared, 2), _text(300 - shared, 3)
    a, b = _of([*common, *own], [*common, *other])["minhash"]
    index = max(shared - 2, 0) / (2 * 298 - max(shared - 2, 0))
    assert jaccard(pl.Series([a]), pl.Series([b])).item() == pytest.approx(index, abs=0.11)


def test_the_estimate_is_null_where_a_text_has_no_minhash() -> None:
    a = _of(_text(20), [], _text(20))["minhash"]
    assert jaccard(a, _of([], [], _text(20))["minhash"]).to_list() == [None, None, 1.0]


def test_equal_texts_are_near_however_short_but_not_texts_without_words() -> None:
    assert _near(["page", "not", "found"], ["Page", "not", "found!"])
    assert not _near(["page", "not", "found"], ["opening", "hours", "today"])
    assert not _near([], [])


def test_long_texts_are_near_if_both_signatures_say_so() -> None:
    words = _text(600)
    assert _near(words, _changed(words, 300))
    assert not _near(words, [*words[:300], *_text(300, 8)])
    assert not _near(words, _text(600, 9))


def test_short_texts_are_near_only_within_three_bits() -> None:
    words = _text(49)
    a, b = _of(words, _changed(words, 0)).rows(named=True)
    bits = distance(pl.Series([a["simhash"]]), pl.Series([b["simhash"]])).item()
    assert _near(words, _changed(words, 0)) == (bits <= 3)
    assert not _near(_text(49), _changed(_text(49), 10, 20, 30, 40))


def test_the_likeness_leans_on_the_minhash_and_a_little_on_the_simhash() -> None:
    frame = pl.DataFrame({"simhash": [0, 0, 0], "minhash": [bytes(512)] * 3})
    other = pl.DataFrame({"simhash": [0, -1, (1 << 10) - 1], "minhash": [bytes(512), bytes(512), b"1" * 512]})
    found = fingerprint.likeness(frame, other).to_list()
    assert found == pytest.approx([1, 0.9 - 0.1 / 3, 0.079], abs=0.001)


def test_fewer_bits_are_the_precise_rule() -> None:
    frame = pl.DataFrame({"token_count": [60], "main_hash": [1], "simhash": [0], "minhash": [bytes(512)]})
    other = frame.with_columns(main_hash=2, simhash=pl.lit((1 << 9) - 1))
    assert near(frame, other).item()
    assert not near(frame, other, bits=fingerprint.BITS_PRECISE).item()


def test_a_short_text_and_a_long_one_are_judged_as_short() -> None:
    short = pl.DataFrame({"token_count": [49], "main_hash": [1], "simhash": [0], "minhash": [bytes(512)]})
    long_ = short.with_columns(token_count=51, main_hash=2, simhash=pl.lit(15))
    assert not near(short, long_).item()
    assert near(short, long_.with_columns(simhash=pl.lit(7))).item()


def test_texts_share_a_band_where_its_eight_values_are_equal() -> None:
    values = np.arange(128, dtype="<u4")
    other = values.copy()
    other[::8] += 1
    other[40] -= 1
    a, b, none = bands(pl.Series([values.tobytes(), other.tobytes(), None])).to_list()
    assert len(set(a)) == 16
    assert [number for number in range(16) if a[number] == b[number]] == [5]
    assert none is None


@given(st.data(), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_the_index_finds_all_that_a_comparison_with_each_finds(data: st.DataObject, k: int) -> None:
    queries = data.draw(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=3))
    flips = st.lists(st.integers(0, 63), max_size=5, unique=True)
    known = [query ^ sum(1 << bit for bit in data.draw(flips)) for query in queries for _ in range(4)]
    expected = {
        (number, place, (one ^ query).bit_count())
        for number, one in enumerate(known)
        for place, query in enumerate(queries)
        if (one ^ query).bit_count() <= k
    }
    assert set(within(_frame(known), _frame(queries), k).rows()) == expected


def _frame(numbers: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"id": range(len(numbers)), "simhash": pl.Series(numbers, dtype=pl.UInt64).reinterpret(signed=True)}
    )


def test_an_empty_index_finds_nothing() -> None:
    assert within(_frame([]), _frame([1])).is_empty()
