"""Rows of given URLs: the look-up by key gives what filtering every row gives, whatever lies where."""

from datetime import timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lake_rows import NOON, done, links, statuses, urls

from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.delta import ROW_GROUP
from crawl_pipeline.lake.keyed import blocks


@pytest.mark.parametrize("folded", [False, True])
def test_rows_of_given_urls_are_the_newest_ones(lake: Lake, folded: bool) -> None:
    lease = lake.claim([0, 1], "w", NOON, 60)
    for change in ({1: "new", 2: "new", 3: "new"}, {1: "fetched"}, {3: "gone", 4: "new"}):
        lake.write(lease, "frontier", pl.concat([urls(0, change), urls(1, {11: "new"})]))
        lake.commit(lease, done(lease))
        lease = lake.renew(lease, NOON, 60)
        if folded:
            lake.fold(lease, "frontier", least=1)
    lake.write(lease, "frontier", urls(0, {2: "of a round that is not committed"}))

    asked = pl.Series([1, 3, 4, 11, 11, 77])
    assert statuses(lake, url_hashes=asked) == {1: "fetched", 3: "gone", 4: "new", 11: "new"}
    assert statuses(lake, url_hashes=asked, buckets=[0]) == {1: "fetched", 3: "gone", 4: "new"}
    assert statuses(lake, url_hashes=asked, where=pl.col("status") == "new") == {4: "new", 11: "new"}
    assert statuses(lake, url_hashes=pl.Series([1, 2, 3]), where=pl.col("status") == "new") == {2: "new"}
    assert statuses(lake, url_hashes=pl.Series([], dtype=pl.Int64)) == {}


def test_rows_of_given_urls_of_a_log_are_those_of_committed_rounds(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "links", links(0, 3, [1, 2, 3]))
    lake.commit(lease, done(lease))
    lease = lake.renew(lease, NOON, 60)
    lake.write(lease, "links", links(0, 3, [2]))

    found = lake.scan("links", url_hashes=pl.Series([2, 3, 9])).select("url_hash").collect()
    assert sorted(found["url_hash"]) == [2, 3]


def test_a_base_of_many_row_groups_gives_the_rows_asked_for(lake: Lake) -> None:
    count = 2 * ROW_GROUP + 10
    rows = FRONTIER.frame(
        pl.DataFrame({"url_hash": np.arange(count), "bucket": 0, "host": "h.test"}).with_columns(
            url=pl.col("url_hash").cast(str), due_at=pl.lit(NOON) + pl.duration(days=pl.col("url_hash") // 50_000)
        )
    )
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "frontier", rows.drop("round", "layer"))
    lake.commit(lease, done(lease))
    lake.fold(lake.renew(lease, NOON, 60), "frontier", least=1)

    asked = pl.Series([0, 1, 49_999, 50_000, ROW_GROUP, count - 1, count])
    found = lake.scan("frontier", url_hashes=asked).collect()
    assert sorted(found["url_hash"]) == asked.to_list()[:-1]
    assert found.schema == FRONTIER.schema
    later = lake.scan("frontier", url_hashes=asked, where=pl.col("due_at") >= NOON + timedelta(days=1)).collect()
    assert sorted(later["url_hash"]) == [50_000, ROW_GROUP, count - 1]


@given(st.lists(st.integers(1, 3 * ROW_GROUP), min_size=1, max_size=5), st.data())
def test_blocks_hold_every_place_once(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    places = sorted(data.draw(st.sets(st.integers(0, total - 1), max_size=20)))

    found = blocks(pl.Series(places, dtype=pl.UInt32), pl.Series(sizes))

    assert all(first >= 0 and first + length <= total for first, length in found)
    assert all(a + n <= b for (a, n), (b, _) in pairwise(found))
    assert [p for p in places if any(first <= p < first + length for first, length in found)] == places
    assert sum(length for _, length in found) <= (2 * len(places)) * ROW_GROUP
