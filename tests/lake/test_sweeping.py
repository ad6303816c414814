"""Rows that nobody will ever see are deleted; rows that somebody may yet commit are not; old files go after a week."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lake_rows import NOON, done, hosts, links, statuses, urls

from crawl_pipeline.lake import Lake, Lease, LeaseHeld, LeaseLost, RetentionTooShort
from tests.effort import times

DAY_S = 86_400


def crash(lake: Lake, buckets: list[int], key: int) -> Lease:
    """Write a round and never commit it."""
    lease = lake.claim(buckets, "dies", NOON, 60)
    write(lake, lease, key)
    return lease


def write(lake: Lake, lease: Lease, key: int) -> None:
    lake.write(lease, "links", pl.concat(links(bucket, 7 - bucket, [key]) for bucket in lease.buckets))
    lake.write(lease, "frontier", pl.concat(urls(bucket, {10 * key + bucket: "new"}) for bucket in lease.buckets))


def stored(lake: Lake, table: str) -> int:
    return lake.size(table).rows


def seen(lake: Lake) -> set[tuple[int, int, int]]:
    return set(lake.scan("links").select("source_bucket", "round", "url_hash").collect().iter_rows())


# Which rows.


def test_rows_of_a_round_that_never_committed_go_once_its_buckets_are_leased_again(lake: Lake) -> None:
    crash(lake, [0, 1], 1)
    after = NOON + timedelta(seconds=61)
    lease = lake.claim([0, 1], "next", after, 60)

    assert {table: lake.sweep(lease, table) for table in ("links", "frontier")} == {"links": 2, "frontier": 2}
    assert (stored(lake, "links"), stored(lake, "frontier")) == (0, 0)
    assert {table: lake.sweep(lease, table) for table in ("links", "frontier")} == {"links": 0, "frontier": 0}


def test_committed_rows_beside_them_stay(lake: Lake) -> None:
    lease = lake.claim([0, 1], "dies", NOON, 60)
    write(lake, lease, 1)
    lake.commit(lease, done(lease, [0]))  # of bucket 1 the round failed
    lake.release(lease)
    before = seen(lake), statuses(lake)
    lease = lake.claim([0, 1], "next", NOON, 60)

    assert lake.sweep(lease, "links") == lake.sweep(lease, "frontier") == 1
    assert (seen(lake), statuses(lake)) == before
    assert stored(lake, "links") == stored(lake, "frontier") == 1


def test_rows_of_several_rounds_in_one_file_are_told_apart(lake: Lake) -> None:
    crash(lake, [0], 1)
    now = NOON
    for key in range(2, 7):
        now += timedelta(seconds=61)
        lease = lake.claim([0, 1], "w", now, 60)
        write(lake, lease, key)
        if key % 2:
            lake.commit(lease, done(lease))
    assert lake.tidy("links", files=1)
    before = seen(lake)
    lease = lake.claim([0, 1], "next", now + timedelta(seconds=61), 60)

    assert lake.sweep(lease, "links") == 1 + 3 * 2
    assert seen(lake) == before
    assert stored(lake, "links") == len(before) == 4


def test_a_live_worker_s_rows_stay_and_can_be_committed(lake: Lake) -> None:
    crash(lake, [2], 1)
    alive = lake.claim([0, 1], "alive", NOON, 600)
    write(lake, alive, 2)
    for key in range(3):  # so that all rows share a file, and the round numbers go on
        other = lake.claim([3], "w", NOON, 60)
        write(lake, other, 3 + key)
        lake.commit(other, done(other))
        lake.release(other)
    lake.tidy("links", files=1)
    lease = lake.claim(range(2, 8), "next", NOON + timedelta(seconds=61), 60)

    assert lake.sweep(lease, "links") == lake.sweep(lease, "frontier") == 1
    lake.commit(alive, done(alive))
    assert {(bucket, key) for bucket, _, key in seen(lake)} >= {(0, 2), (1, 2)}
    assert statuses(lake, buckets=[0, 1]) == {20: "new", 21: "new"}


def test_rows_of_whoever_took_over_meanwhile_stay(lake: Lake) -> None:
    crash(lake, [0], 1)
    late = lake.claim([0], "late", NOON + timedelta(seconds=61), 60)
    alive = lake.claim([0], "alive", NOON + timedelta(seconds=122), 60)
    write(lake, alive, 2)
    other = lake.claim([1], "w", NOON, 60)
    write(lake, other, 3)
    assert lake.tidy("links", files=1)  # the rows of both rounds of bucket 0 share a file

    assert lake.sweep(late, "links") == 1
    lake.commit(alive, done(alive))
    assert seen(lake) == {(0, alive.round, 2)}


def test_tables_without_rows_of_rounds_are_refused(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)

    for table in ("orders", "leases", "rounds"):
        with pytest.raises(ValueError, match=f"found {table!r}"):
            lake.sweep(lease, table)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "commit", "commit", "renew", "release", "wait", "sweep", "tidy"]),
        st.integers(0, 5),
    ),
    min_size=10,
    max_size=20,
)


@settings(max_examples=times(8, 50))
@given(steps=STEPS)
def test_whatever_is_committed_is_there_however_workers_are_late_and_sweeps_fall(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    crawl = _Workers(Lake.create(str(tmp_path_factory.mktemp("sweeps") / "lake"), 2))
    for step, chance in [*steps, ("wait", 1), ("sweep", 0), ("commit", 0), ("commit", 0)]:
        getattr(crawl, step)(chance)

        assert seen(crawl.lake) == crawl.committed


class _Workers:
    """Workers that may all be late, and what must be seen of their work."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.now = lake, NOON
        self.leases: list[Lease] = []
        self.pending: set[tuple[int, int]] = set()
        self.committed: set[tuple[int, int, int]] = set()

    def claim(self, chance: int) -> None:
        with suppress(LeaseHeld):
            lease = self.lake.claim(([0], [1], [0, 1])[chance % 3], f"w{len(self.pending)}", self.now, 60)
            self.leases.append(self._write(lease))

    def _write(self, lease: Lease) -> Lease:
        """Every lease has rows of its round, not committed yet."""
        self.lake.write(lease, "links", pl.concat(links(bucket, 0, [lease.round]) for bucket in lease.buckets))
        self.pending |= {(bucket, lease.round) for bucket in lease.buckets}
        return lease

    def commit(self, chance: int) -> None:
        def commit(lease: Lease) -> Lease:
            self.lake.commit(lease, done(lease))
            self.committed |= {(b, r, r) for b, r in self.pending if r == lease.round}
            return self._write(self.lake.renew(lease, self.now, 60))

        self._with(chance, commit)

    def renew(self, chance: int) -> None:
        self._with(chance, lambda lease: self._write(self.lake.renew(lease, self.now, 60)))

    def release(self, chance: int) -> None:
        self._with(chance, self.lake.release)

    def _with(self, chance: int, step: Callable[[Lease], Lease | None]) -> None:
        """One of the leases, held or lost, does something; one that is told drops out."""
        if self.leases:
            lease = self.leases.pop(chance % len(self.leases))
            try:
                after = step(lease)
            except LeaseLost:
                return
            self.leases += [after] if after else []

    def wait(self, chance: int) -> None:
        self.now += timedelta(seconds=61 * (chance % 2))

    def sweep(self, chance: int) -> None:
        try:
            lease = self.lake.claim([0, 1], "sweeper", self.now, 60, skip_held=True)
        except LeaseHeld:
            return
        self.lake.sweep(lease, "links")
        self.lake.release(lease)

    def tidy(self, chance: int) -> None:
        self.lake.tidy("links", files=1)


# Old files and old logs. What is a month old in these tests has been made so: times in the log, and of the files.


def age(lake: Lake, table: str, days: int) -> None:
    """Make all that was done to a table until now so many days older (but for tombstones in checkpoints)."""
    log = Path(lake.root, table, "_delta_log")
    for path in log.glob("*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for action in (action for line in lines for action in line.values()):
            for name in {"timestamp", "deletionTimestamp"} & set(action):
                action[name] -= days * DAY_S * 1000
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in Path(lake.root, table).rglob("*.*"):
        os.utime(path, (time.time() - days * DAY_S,) * 2)


def on_disk(lake: Lake, table: str) -> int:
    return len([path for path in Path(lake.root, table).rglob("*.parquet") if "_delta_log" not in path.parts])


def folded(lake: Lake) -> Lease:
    """Some rounds of bucket 0, folded into one file."""
    lease = lake.claim([0], "w", NOON, 60)
    for key in range(3):
        lake.write(lease, "frontier", urls(0, {key: "new"}))
        lake.commit(lease, done(lease))
        lease = lake.renew(lease, NOON, 60)
    assert lake.fold(lease, "frontier", least=1) == (0,)
    return lease


@pytest.mark.parametrize("checkpoint", [False, True])
def test_files_that_were_replaced_a_week_ago_are_deleted_even_if_a_checkpoint_forgot_them(
    lake: Lake, checkpoint: bool
) -> None:
    folded(lake)
    age(lake, "frontier", 8)
    if checkpoint:
        lake._tables["frontier"].checkpoint()

    assert on_disk(lake, "frontier") == 4
    assert lake.vacuum("frontier") == 3
    assert (on_disk(lake, "frontier"), len(statuses(lake))) == (1, 3)
    assert lake.vacuum("frontier") == 0


def test_old_files_that_were_replaced_within_the_week_stay_for_readers_under_way(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "frontier", urls(0, {1: "new"}))
    lake.commit(lease, done(lease))
    age(lake, "frontier", 30)
    at = lake.versions()
    lake.fold(lake.renew(lease, NOON, 60), "frontier", least=1)

    assert lake.vacuum("frontier") == 0
    assert statuses(lake, at=at) == {1: "new"}


def test_files_that_no_commit_ever_named_go_after_a_week_and_not_before(lake: Lake) -> None:
    folded(lake)
    for name, days in (("old", 8), ("young", 6)):
        stray = Path(lake.root, "frontier", "bucket=0", f"{name}.parquet")
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"")
        os.utime(stray, (time.time() - days * DAY_S,) * 2)

    assert lake.vacuum("frontier") == 1
    assert [path.stem for path in Path(lake.root, "frontier").rglob("*.parquet") if path.stem in ("old", "young")] == [
        "young"
    ]


def test_a_retention_of_less_than_a_week_is_refused(lake: Lake) -> None:
    with pytest.raises(RetentionTooShort, match="at least 168 hours"):
        lake.vacuum("frontier", 167)


def test_every_version_of_the_last_month_can_be_read_after_the_log_was_trimmed(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)

    def write_often(count: int) -> list[int]:
        nonlocal lease
        found = []
        for _ in range(count):
            lake.write(lease, "hosts", hosts(0, ["a.test"]))
            lease = lake.renew(lease, NOON, 60)
            found.append(lake.versions()["hosts"])
        return found

    log = Path(lake.root, "hosts", "_delta_log")
    old = write_often(30)  # a checkpoint falls among them, at 19 or 20
    age(lake, "hosts", 40)
    young = write_often(5)
    lake.trim_log("hosts")

    assert len(list(log.glob("*.json"))) < len(old)
    assert [len(lake.files("hosts", at)) for at in young] == young
    lake.trim_log("hosts")
    assert lake.size("hosts").rows == Lake.open(lake.root).size("hosts").rows == 35
    lake.write(lease, "hosts", hosts(0, ["b.test"]))
    assert lake.size("hosts").rows == 36
