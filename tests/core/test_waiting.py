"""Which buckets have work waiting, and how it is shared out."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import LEASES, ORDERS, ROUNDS
from crawl_pipeline.core.waiting import LAST, Group, Waiting, groups, look, oldest_unread

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def last(
    bucket: int, round_: int = 9, ago: timedelta = MINUTE, seen: tuple[int, ...] = (0, 0, 0, 0), **facts: object
) -> dict[str, object]:
    """The newest round of a bucket in a lake of four."""
    return {"bucket": bucket, "round": round_, "ended_at": NOW - ago, "due_count": 0, "left_out": [],
            "links_seen": list(seen), "orders_seen": -1, **facts}  # fmt: skip


def seen(
    *rounds: dict[str, object], written: tuple[dict[str, object], ...] = (), orders: Mapping[int, str] | None = None,
    held: Mapping[int, datetime] | None = None, about: str = "host",
) -> Waiting:  # fmt: skip
    leases = [{"bucket": b, "released": b not in (held or {}), "deadline_at": (held or {}).get(b)} for b in range(4)]
    given = [{"order": order, about: name} for order, name in (orders or {}).items()]
    newest = ROUNDS.frame(list(rounds)).select(LAST)
    return look(newest, ROUNDS.frame(list(written)), ORDERS.frame(given), LEASES.frame(leases), NOW)


def test_a_bucket_with_due_urls_has_work():
    assert seen(last(0), last(1, due_count=7)).work == {1: 7}


def test_a_bucket_whose_next_url_fell_due_since_has_work():
    assert seen(last(2, next_due_at=NOW - MINUTE / 2)).work == {2: 1}


def test_a_bucket_whose_next_url_falls_due_later_has_none_and_says_when():
    found = seen(last(2, next_due_at=NOW + MINUTE), last(3, next_due_at=NOW + 2 * MINUTE))

    assert (found.work, found.next_at) == ({}, NOW + MINUTE)


@pytest.mark.parametrize("reason", ["host paused", "blocked by block.hosts", "blocked by block.urls"])
def test_what_a_person_holds_back_is_no_work(reason):
    assert seen(last(0, ago=timedelta(days=9), due_count=5, left_out=[{"name": reason, "count": 5}])).work == {}


def test_urls_whose_hosts_wait_are_work_again_after_a_while():
    waits = {"due_count": 5, "left_out": [{"name": "host waits", "count": 4}]}

    assert seen(last(0, ago=9 * MINUTE, **waits)).work == {0: 1}
    assert seen(last(0, ago=10 * MINUTE, **waits)).work == {0: 5}


def test_links_that_a_bucket_has_not_read_are_its_work():
    written = ({"bucket": 0, "round": 4, "links_to": [0, 9, 0, 0]}, {"bucket": 0, "round": 5, "links_to": [0, 3, 2, 0]})

    assert seen(last(0, seen=(5, 5, 5, 5)), last(1, seen=(4, 0, 0, 0)), written=written).work == {1: 3, 2: 2}


def test_links_from_one_source_are_not_taken_for_read_because_another_is_ahead():
    written = ({"bucket": 2, "round": 5, "links_to": [0, 3, 0, 0]},)

    assert seen(last(1, seen=(8, 8, 4, 8)), written=written).work == {1: 3}


def test_orders_are_work_for_the_bucket_of_their_host_until_it_has_applied_them():
    bucket = urls.bucket("a.test", 4)

    assert seen(orders={3: "a.test"}).work == {bucket: 1}
    assert seen(orders={3: "a.test"}, about="site").work == {bucket: 1}
    assert seen(last(bucket, orders_seen=3), orders={3: "a.test"}).work == {}


def test_buckets_under_a_running_lease_are_leased_and_those_whose_lease_ran_out_are_not():
    assert seen(held={1: NOW + MINUTE, 2: NOW - MINUTE}).leased == {1}


def test_all_rounds_are_unread_while_a_bucket_has_never_looked():
    rows = [last(b, seen=(5, 6, 7, 8)) for b in range(4)]

    assert oldest_unread(ROUNDS.frame(rows), 4) == 5
    assert oldest_unread(ROUNDS.frame(rows[1:]), 4) == 0


def shared(work: dict[int, int], runs: int, leased: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    made = groups(Waiting(work, frozenset(leased), None, {}), runs)
    return sorted((group.first, group.last) for group in made)


def test_work_is_shared_evenly_between_runs():
    assert shared({0: 10, 1: 1, 2: 1, 3: 8}, 2) == [(0, 0), (1, 3)]


def test_a_run_spans_buckets_without_work():
    assert shared({0: 5, 9: 5}, 1) == [(0, 9)]


def test_no_run_spans_or_holds_a_leased_bucket():
    assert shared({0: 5, 4: 5, 5: 9, 9: 5}, 4, leased=(2, 5)) == [(0, 0), (4, 4), (9, 9)]


def test_where_leases_leave_more_groups_than_runs_the_lightest_wait():
    assert groups(Waiting({0: 5, 2: 9, 4: 7}, frozenset({1, 3}), None, {}), 2) == [Group(2, 2, 9), Group(4, 4, 7)]


def test_no_work_makes_no_groups():
    assert shared({1: 5}, 2, leased=(1,)) == []


def test_every_free_bucket_with_work_is_in_exactly_one_group_whatever_the_shares():
    work = {bucket: (bucket * 7919) % 101 + 1 for bucket in range(64)}
    for runs in range(1, 65):
        made = groups(Waiting(work, frozenset(), None, {}), runs)
        held = [bucket for group in made for bucket in range(group.first, group.last + 1)]

        assert len(made) <= runs
        assert sorted(held) == sorted(work)


def test_a_lake_without_rounds_and_orders_has_no_work():
    assert seen() == Waiting({}, frozenset(), None, {})


def test_rows_of_rounds_come_with_the_declared_columns():
    assert set(LAST) <= set(ROUNDS.schema)
    assert isinstance(ROUNDS.schema["links_to"], pl.List)
