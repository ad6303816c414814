"""State tables: the newest committed row of a key is seen, before and after folds, whatever crashed."""

import shutil
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lake_rows import NOON, done, statuses, urls

from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.lake.folding import Due, due_buckets
from tests.effort import times


def rounds(lake: Lake, lease: Lease, *changes: dict[int, str]) -> Lease:
    """Commit one round per change in bucket 0; give the lease of the round after."""
    for change in changes:
        lake.write(lease, "frontier", urls(0, change))
        lake.commit(lease, done(lease))
        lease = lake.renew(lease, NOON, 60)
    return lease


def test_the_newest_row_of_a_key_is_seen(lake: Lake) -> None:
    rounds(lake, lake.claim([0], "w", NOON, 60), {1: "new", 2: "new"}, {1: "fetched"}, {1: "gone", 3: "new"})

    assert statuses(lake) == {1: "gone", 2: "new", 3: "new"}


@pytest.mark.parametrize("folded", [False, True])
def test_where_does_not_bring_back_a_superseded_row(lake: Lake, folded: bool) -> None:
    lease = rounds(lake, lake.claim([0], "w", NOON, 60), {1: "new", 2: "new", 3: "new"})
    if folded:
        assert lake.fold(lease, "frontier", least=1) == (0,)
    rounds(lake, lease, {1: "fetched", 4: "new"})

    assert statuses(lake, where=pl.col("status") == "new") == {2: "new", 3: "new", 4: "new"}
    assert statuses(lake, where=pl.col("status") == "fetched", buckets=[0]) == {1: "fetched"}
    assert statuses(lake, buckets=[1]) == {}


def test_a_filter_on_the_scan_equals_where(lake: Lake) -> None:
    lease = rounds(lake, lake.claim([0], "w", NOON, 60), {1: "new", 2: "new", 3: "new"})
    lake.fold(lease, "frontier", least=1)
    rounds(lake, lease, {1: "fetched"})

    seen = lake.scan("frontier").filter(pl.col("status") == "new").collect()["url_hash"].sort().to_list()
    assert seen == [2, 3]


def test_a_fold_leaves_a_sorted_base_and_no_tail(lake: Lake) -> None:
    lease = rounds(lake, lake.claim([0], "w", NOON, 60), dict.fromkeys(range(9, 0, -1), "new"), {4: "fetched"})
    before = statuses(lake)
    lake.fold(lease, "frontier", least=1)

    stored = lake.scan("frontier").collect()
    assert statuses(lake) == before
    assert stored["layer"].unique().to_list() == ["base"]
    assert stored.equals(stored.sort("host", "url"))
    assert len(lake.files("frontier")) == 1


def test_a_fold_lays_together_what_falls_due_on_one_day(lake: Lake) -> None:
    days = {1: 2, 2: None, 3: 0, 4: 2, 5: 1, 6: 0}
    at = [None if days[key] is None else NOON + timedelta(days=days[key], hours=key) for key in sorted(days)]
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "frontier", urls(0, dict.fromkeys(days, "new")).with_columns(
        due_at=pl.Series(at, dtype=pl.Datetime("us", "UTC")), host=pl.lit("h.test")))  # fmt: skip
    lake.commit(lease, done(lease))
    lake.fold(lake.renew(lease, NOON, 60), "frontier", least=1)

    assert lake.scan("frontier").collect()["url_hash"].to_list() == [3, 6, 5, 1, 4, 2]


def test_a_fold_keeps_rows_of_the_round_that_is_being_written(lake: Lake) -> None:
    lease = rounds(lake, lake.claim([0], "w", NOON, 60), {1: "new"})
    lake.write(lease, "frontier", urls(0, {1: "fetched"}))
    lake.fold(lease, "frontier", least=1)
    unseen = statuses(lake)
    lake.commit(lease, done(lease))

    assert (unseen, statuses(lake)) == ({1: "new"}, {1: "fetched"})


def test_a_fold_of_one_bucket_leaves_others_alone(lake: Lake) -> None:
    lease = rounds(lake, lake.claim([0], "w", NOON, 60), {1: "new"})
    other = lake.claim([1], "v", NOON, 60)
    lake.write(other, "frontier", urls(1, {2: "new"}))
    lake.fold(lease, "frontier", least=1)
    lake.commit(other, done(other))

    assert statuses(lake) == {1: "new", 2: "new"}


@pytest.mark.parametrize(
    ("base", "tails", "expected"),
    [
        (100, [25], ()),
        (100, [26], (0,)),
        (100, [1] * 20, ()),
        (100, [1] * 21, (0,)),
        (100, [], ()),
        (20, [10], (0,)),
        (20, [9], ()),
        (0, [10], (0,)),
    ],
)
def test_a_bucket_is_due_by_the_share_or_the_number_of_its_tail(
    base: int, tails: list[int], expected: tuple[int, ...]
) -> None:
    layers = [("base", base, 1)] * (base > 0) + [("tail", rows, 2 + at) for at, rows in enumerate(tails)]
    live = pl.DataFrame(
        [(0, *layer) for layer in layers], schema=["bucket", "layer", "rows", "min_round"], orient="row"
    )

    assert due_buckets(live, (0, 1), Due(share=0.25, rounds=20, least=10)) == expected


def test_two_folds_at_the_same_time_of_different_buckets_both_stand(lake: Lake) -> None:
    leases = [lake.claim([bucket], f"w{bucket}", NOON, 60) for bucket in range(4)]
    for bucket, lease in enumerate(leases):
        lake.write(lease, "frontier", urls(bucket, {bucket: "new"}))
        lake.commit(lease, done(lease))
    threads = [
        threading.Thread(target=lambda lease=lease: Lake.open(lake.root).fold(lease, "frontier", least=1))
        for lease in leases
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses(lake) == dict.fromkeys(range(4), "new")
    assert lake.scan("frontier").collect()["layer"].unique().to_list() == ["base"]


KEYS = st.dictionaries(st.integers(0, 5), st.sampled_from(["new", "fetched", "gone"]), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), KEYS, KEYS),
        st.tuples(st.just("commit one"), KEYS, KEYS),  # the round of the second bucket failed
        st.tuples(st.just("crash"), KEYS, KEYS),  # written, not committed; somebody else takes over
        st.tuples(st.just("renew"), KEYS, KEYS),  # written, not committed; the holder goes on
        st.tuples(st.just("fold")),
    ),
    min_size=3,
    max_size=9,
)


@settings(
    max_examples=times(6, 30),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_any_sequence_of_rounds_crashes_and_folds_shows_what_a_dict_would_hold(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
    lake, model, now = Lake.create(str(folder), 2), {}, NOON
    lease = lake.claim([0, 1], "w", now, 60)
    for step, *rows in steps:
        if step == "fold":
            lake.fold(lease, "frontier", share=0.5, rounds=2, least=2)
        else:
            first, second = (
                {key + 10 * at: status for key, status in change.items()} for at, change in enumerate(rows)
            )
            lake.write(lease, "frontier", pl.concat([urls(0, first), urls(1, second)]))
            if step in ("commit", "commit one"):
                lake.commit(lease, done(lease, [0, 1] if step == "commit" else [0]))
                model |= first | (second if step == "commit" else {})
            if step == "crash":
                now += timedelta(seconds=61)
                lease = lake.claim([0, 1], "heir", now, 60)
            else:
                lease = lake.renew(lease, now, 60)
        assert statuses(lake) == model
        news = {key: status for key, status in model.items() if status == "new"}
        assert statuses(lake, where=pl.col("status") == "new") == news
    shutil.rmtree(folder)
