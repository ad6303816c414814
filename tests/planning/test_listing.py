"""The list that a round starts from: whole rows of the chosen URLs, and when to look again if there are none."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from crawl_pipeline.core import robots, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, HOSTS, ROUNDS
from crawl_pipeline.fetch.visits import RobotsAnswer
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.lake.folding import Shape
from crawl_pipeline.planning import listing
from crawl_pipeline.planning.sight import Sight
from tests.effort import long

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POLICY = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"}})
NEAR, FAR, FURTHEST = timedelta(minutes=20), timedelta(hours=20), timedelta(days=40)
BUCKETS = [0, 1, 2, 3]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(str(tmp_path / "lake"), 4)


def url(name: str, bucket: int, due_at: datetime | None) -> dict[str, object]:
    page = f"https://h.test/{name}"
    return {"bucket": bucket, "url": page, "url_hash": urls.url_hash(page), "host": "h.test", "status": "waiting",
            "band": 1, "depth": 3, "tag": name, "due_at": due_at, "attempts": 0}  # fmt: skip


def committed(lake: Lake, rounds: list[list[dict[str, object]]], *, folded: bool) -> Lease:
    """Commit so many rounds, and give the lease of the one after."""
    lease = lake.claim(BUCKETS, "w", NOON, 600)
    for rows in rounds:
        lake.write(lease, "frontier", FRONTIER.frame(rows).drop("round", "layer"))
        lake.commit(lease, ROUNDS.frame([{"bucket": bucket} for bucket in lease.buckets]).drop("round"))
        lease = lake.renew(lease, NOON, 600)
    if folded:
        lake.fold(lease, "frontier", least=1)
    return lease


def sight_of(lake: Lake, lease: Lease) -> Sight:
    return Sight(lake, lease, lake.versions(), NOON)


@pytest.mark.parametrize("folded", [False, True])
def test_the_next_due_date_is_found_however_far_it_is(lake: Lake, folded: bool) -> None:
    dates = {"a": NOON + NEAR, "b": NOON + FAR, "c": NOON + FURTHEST}
    rows = [url(name, bucket, at) for bucket, (name, at) in enumerate(dates.items())]
    later = [url(f"{row['tag']}-later", int(str(row["bucket"])), NOON + 2 * FURTHEST) for row in rows]
    lease = committed(lake, [[*later, *rows, url("never", 3, None)]], folded=folded)

    found = listing.next_due(sight_of(lake, lease), FRONTIER.empty())

    assert found == dict(enumerate(dates.values()))


def test_a_bucket_with_something_to_ask_is_not_looked_through_for_later_dates(lake: Lake) -> None:
    lease = committed(lake, [[url("a", 0, NOON + NEAR), url("b", 1, NOON + NEAR)]], folded=False)

    assert listing.next_due(sight_of(lake, lease), FRONTIER.frame([url("now", 0, NOON)])) == {1: NOON + NEAR}


@pytest.mark.parametrize("folded", [False, True])
def test_the_list_holds_the_newest_whole_row_of_each_url_stored_or_just_admitted(lake: Lake, folded: bool) -> None:
    first = [url(name, 0, NOON - NEAR) for name in ("old", "done")]
    lease = committed(lake, [first, [url("old", 0, NOON) | {"attempts": 2}, url("done", 0, NOON + FAR)]], folded=folded)
    sight = sight_of(lake, lease)
    admitted = FRONTIER.frame([url("new", 0, NOON) | {"round": lease.round}])
    hosts = HOSTS.frame([{"bucket": 0, "host": "h.test", "site": "h.test", "seeded": True, "paused": False,
                          "known_count": 3, "fetched_count": 0, "day_count": 0}])  # fmt: skip

    due = listing.due(sight, admitted, [], POLICY)
    listed = listing.make_list(sight, due.rows, admitted, hosts, POLICY, {}, None)

    assert listed.fetch_list.schema == FRONTIER.schema
    assert dict(listed.fetch_list.select("tag", "attempts").sort("tag").iter_rows()) == {"new": 0, "old": 2}
    assert listed.left_out.is_empty()
    assert [len(queue.targets) for queue in listed.queues] == [2]
    left = listing.due(sight, admitted, admitted["url_hash"].to_list(), POLICY).rows
    assert left["url_hash"].to_list() == [first[0]["url_hash"]]


def test_what_waits_beyond_a_full_list_is_counted_though_its_row_was_never_read(lake: Lake) -> None:
    lease = committed(lake, [[url(f"n{number}", 0, NOON) for number in range(40)]], folded=True)
    hosts = HOSTS.frame([{"bucket": 0, "host": "h.test", "site": "h.test", "seeded": True, "paused": False,
                          "known_count": 40, "fetched_count": 0, "day_count": 0}])  # fmt: skip
    sight, none = sight_of(lake, lease), FRONTIER.empty()

    due = listing.due(sight, none, [], POLICY)
    listed = listing.make_list(sight, due.rows, none, hosts, POLICY, {}, None)

    assert listed.fetch_list.height == 18
    assert listed.left_out.select(pl.col("count").sum()).item() == 22


def test_a_robots_txt_of_many_rules_holds_up_no_round() -> None:
    lines = "User-agent: *\n" + "".join(f"Disallow: *q{n}\n" for n in range(20_000))
    long, short = (
        RobotsAnswer(0, host, f"https://{host}", n, NOON, NOON + FAR, "rules", robots.read(body.encode(), "ExampleBot"))
        for n, (host, body) in enumerate({"long.test": lines, "short.test": "User-agent: *\nDisallow: /x\n"}.items())
    )
    answers = {answer.host: {answer.origin: answer} for answer in (long, short)}

    most = pl.DataFrame({"host": ["long.test", "short.test"]}).select(listing._most_judged(answers))

    assert most.to_series().to_list() == [listing.JUDGED // 20_001, listing.JUDGED // 2]


def large_host(lake: Lake, count: int) -> Lease:
    """A host of so many due URLs in slices of 100, beside a small one."""
    rows = [url(f"{number:04d}", 0, NOON - NEAR) for number in range(count)]
    other = "https://small.test/"
    small = url("small", 0, NOON - NEAR) | {"url": other, "url_hash": urls.url_hash(other), "host": "small.test"}
    lease = committed(lake, [[*rows, small]], folded=False)
    lake.fold(lease, "frontier", least=1, shape=Shape(slice_rows=100))
    return lease


def test_of_a_large_host_only_slices_are_read_until_there_is_enough_and_the_rest_is_counted(
    lake: Lake,
) -> None:
    lease = large_host(lake, 1_000)

    due = listing.due(sight_of(lake, lease), FRONTIER.empty(), [], POLICY, enough=150)

    sizes = dict(due.rows.group_by("host").len().iter_rows())
    assert sizes["small.test"] == 1
    assert sizes["h.test"] >= 150
    assert sizes["h.test"] + due.unread[0] == 1_000


@long
def test_every_slice_of_a_large_host_gets_its_turns(lake: Lake) -> None:
    lease = large_host(lake, 1_000)
    turns = Counter(
        page
        for seed in range(200)
        for page in listing.due(
            sight_of(lake, replace(lease, round=lease.round + seed)), FRONTIER.empty(), [], POLICY, enough=100
        ).rows.filter(host="h.test")["url_hash"]
    )  # fmt: skip

    # Each slice has one draw in ten: 20 of 200, with a standard deviation of 4.2.
    assert len(turns) == 1_000
    assert min(turns.values()) >= 20 - 4 * 4
    assert max(turns.values()) <= 20 + 4 * 4


def test_few_due_urls_of_a_large_host_are_found_in_whichever_slice_they_lie(lake: Lake) -> None:
    rows = [url(f"{number:04d}", 0, NOON + FAR) for number in range(500)]
    rows[7] |= {"due_at": NOON - NEAR}
    rows[423] |= {"due_at": NOON - NEAR}
    lease = committed(lake, [rows], folded=False)
    lake.fold(lease, "frontier", least=1, shape=Shape(slice_rows=100))

    due = listing.due(sight_of(lake, lease), FRONTIER.empty(), [], POLICY)

    assert set(due.rows["url_hash"]) == {rows[7]["url_hash"], rows[423]["url_hash"]}
    assert due.unread == {}
