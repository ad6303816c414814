"""Maintenance changes what lies on the disk and nothing that anybody sees, whenever it comes and wherever it ends."""

import copy
import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from crawls import ALMOST, NOON, Crawl, Died, DiesAtCommit, dying_after, taking
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline import maintenance
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.lake import Lake, LeaseHeld, RetentionTooShort
from crawl_pipeline.maintenance import Maintained
from crawl_pipeline.standstill import LEASE_S, RENEWALS, renew_until
from crawl_pipeline.testing import site
from tests.effort import times

LEASE_OF_WORKER_S = 120.0


def crawl_of_two(tmp_path: Any, **wanted: Any) -> Crawl:
    crawl = Crawl(tmp_path, site("a.test", pages=10, first_byte_s=0.3), site("c.test", pages=5, crawl_delay_s=3),
                  **wanted)  # fmt: skip
    return crawl.seed("http://a.test/", "http://c.test/")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A crawl with rows of a round that never came to be, finished by another worker."""
    crawl = crawl_of_two(tmp_path_factory.mktemp("finished"))
    die(crawl, lake=DiesAtCommit(crawl, 3))
    crawl.wait(LEASE_OF_WORKER_S)
    crawl.work(name="w2", in_thread=taking(0.3))
    return crawl


@pytest.fixture
def crawl(finished: Crawl, tmp_path: Path) -> Crawl:
    """The same with a lake of one's own."""
    own = copy.copy(finished)
    shutil.copytree(finished.lake.root, tmp_path / "own")
    own.lake = Lake.open(str(tmp_path / "own"))
    return own


def die(crawl: Crawl, **wanted: Any) -> None:
    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(**wanted)
    assert group.value.subgroup(Died)


class NeverReleases:
    """A lake for a maintenance that is killed: what would be done on the way out is not."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def release(self, lease: Any) -> None:
        raise Died


def maintain(crawl: Crawl, lake: Any = None, after_s: float | None = None, **wanted: Any) -> Maintained:
    """Maintain at the crawl's time, or so many seconds after noon."""

    async def now() -> float:
        return (crawl.now - NOON).total_seconds()

    at = NOON + timedelta(seconds=crawl.run(now) if after_s is None else after_s)
    return maintenance.maintain(lake or crawl.lake, clock=lambda: at, **wanted)


def visible(crawl: Crawl) -> dict[str, list[dict[str, Any]]]:
    """All that a reader sees, but for who holds what and where in a table a row lies."""
    return {
        name: crawl.rows(name, *(column for column in table.column_names if column != "layer"))
        .sort(table.key)
        .to_dicts()
        for name, table in TABLES.items()
        if name != "leases"
    }


def test_what_is_seen_is_the_same_before_and_after_and_every_promise_still_holds(crawl):
    before = visible(crawl)

    done = maintain(crawl)

    total = done.figures()["total"]
    assert visible(crawl) == before
    assert total["swept"] == total["rows_before"] - total["rows_after"] - superseded(done) > 0
    assert total["files_after"] < total["files_before"]
    assert not done.passed_over
    crawl.check()


def superseded(done: Maintained) -> int:
    """Rows of state tables that newer ones had replaced."""
    return sum(kept.before.rows - kept.after.rows - kept.swept for kept in done.tables
               if TABLES[kept.table].kind == "state")  # fmt: skip


def test_afterwards_every_stored_row_is_seen(crawl):
    done = maintain(crawl)

    assert {kept.table: kept.after.rows for kept in done.tables} == {name: crawl.rows(name).height for name in TABLES}


def test_a_second_maintenance_finds_nothing_to_do(crawl):
    first, versions = maintain(crawl), crawl.lake.versions()
    second = maintain(crawl)

    assert not first.idle
    assert second.idle
    assert {name for name, version in crawl.lake.versions().items() if version != versions[name]} == {
        "leases", "rounds"
    }  # fmt: skip
    assert [kept.before for kept in second.tables[:-1]] == [kept.after for kept in second.tables[:-1]]


def test_a_crawl_goes_on_after_maintenance_as_if_there_had_been_none(tmp_path):
    crawl = crawl_of_two(tmp_path)
    crawl.work(seconds=8)
    assert maintain(crawl).buckets == (0, 1)
    crawl.work(name="w2")

    assert crawl.stored("a.test") == sorted(["/", *(f"/{n}" for n in range(1, 10))])
    assert crawl.stored("c.test") == sorted(["/", *(f"/{n}" for n in range(1, 5))])
    crawl.check()
    crawl.check_requests()


def test_a_maintenance_killed_before_any_step_leaves_a_lake_that_is_read_and_mended(crawl):
    before, steps, at_s = visible(crawl), [], 3_600.0
    while True:
        reached = len(steps)
        steps.clear()

        def step(name: str, last: int = reached) -> None:
            steps.append(name)
            if len(steps) > last:
                raise Died

        try:
            done = maintain(crawl, NeverReleases(crawl.lake), at_s, tell=step)
        except Died:
            assert visible(crawl) == before
            at_s += LEASE_S + 1
        else:
            raise AssertionError(done)  # it would have released
        if len(steps) == reached:  # it got to its end, and was killed there
            break

    assert len(steps) > 10
    assert maintain(crawl, after_s=at_s).idle
    crawl.check()


def test_a_worker_takes_over_from_a_killed_maintenance(tmp_path):
    crawl = crawl_of_two(tmp_path)
    crawl.work(seconds=8)

    def step(name: str) -> None:
        raise Died

    with pytest.raises(Died):
        maintain(crawl, NeverReleases(crawl.lake), tell=step)
    with pytest.raises(LeaseHeld, match="maintenance-"):
        crawl.work(name="w2")
    crawl.wait(LEASE_S)
    crawl.work(name="w3")

    assert len(crawl.stored("a.test")) == 10
    crawl.check()


def test_a_maintenance_keeps_its_lease_through_a_step_that_takes_longer(crawl):
    at = NOON

    class Minutes(threading.Event):
        """Ten of them pass while a step is under way."""

        def wait(self, timeout: float | None = None) -> bool:
            nonlocal at
            at += timedelta(seconds=LEASE_S / RENEWALS)
            return at > NOON + timedelta(minutes=10)

    lease = crawl.lake.claim([0, 1], "maintenance-x", NOON, LEASE_S)

    renew_until(crawl.lake.root, lease, lambda: at, Minutes())

    assert set(crawl.lake.leases()["deadline_at"]) == {NOON + timedelta(minutes=10, seconds=LEASE_S)}
    crawl.lake.release(lease)


def test_of_two_at_once_the_second_is_told(crawl):
    told = []

    def step(name: str) -> None:
        if not told:
            with pytest.raises(LeaseHeld, match="maintenance-") as refusal:
                maintain(crawl)
            told.append(refusal.value)

    maintain(crawl, tell=step)

    assert told[0].buckets == (0, 1)


def test_buckets_of_a_worker_are_passed_over_and_named_and_its_rows_stay(tmp_path):
    crawl = crawl_of_two(tmp_path, buckets=8)
    crawl.work(seconds=8)
    busy = crawl.lake.scan("hosts").filter(host="c.test").collect()["bucket"].item()
    seen = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(working)
            await trio.sleep(5)
            at = crawl.now
            seen.append(maintenance.maintain(crawl.lake, clock=lambda: at))

    async def working() -> None:
        await crawl.worker(name="busy", buckets=[busy], in_thread=taking(0.3))

    crawl.run(main)
    (done,) = seen

    assert [(over.bucket, over.worker) for over in done.passed_over] == [(busy, "busy")]
    assert set(done.buckets) == set(range(8)) - {busy}
    crawl.work(name="w3")
    crawl.check()
    crawl.check_requests()


def test_where_no_bucket_is_free_old_files_are_still_looked_for(tmp_path):
    crawl = crawl_of_two(tmp_path)
    crawl.lake.claim([0, 1], "busy", NOON, 600)
    steps = []

    done = maintain(crawl, after_s=60, tell=steps.append)

    assert done.buckets == ()
    assert [over.worker for over in done.passed_over] == ["busy", "busy"]
    steps.remove("clusters: fold")  # which is nobody's to lease
    assert {step.partition(": ")[2] for step in steps} == {"delete old files", "trim the log"}


def test_buckets_that_a_vanished_worker_left_wait_for_a_worker_so_that_hosts_rest_from_the_end_of_its_lease(tmp_path):
    crawl = crawl_of_two(tmp_path)
    die(crawl, tell=dying_after(3))
    asked = len(crawl.web.log)
    until_s = max((at - NOON).total_seconds() for at in crawl.lake.leases()["deadline_at"].drop_nulls())

    crawl.wait(LEASE_OF_WORKER_S)
    done = maintain(crawl)
    crawl.work(name="w2")

    assert [over.bucket for over in done.passed_over] == [0, 1]
    later, began = crawl.web.log[asked:], crawl.web.log[0].started
    assert min(row.started for row in later if row.host == "c.test") - began >= until_s + 3 - ALMOST
    assert maintain(crawl).buckets == (0, 1)


def test_a_retention_of_less_than_a_week_is_refused_before_anything_is_done(crawl):
    versions = crawl.lake.versions()

    with pytest.raises(RetentionTooShort, match="found 24"):
        maintain(crawl, hours=24)
    assert crawl.lake.versions() == versions


@settings(max_examples=times(1, 6))
@given(spells=st.lists(st.tuples(st.floats(1, 12), st.sampled_from(["ends", "dies"])), min_size=1, max_size=2))
def test_maintenance_after_every_worker_changes_no_row_that_is_seen(tmp_path_factory, spells):
    crawl = crawl_of_two(tmp_path_factory.mktemp("spells"))
    for number, (seconds, end) in enumerate(spells):
        if end == "dies":
            die(crawl, lake=DiesAtCommit(crawl, 2), name=f"w{number}")
        else:
            crawl.work(seconds, name=f"w{number}", in_thread=taking(0.3))
        crawl.wait(LEASE_OF_WORKER_S)
        before = visible(crawl)
        maintain(crawl)
        assert visible(crawl) == before
    crawl.work(name="last")
    assert len(crawl.stored("a.test")) == 10
    maintain(crawl)
    crawl.check()
