"""What a round costs when a bucket knows a million URLs, or ten: equal work, another size of the frontier.

A lake of one bucket is filled through the lake's own code, then rounds of equal work are run as a worker would, but
for the asking: links of the round before are admitted, a list is chosen, 10,000 outcomes with 60,000 links are
written and committed. Half of the links are new, the rest known. Ratios are of CPU seconds, all threads counted, so
that they do not depend on how busy the machine is; seconds are wall time, the median of the rounds.

Each size is built and measured in processes of its own: peak memory is that of the measured rounds alone.
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from rbloom import Bloom

from bench.figures import report
from bench.known_urls import ACTIVE_HOSTS, NOW, OUTCOMES, POLICY, active, build, host_names
from crawl_pipeline import harvest, planning
from crawl_pipeline.core import admission, urls
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.fetch import reading
from crawl_pipeline.fetch.exchange import Exchange
from crawl_pipeline.fetch.reading import FoundLinks, ReadPage
from crawl_pipeline.fetch.visits import Cut, HostState, Request, Target, Visit
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.planning import Plan, catching_up, listing
from crawl_pipeline.planning.sight import Sight

MILLION = 1_000_000
NEW_PER_PAGE, KNOWN_PER_PAGE = 3, 3
STATE = ("frontier", "hosts", "change_frequency")
ADMISSION = ("canonical", "bucket", "site", "seen", "budgets")
SEEN = ("seen_by_filter", "seen_all_new", "seen_all_new_by_filter")
STEPS = ("read", "seen", *SEEN, "hosts", "budgets", "due", "list")
ROUND = ("plan", "harvest", "write", "commit")
TARGETS = [
    ("round_cost_ratio_10m_1m", "<=", 1.3), ("bytes_per_url", "<=", 60.0), ("links_admitted_per_s", ">=", 150_000.0),
]  # fmt: skip

Found = TypeVar("Found")


class Stopwatch:
    """Wall and CPU seconds of named steps, a list per step."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, list[float]] = defaultdict(list)

    def time(self, name: str, step: Callable[..., Found], *given: Any) -> Found:
        """Run a step and note what it took."""
        wall, cpu = time.monotonic(), time.process_time()
        found = step(*given)
        self.wall[name].append(time.monotonic() - wall)
        self.cpu[name].append(time.process_time() - cpu)
        return found


def outcomes(plan: Plan, known: list[str], now: datetime) -> Cut:
    """What came of the list: every page was fetched and has links, half of them new."""
    rng = np.random.default_rng(plan.lease.round)
    places = rng.integers(0, len(known), (OUTCOMES, KNOWN_PER_PAGE))
    visits = [
        _visit(target, [known[place] for place in places[number % OUTCOMES]], now, plan.lease.round)
        for number, target in enumerate(target for queue in plan.queues for target in queue.targets)
    ]
    pace = HostPace(download_s=0.2)
    hosts = [HostState(q.host, q.bucket, pace, now, (), ("192.0.2.1",), len(q.targets)) for q in plan.queues]
    return Cut(visits, [visit.request for visit in visits if visit.request], [], hosts)


def _visit(target: Target, known: list[str], now: datetime, round_: int) -> Visit:
    host = urls.host(target.url)
    own = f"https://{host}/new/{round_}/{target.url_hash & 0xFFFFFFFF}"
    found = [*known, *(f"{own}-{number}.html" for number in range(NEW_PER_PAGE))]
    links = FoundLinks(
        tuple(found), tuple(map(urls.url_hash, found)), tuple(map(urls.host, found)), (0,) * len(found),
        ("link",) * len(found), (False,) * len(found), (None,) * len(found),
    )  # fmt: skip
    got = Exchange(
        target.url, "page", "GET", now, now, 0.1, "192.0.2.1", 200, None, None, (("etag", '"abcdef0123"'),), b"",
        20_000, None, None,
    )  # fmt: skip
    request = Request(0, host, got, "fetched", 2.0, None)
    return Visit(0, target, "fetched", now, request=request, page=ReadPage(links, text_hash=target.url_hash ^ round_))


def measure(root: str, rounds: int) -> dict[str, Any]:
    """Run rounds of equal work; give what each step took, bytes and memory. The first two rounds only warm up."""
    lake, watch = Lake.open(root), Stopwatch()
    known = _known_urls(lake)
    size = sum(Path(file).stat().st_size for file in lake.files("frontier"))
    sieve = _filter(lake)
    lease, now, written, changed = lake.claim([0], "bench", NOW, 3_600), NOW, 0, 0
    cursors = planning.read_cursors(lake, lease)
    for number in range(rounds + 2):
        if number == 2:
            watch, written, changed = Stopwatch(), 0, 0
        _steps(watch, lake, lease, cursors, now, sieve)
        plan = watch.time("plan", planning.plan, lake, lease, cursors, POLICY, now, (), {})
        sieve.update(plan.admitted["url_hash"].to_list())
        cut = outcomes(plan, known, now)
        made = watch.time("harvest", harvest.frames, plan, cut, plan.fetch_list, plan.visited_before, 1, POLICY)
        timings = harvest.Timings(now, now, 1.0, 1.0)
        rows = harvest.ledger(plan, cut, {0: plan.fetch_list.height}, made, timings, POLICY, 1)
        before = _bytes(root)
        watch.time("write", lake.write_all, lease, made)
        watch.time("commit", lake.commit, lease, rows)
        written, changed = written + _bytes(root) - before, changed + sum(made[name].height for name in STATE)
        cursors, now = plan.cursors, now + timedelta(seconds=60)
        lease = lake.renew(lease, now, 3_600)
    return {
        "wall": {name: statistics.median(each) for name, each in watch.wall.items()},
        "cpu": {name: statistics.median(each) for name, each in watch.cpu.items()},
        "size": size, "written": written / changed, "selected": plan.fetch_list.height,
        "admitted": plan.admitted.height, "links": plan.links_read[0],
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }  # fmt: skip


def _known_urls(lake: Lake) -> list[str]:
    """One in ten of the URLs of the hosts that are asked."""
    sizes = lake.scan("hosts").select(pl.len()).collect().item()
    names = np.array(host_names(sizes))[active(sizes)]
    among = pl.col("host").is_in(list(names)) & (pl.col("url_hash") % 10 == 0)
    return lake.scan("frontier", where=among).select("url").collect()["url"].to_list()


def _filter(lake: Lake) -> Bloom:
    """A Bloom filter of all known URLs, one in a thousand answers wrong: what the exact look-up is held against."""
    hashes = lake.scan("frontier").select("url_hash").collect()["url_hash"]
    made = Bloom(2 * len(hashes), 0.001, lambda number: number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**127)
    made.update(hashes.to_list())
    return made


def _through(sieve: Bloom, sight: Sight, links: pl.DataFrame) -> pl.Series:
    """Ask the filter first, and the frontier about what may be known."""
    maybe = [number in sieve for number in links["url_hash"].to_list()]
    return catching_up._known(sight, links.filter(pl.Series(maybe, dtype=pl.Boolean)))


def _steps(watch: Stopwatch, lake: Lake, lease: Lease, cursors: planning.Cursors, now: datetime, sieve: Bloom) -> None:
    """Take the steps of a plan one by one; nothing of it is kept."""
    sight = Sight(lake, lease, lake.versions(), now)
    found = watch.time("read", catching_up._new_links, sight, cursors)
    canonical = watch.time("canonical", lambda: [urls.canonical(url) for url in found["url"]])
    told = found["kind"].to_list(), found["nofollow"].to_list(), found["lastmod_at"].to_list()
    watch.time("bucket", reading._columns, canonical, *told, lake.buckets)
    links = watch.time("site", catching_up._with_site, found)
    seen = watch.time("seen", catching_up._known, sight, links)
    watch.time("seen_by_filter", _through, sieve, sight, links)
    watch.time(
        "seen_all_new", catching_up._known, sight, (new := links.join(seen.to_frame(), on="url_hash", how="anti"))
    )
    watch.time("seen_all_new_by_filter", _through, sieve, sight, new)
    hosts, _ = watch.time("hosts", catching_up._hosts, sight, links, catching_up._new_orders(sight, cursors), POLICY)
    admitted = watch.time("budgets", admission.admit, links, seen, hosts, POLICY, now)
    rows = admitted.rows.with_columns(round=pl.lit(lease.round, pl.Int64))
    due = watch.time("due", listing.due, sight, rows, (), POLICY)
    watch.time("list", listing.make_list, sight, due.rows, rows, hosts, POLICY, {}, None)


def _bytes(root: str) -> int:
    return sum(file.stat().st_size for name in STATE for file in Path(root, name).rglob("*") if file.is_file())


def of_size(count: int, rounds: int) -> dict[str, Any]:
    """Build a lake that knows so many URLs and measure it."""
    with tempfile.TemporaryDirectory(prefix="bench-frontier-") as folder:
        _apart(build, f"{folder}/lake", count)
        return {"count": count, **_apart(measure, f"{folder}/lake", rounds)}


def _apart(step: Callable[..., Found], *given: Any) -> Found:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(step, *given).result()


def figures(one: dict[str, Any], ten: dict[str, Any] | None) -> dict[str, float | None]:
    """The figures of the two sizes."""
    cost = [sum(size["cpu"][step] for step in ROUND) for size in (one, ten) if size]
    admit = sum(one["cpu"][step] for step in ADMISSION)
    found: dict[str, float | None] = {
        "round_cost_ratio_10m_1m": cost[1] / cost[0] if ten else None,
        "select_s_1m": _select_s(one), "select_s_10m": _select_s(ten) if ten else None,
        "bytes_written_per_change": one["written"], "bytes_per_url": one["size"] / one["count"],
        "links_admitted_per_s": one["links"] / admit,
        "peak_rss_mb": max(size["rss_mb"] for size in (one, ten) if size),
    }  # fmt: skip
    found |= {f"share_{step}": one["cpu"][step] / admit for step in ADMISSION}
    for name, size in (("1m", one), ("10m", ten)):
        found |= {f"cpu_{step}_{name}": size["cpu"][step] for step in (*ROUND, *STEPS)} if size else {}
    return found


def _select_s(size: dict[str, Any]) -> float:
    return float(size["wall"]["due"] + size["wall"]["list"])


def main() -> None:
    """Measure, print a table, and one JSON object if asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--urls", type=int, default=MILLION, help="what the smaller frontier knows")
    options.add_argument("--full", action="store_true", help="a frontier ten times as large too")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    one = of_size(given.urls, given.rounds)
    ten = of_size(10 * given.urls, given.rounds) if given.full else None
    named = {name: one[name] for name in ("selected", "links", "admitted")}
    settings = {"urls": given.urls, "rounds": given.rounds, **named, "active_hosts": ACTIVE_HOSTS}
    report("frontier", figures(one, ten), TARGETS, settings, as_json=given.json)


if __name__ == "__main__":
    main()
