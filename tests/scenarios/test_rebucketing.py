"""Another number of buckets in the middle of a crawl: the web notices nothing, whenever the rebucketing ends."""

import copy
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import trio
from crawls import ALMOST, NOON, Crawl, Died, dying_after, policy

from crawl_pipeline import corpus as lake_corpus
from crawl_pipeline import maintenance, planning, rebucketing
from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import TABLES, Table
from crawl_pipeline.explaining import explain
from crawl_pipeline.lake import Lake, LakeMismatch, LeaseHeld, LeaseLost
from crawl_pipeline.lake.delta import Backoff, DeltaTable
from crawl_pipeline.rebucketing import Rebucketed
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import Answer, Request, html, throttled
from tests.effort import long, times

LEASE_S = 120.0
HOSTS = [f"h{number}.test" for number in range(6)]
PAGES = 4
RULES = policy(scope={"follow": "everywhere"}, recrawl={"again": False}, round={"shortest_s": 6.0},
               traps={"probes_per_host": 0})  # fmt: skip


def busy_web() -> list[Host]:
    """Hosts whose pages lead to each other; some are slow, one has a Crawl-delay, one forbids a page."""
    return [_host(number) for number in range(len(HOSTS))]


def _host(number: int) -> Host:
    other = HOSTS[(number + 1) % len(HOSTS)]
    pages: dict[str, Answer] = {
        f"/{page}": html(f"Page {page}", [f"/{page + 1}", f"http://{other}/{page + 1}"] if page + 1 < PAGES else [])
        for page in range(PAGES)
    }
    kind: dict[str, Any] = {1: {"crawl_delay_s": 3}, 2: {"first_byte_s": 0.7}, 3: {"disallow": ["/1"]}}.get(number, {})
    return site(HOSTS[number], pages, **kind)


def busy(root: Path, buckets: int = 2, rules: Policy = RULES) -> Crawl:
    return Crawl(root, *busy_web(), buckets=buckets, rules=rules).seed(*(f"http://{host}/0" for host in HOSTS[::2]))


def rebucket(crawl: Crawl, buckets: int, lake: Lake | None = None, **wanted: Any) -> Rebucketed:
    """Give the lake so many buckets at the crawl's time."""

    async def main() -> Rebucketed:
        at = crawl.now
        return rebucketing.rebucket(lake or crawl.lake, crawl.rules, buckets, clock=lambda: at, **wanted)

    done: Rebucketed = crawl.run(main)
    return done


def finish(crawl: Crawl) -> None:
    crawl.work(name="last")


def corpus(crawl: Crawl) -> set[tuple[str, str]]:
    return set(crawl.documents().select("url", "text").iter_rows())


def requests(crawl: Crawl) -> Counter[str]:
    return Counter(f"{row.host}{row.path}" for row in crawl.web.log)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    crawl = busy(tmp_path_factory.mktemp("undisturbed"))
    finish(crawl)
    assert crawl.rows("pages").height > 10
    return crawl


def same(crawl: Crawl, undisturbed: Crawl) -> None:
    """The same pages, the same requests (so no robots.txt twice), every promise kept."""
    assert corpus(crawl) == corpus(undisturbed)
    assert requests(crawl) == requests(undisturbed)
    crawl.check()
    crawl.check_requests()
    assert all(rest >= 3 - ALMOST for rest in crawl.web.rests_s(HOSTS[1]))


@long
def test_a_crawl_whose_buckets_double_and_halve_again_asks_and_stores_what_an_undisturbed_one_does(
    tmp_path, undisturbed
):
    crawl = busy(tmp_path, buckets=16)
    for buckets in (32, 16):
        crawl.work(seconds=5)
        places = dict(crawl.rows("hosts", "host", "bucket").iter_rows())
        done = rebucket(crawl, buckets)
        now = dict(crawl.rows("hosts", "host", "bucket").iter_rows())
        assert now == {host: urls.bucket(urls.site(host), buckets) for host in now}
        moved = {host for host, bucket in now.items() if places.get(host, bucket) != bucket}
        assert 0 < len(moved) < len(now)
        assert all(abs(now[host] - places[host]) == 16 for host in moved)
        assert done.moved_hosts == sum(urls.bucket(host, 32) != urls.bucket(host, 16) for host in now)
    finish(crawl)

    same(crawl, undisturbed)
    assert set(crawl.rows("frontier")["bucket"]) <= set(range(16))
    assert crawl.lake.leases().height == 16


@long
@pytest.mark.parametrize("steps", [[1, 16, 2]])
def test_any_power_of_two_can_be_reached_at_once(tmp_path, undisturbed, steps):
    crawl = busy(tmp_path)
    for buckets in steps:
        crawl.work(seconds=4)
        rebucket(crawl, buckets)
    finish(crawl)

    same(crawl, undisturbed)


def test_what_a_reader_sees_of_state_is_the_same_but_for_the_bucket(tmp_path):
    crawl = busy(tmp_path)
    crawl.work(seconds=5)
    for buckets in (1, 2):  # there and back: nothing waits any more
        rebucket(crawl, buckets)
    before = state(crawl)

    rebucket(crawl, 8)

    assert state(crawl) == before
    assert set(crawl.rows("rounds").filter(round=pl.col("round").max())["bucket"]) == set(range(8))


def state(crawl: Crawl) -> dict[str, list[dict[str, Any]]]:
    moved = {"bucket", "layer", "layout", "part"}
    return {
        table.name: crawl.rows(table.name).drop(moved, strict=False).sort(table.key).to_dicts()
        for table in TABLES.values() if table.kind == "state"
    }  # fmt: skip


class Mortal(DeltaTable):
    """A table of a process that dies after so many commits to the lake."""

    def __init__(self, root: str, table: Table, left: list[int]) -> None:
        super().__init__(root, table, {}, Backoff())
        self.left = left

    def commit(self, decide: Callable[..., Any]) -> int | None:
        if not self.left[0]:
            raise Died
        version = super().commit(decide)
        self.left[0] -= version is not None
        return version


def _of(tables: dict[str, DeltaTable], lake: Lake) -> Lake:
    """The same lake, through these tables."""
    return Lake(lake.root, tables, lake.buckets, lambda table: DeltaTable(lake.root, table, {}, Backoff()))


def mortal(lake: Lake, commits: int) -> Lake:
    left = [commits]
    return _of({name: Mortal(lake.root, table, left) for name, table in TABLES.items()}, lake)


def own(crawl: Crawl, folder: Path) -> Crawl:
    """The same crawl at the same point, with a lake and a web of its own."""
    mine = copy.copy(crawl)
    shutil.copytree(crawl.lake.root, folder)
    mine.lake, mine.web = Lake.open(str(folder)), copy.deepcopy(crawl.web)
    return mine


def test_killed_after_any_commit_and_repeated_or_not_it_loses_and_doubles_nothing(tmp_path, undisturbed):
    crawl, commits, survived = busy(tmp_path, buckets=2), 0, False
    crawl.work(seconds=4)
    counts = set()
    while not survived:
        mine = own(crawl, tmp_path / f"own{commits}")
        try:
            rebucket(mine, 4, mortal(mine.lake, commits))
            survived = True
        except Died:
            mine.wait(LEASE_S)
        mine.lake = Lake.open(mine.lake.root)
        counts.add(mine.lake.buckets)
        if commits % 2:
            rebucket(mine, 4)
        finish(mine)
        same(mine, undisturbed)
        shutil.rmtree(mine.lake.root)
        commits += times(7, 1)

    assert commits > 15
    assert counts == {2, 4}


@long
def test_what_a_killed_rebucketing_left_is_deleted_by_maintenance_and_by_the_next_one(tmp_path):
    crawl = busy(tmp_path, buckets=4)
    crawl.work(seconds=4)
    total = sum(1 for _ in commits_of(crawl, tmp_path))
    for at, cleaned in ((total - 12, maintain), (total - 6, maintain), (total - 6, lambda mine: rebucket(mine, 8))):
        mine = own(crawl, tmp_path / f"own{at}{cleaned}")
        with pytest.raises(Died):
            rebucket(mine, 8, mortal(mine.lake, at))
        mine.wait(LEASE_S)
        mine.lake = Lake.open(mine.lake.root)
        mine.work(seconds=0.1, name="takes over")  # maintenance passes over what a vanished worker left
        assert stored_layouts(mine) > {mine.lake.layout.number}

        cleaned(mine)

        assert stored_layouts(mine) == {mine.lake.layout.number}


def stored_layouts(crawl: Crawl) -> set[int]:
    """Layouts of which there are rows, seen or not."""
    tables = [DeltaTable(crawl.lake.root, table, {}, Backoff()) for table in TABLES.values() if table.kind == "state"]
    return {layout for table in tables for layout in table.live()["layout"]}


def maintain(crawl: Crawl) -> None:
    maintenance.maintain(crawl.lake, clock=lambda: NOON + timedelta(days=1))


def commits_of(crawl: Crawl, tmp_path: Path) -> list[int]:
    """One element per commit that a rebucketing makes."""
    mine, left = own(crawl, tmp_path / "counted"), [1_000]
    tables = {name: Mortal(mine.lake.root, table, left) for name, table in TABLES.items()}
    rebucket(mine, 8, _of(tables, mine.lake))
    return list(range(1_000 - left[0]))


def test_rows_of_buckets_that_are_no_more_are_swept_and_joined(tmp_path):
    crawl = busy(tmp_path, buckets=8)
    crawl.work(seconds=4)
    lost = crawl.lake.claim(range(8), "vanished", NOON + timedelta(seconds=100), 1)
    fetch = TABLES["fetches"].frame([{"bucket": b, "request_id": b, "host": "h.test"} for b in (3, 7)]).drop("round")
    crawl.lake.write(lost, "fetches", fetch)
    crawl.wait(200)
    rebucket(crawl, 2)
    crawl.lake.write(lost, "frontier", TABLES["frontier"].empty())  # as late as can be, and seen by nobody

    stored = crawl.lake.size("fetches").rows
    done = maintenance.maintain(crawl.lake, clock=lambda: NOON + timedelta(days=1))

    assert crawl.lake.size("fetches").rows == stored - 2 == crawl.rows("fetches").height
    assert next(kept.swept for kept in done.tables if kept.table == "fetches") == 2
    finish(crawl)
    crawl.check()


@long
def test_a_wait_that_a_host_asked_for_and_its_share_of_the_day_move_with_it(tmp_path):
    told: list[float] = []

    def answer(request: Request) -> Answer:
        if request.path == "/robots.txt":
            return html("none", status=404)
        told.append(trio.current_time())
        return throttled(300) if len(told) == 2 else html("Page", [f"/{number}" for number in range(20)])

    rules = policy(budget={"fetches_per_host_day": 6}, recrawl={"again": False})
    crawl = Crawl(tmp_path, Host("h1.test", answer), buckets=2, rules=rules).seed("http://h1.test/0")
    crawl.work(seconds=10)
    assert len(told) == 2
    rebucket(crawl, 4)
    crawl.work(seconds=400)
    rebucket(crawl, 1)
    crawl.work(seconds=400)

    assert told[2] - told[1] >= 300
    assert len(told) == 6
    assert crawl.web.count("http://h1.test/robots.txt") == 1
    crawl.check()


def test_hosts_of_a_worker_that_vanished_rest_from_the_end_of_its_lease(tmp_path):
    crawl = busy(tmp_path, buckets=4)
    with pytest.raises(BaseExceptionGroup):
        crawl.work(tell=dying_after(3))
    until_s = max((at - NOON).total_seconds() for at in crawl.lake.leases()["deadline_at"].drop_nulls())
    asked, began = len(crawl.web.log), crawl.web.log[0].started

    with pytest.raises(LeaseHeld, match=r"held by 'w1' until 2026"):
        rebucket(crawl, 8)
    crawl.wait(LEASE_S)
    rebucket(crawl, 8)
    finish(crawl)

    slow = [row.started - began for row in crawl.web.log[asked:] if row.host == HOSTS[1]]
    assert min(slow) >= until_s + 3 - ALMOST


def test_links_and_orders_that_wait_are_obeyed_on_the_way(tmp_path):
    crawl = busy(tmp_path, buckets=2)
    crawl.work(seconds=3, buckets=[0])
    crawl.order("pause", HOSTS[5]).seed("http://h4.test/9")
    known = crawl.rows("frontier").height

    rebucket(crawl, 8)

    paused = crawl.rows("hosts").filter(host=HOSTS[5])
    assert paused["paused"].to_list() == [True]
    assert crawl.url("http://h4.test/9")["bucket"] == urls.bucket("h4.test", 8)
    assert crawl.rows("frontier").height > known
    lease = crawl.lake.claim(range(8), "look", NOON + timedelta(days=1), 60)
    cursors = planning.read_cursors(crawl.lake, lease)
    assert {len(seen) for seen in cursors.links_seen.values()} == {8}
    assert sum(cursors.known_count.values()) == crawl.rows("frontier").height


def test_it_is_refused_while_a_worker_holds_a_bucket(tmp_path):
    crawl = busy(tmp_path)
    crawl.lake.claim([1], "busy", NOON, 60)

    with pytest.raises(LeaseHeld, match="found 1 held by 'busy' until 2026-03-01 12:01:00 UTC"):
        rebucket(crawl, 32)
    assert Lake.open(crawl.lake.root).buckets == 2


@pytest.mark.parametrize("buckets", [0, 12, 2048])
def test_a_count_that_is_no_power_of_two_is_refused(tmp_path, buckets):
    with pytest.raises(ValueError, match="power of two"):
        rebucket(busy(tmp_path), buckets)


def test_of_two_at_once_one_wins(tmp_path):
    crawl, refused = busy(tmp_path, buckets=2), []
    crawl.work(seconds=4)

    def tell(step: str) -> None:
        for late in (Lake.open(crawl.lake.root),):
            with pytest.raises(LeaseHeld, match="rebucketing-") as refusal:
                rebucketing.rebucket(late, crawl.rules, 8, clock=lambda: NOON + timedelta(seconds=10))
            refused.append(refusal.value)

    rebucket(crawl, 4, tell=tell)

    assert refused
    assert Lake.open(crawl.lake.root).buckets == 4


def test_one_that_slept_through_its_lease_changes_nothing(tmp_path, undisturbed):
    crawl = busy(tmp_path, buckets=2)
    crawl.work(seconds=4)

    def tell(step: str) -> None:
        if step.startswith("adopt"):
            Lake.open(crawl.lake.root).claim([1], "next", NOON + timedelta(hours=1), 1)

    with pytest.raises(LeaseLost):
        rebucket(crawl, 4, tell=tell)
    crawl.lake = Lake.open(crawl.lake.root)
    assert crawl.lake.buckets == 2
    crawl.wait(3_700)
    finish(crawl)
    same(crawl, undisturbed)


def test_who_opened_the_lake_before_is_told_to_open_it_again(tmp_path):
    crawl = busy(tmp_path, buckets=2)
    crawl.work(seconds=4)
    old = Lake.open(crawl.lake.root)
    rebucket(crawl, 4)

    for refused in (
        lambda: old.claim([0], "w", NOON + timedelta(days=1), 60),
        lambda: old.scan("frontier", buckets=[0]),
        lambda: crawl.work(lake=old),
    ):
        with pytest.raises((LakeMismatch, BaseExceptionGroup)) as refusal:
            refused()
        assert "open it again" in str(getattr(refusal.value, "exceptions", [refusal.value])[0])
    assert old.scan("frontier").collect().height == crawl.rows("frontier").height
    assert old.leases()["released"].to_list() == [True] * 4


def test_a_lake_that_was_opened_before_and_has_its_old_count_again_works_on(tmp_path, undisturbed):
    crawl = busy(tmp_path, buckets=2)
    crawl.work(seconds=4)
    old = crawl.lake
    for buckets in (4, 2):
        rebucket(crawl, buckets, Lake.open(old.root))
    finish(crawl)

    same(crawl, undisturbed)


def test_a_url_that_moved_is_explained_with_the_requests_of_before(tmp_path):
    crawl = busy(tmp_path, buckets=1)
    finish(crawl)
    rebucket(crawl, 32)

    told = explain(crawl.lake, crawl.rules, "http://h4.test/1", NOON + timedelta(days=1))

    assert told.facts["bucket"] == urls.bucket("h4.test", 32)
    assert [row["outcome"] for row in told.facts["requests"]] == ["fetched"]
    assert told.facts["frontier"]["status"] == "fetched"


def test_what_was_forgotten_stays_hidden_though_its_pages_lie_where_they_were_stored(tmp_path):
    crawl = busy(tmp_path, buckets=1)
    finish(crawl)
    left = {url for url in crawl.rows("pages")["url"] if urls.host(url) != "h4.test"}
    crawl.order("forget", "h4.test").work(60)

    for buckets in (32, 2):
        rebucket(crawl, buckets)
        shown = lake_corpus.query(crawl.lake, "select url, text from documents")
        assert set(shown["url"]) == left, buckets
        assert shown.null_count().row(0) == (0, 0)
        assert lake_corpus.query(crawl.lake, "select count(*) from contents").item() == crawl.rows("pages").filter(
            pl.col("url").is_in(list(left))).unique(["body_hash", "charset"]).height  # fmt: skip


def test_a_page_that_was_stored_before_is_not_told_as_unfetched_when_it_fails_later(tmp_path):
    rules = policy(scope={"follow": "everywhere"}, retry={"attempts": 1})
    crawl = Crawl(tmp_path, site("a.test", pages=2), buckets=1, rules=rules).seed("http://a.test/")
    crawl.work(60)
    rebucket(crawl, 32)
    crawl.web.hosts.clear()

    crawl.order("recrawl", "http://a.test/").work(300)

    assert crawl.url("http://a.test/")["status"] != "fetched"
    told = lake_corpus.query(crawl.lake, "select url from unfetched where known")
    assert not set(told["url"]) & set(crawl.rows("pages")["url"])
