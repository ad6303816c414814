"""Tier one of the seen set: what it says no to is new, it is wrong as seldom as promised, spoilt bytes are refused."""

import subprocess
import sys
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.seen import FULL, Filter, State, Unusable, pack, unpack
from crawl_pipeline.core.urls import url_hash

STATE = State("lake-1", 4, 2, 17, 3, "w")
RATE = 0.001
HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200)


def pages(first: int, last: int) -> pl.Series:
    return pl.Series([url_hash(f"https://h.test/{number}") for number in range(first, last)], dtype=pl.Int64)


@given(HASHES, HASHES)
def test_what_was_put_in_is_never_ruled_out(first: list[int], then: list[int]) -> None:
    made = Filter.of(pl.Series(first, dtype=pl.Int64), RATE)
    made.add(pl.Series(then, dtype=pl.Int64))

    back, _ = unpack(pack(made, STATE), STATE, RATE)
    assert made.maybe(pl.Series(first + then, dtype=pl.Int64)).all()
    assert back.maybe(pl.Series(first + then, dtype=pl.Int64)).all()


def test_until_it_is_full_it_is_wrong_at_most_twice_as_often_as_promised() -> None:
    made = Filter.of(pages(0, 64_000), RATE)
    assert not made.full
    made.add(pages(64_000, 80_200))

    assert made.full
    assert made.maybe(pages(1_000_000, 1_200_000)).mean() <= 2 * RATE  # type: ignore[operator]


def test_it_takes_eighteen_bits_a_url_when_made_and_fourteen_when_full() -> None:
    made = Filter.of(pages(0, 64_000), RATE)
    assert made.bits / made.count == pytest.approx(18, abs=0.1)
    assert made.bits / (FULL * made.room) == pytest.approx(14.4, abs=0.1)


def test_urls_that_are_added_again_do_not_fill_it() -> None:
    made = Filter.of(pages(0, 2_000), RATE)
    made.add(pages(0, 2_000))

    assert made.count == 2_000


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda found: b"", "no filter"),
        (lambda found: b"something else altogether", "no filter"),
        (lambda found: found[:-1], "checksum"),
        (lambda found: found[: len(found) // 2], "checksum"),
        (lambda found: found[:200] + bytes([found[200] ^ 1]) + found[201:], "checksum"),
        (lambda found: found.replace(b'"round": 17', b'"round": 18'), "checksum"),
    ],
)
def test_spoilt_bytes_are_refused(spoil: object, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        unpack(spoil(pack(Filter.of(pages(0, 900), RATE), STATE)), STATE, RATE)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"lake": "lake-2"}, "another lake"), ({"buckets": 8}, "another bucket count"), ({"bucket": 3}, "another bucket")],
)
def test_a_filter_of_something_else_is_refused(other: dict[str, object], reason: str) -> None:
    kept = pack(Filter.of(pages(0, 9), RATE), STATE)
    with pytest.raises(Unusable, match=reason):
        unpack(kept, replace(STATE, **other), RATE)  # type: ignore[arg-type]
    with pytest.raises(Unusable, match="rate"):
        unpack(kept, STATE, 0.01)
    assert unpack(kept, replace(STATE, round=0, epoch=0, worker=""), RATE)[1] == STATE


def test_another_process_makes_the_very_same_filter() -> None:
    code = (
        "import sys, polars as pl; from crawl_pipeline.core.seen import *;"
        "from crawl_pipeline.core.urls import url_hash;"
        "made = Filter.of(pl.Series([url_hash(f'https://h.test/{n}') for n in range(500)]), 0.001);"
        "sys.stdout.buffer.write(pack(made, State('lake-1', 4, 2, 17, 3, 'w')))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    assert other == pack(Filter.of(pages(0, 500), RATE), STATE)
