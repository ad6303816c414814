"""What a round costs when a bucket knows a million URLs, or ten: equal work, another size of the frontier.

A lake of one bucket is filled through the lake's own code, then rounds of equal work are run as a worker would, but
for the asking: links of the round before are admitted, a list is chosen, 10,000 outcomes with 60,000 links are
written and committed. Half of the links are new, the rest known. Ratios are of CPU seconds, all threads counted, so
that they do not depend on how busy the machine is; seconds are wall time, the median of the rounds.

Each size is built and measured in processes of its own: peak memory is that of the measured rounds alone.
"""

import argparse
import math
import multiprocessing
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from bench.figures import report
from bench.frontier_ways import Price, merged, priced, rewritten
from bench.known_urls import ACTIVE_HOSTS, NOW, OUTCOMES, POLICY, active, build, host_names
from crawl_pipeline import harvest, planning
from crawl_pipeline.core import admission, references, urls
from crawl_pipeline.core.orders import NOTHING
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.core.seen import FULL
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.describing import Templates
from crawl_pipeline.fetch import reading
from crawl_pipeline.fetch.bodies import FoundLinks, ReadPage
from crawl_pipeline.fetch.exchange import Exchange
from crawl_pipeline.fetch.visits import Cut, HostState, Request, Target, Visit
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.planning import Plan, SeenSet, catching_up, listing
from crawl_pipeline.planning.sight import Sight
from crawl_pipeline.rounds import FOLD_EVERY

MILLION = 1_000_000
NEW_PER_PAGE, KNOWN_PER_PAGE = 3, 3
STATE = ("frontier", "hosts", "change_frequency", "templates")
ADMISSION = ("canonical", "bucket", "site", "seen", "budgets")
SEEN = ("seen_by_filter", "seen_all_new", "seen_all_new_by_filter")
STEPS = ("read", "seen", *SEEN, "hosts", "budgets", "due", "list")
ROUND = ("plan", "harvest", "write", "commit")
PROBES = 1_000_000
"""Made-up URLs that a full filter is asked about."""
FILTERED = POLICY.model_copy(update={"seen": POLICY.seen.model_copy(update={"filter_from": 0})})
TARGETS = [
    ("round_cost_ratio_10m_1m", "<=", 1.3), ("bytes_per_url", "<=", 60.0), ("links_admitted_per_s", ">=", 150_000.0),
    ("bloom_fp_over_design", "<=", 2.0), ("bits_per_seen_url", "<=", 14.4),
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
    hosts = [
        HostState(q.host, q.bucket, pace, now, (), ("192.0.2.1",), {now.date(): len(q.targets)}) for q in plan.queues
    ]
    return Cut(visits, [visit.request for visit in visits if visit.request], [], hosts)


def _visit(target: Target, known: list[str], now: datetime, round_: int) -> Visit:
    host = urls.host(target.url)
    own = f"https://{host}/new/{round_}/{target.url_hash & 0xFFFFFFFF}"
    found = [*known, *(f"{own}-{number}.html" for number in range(NEW_PER_PAGE))]
    links = FoundLinks(
        tuple(found), tuple(map(urls.url_hash, found)), tuple(map(urls.host, found)), (0,) * len(found),
        ("link",) * len(found), (False,) * len(found), *((None,) * len(found),) * 2,
    )  # fmt: skip
    got = Exchange(
        target.url, "page", "GET", now, now, 0.1, "192.0.2.1", 200, None, None, (("etag", '"abcdef0123"'),), b"",
        20_000, None, None,
    )  # fmt: skip
    request = Request(0, host, got, "fetched", 2.0, POLICY.id)
    return Visit(0, target, "fetched", now, request=request, page=ReadPage(links, text_hash=target.url_hash ^ round_))


def measure(root: str, rounds: int, ways: bool) -> dict[str, Any]:
    """Run rounds of equal work; give what each step took, bytes and memory. The first two rounds only warm up."""
    lake, watch = Lake.open(root), Stopwatch()
    known = _known_urls(lake)
    size = sum(Path(file).stat().st_size for file in lake.files("frontier"))
    seen, sieve = SeenSet(), SeenSet()  # as the policy says; and always by filter, for the single step
    lease, now, written, changed = lake.claim([0], "bench", NOW, 3_600), NOW, 0, 0
    cursors = planning.read_cursors(lake, lease)
    for number in range(rounds + 2):
        if number == 2:
            watch, written, changed = Stopwatch(), 0, 0
        _steps(watch, lake, lease, cursors, now, sieve)
        plan = watch.time("plan", lambda: planning.plan(lake, lease, cursors, POLICY, now, (), {}, seen=seen))  # noqa: B023
        cut = outcomes(plan, known, now)
        made = watch.time(
            "harvest", harvest.frames, plan, cut, plan.fetch_list, plan.visited_before, 1, POLICY, {}, Templates()
        )
        timings = harvest.Timings(now, now, 1.0, 1.0)
        rows = harvest.ledger(plan, cut, {0: plan.fetch_list.height}, made, timings, POLICY, 1)
        before = _bytes(root)
        watch.time("write", lake.write_all, lease, made)
        watch.time("commit", lake.commit, lease, rows)
        for each in (seen, sieve):
            each.committed(lease, plan.admitted)
        written, changed = written + _bytes(root) - before, changed + sum(made[name].height for name in STATE)
        cursors, now = plan.cursors, now + timedelta(seconds=60)
        lease = lake.renew(lease, now, 3_600)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "wall": {name: statistics.median(each) for name, each in watch.wall.items()},
        "cpu": {name: statistics.median(each) for name, each in watch.cpu.items()},
        "size": size, "written": written / changed, "selected": plan.fetch_list.height,
        "admitted": plan.admitted.height, "links": plan.links_read[0], "rss_mb": peak,
        **_filter(sieve), **_folded(lake, lease, made, ways),
    }  # fmt: skip


def _known_urls(lake: Lake) -> list[str]:
    """One in ten of the URLs of the hosts that are asked."""
    sizes = lake.scan("hosts").select(pl.len()).collect().item()
    names = np.array(host_names(sizes))[active(sizes)]
    among = pl.col("host").is_in(list(names)) & (pl.col("url_hash") % 10 == 0)
    return lake.scan("frontier", where=among).select("url").collect()["url"].to_list()


def _filter(sieve: SeenSet) -> dict[str, float]:
    """How often the filter is wrong just before it is made anew, and what it takes of memory now."""
    kept, _ = sieve.kept[0]
    rng, bits = np.random.default_rng(7), kept.bits / kept.count
    made_up = pl.Series(rng.integers(-(2**63), 2**63 - 1, int(FULL * kept.room) - kept.count + PROBES))
    kept.add(made_up[:-PROBES])
    wrong = float(kept.maybe(made_up[-PROBES:]).sum()) / PROBES
    return {"fp_over_design": wrong / POLICY.seen.false_positives, "bits": bits, "bits_full": kept.bits / kept.count}


def _folded(lake: Lake, lease: Lease, made: dict[str, pl.DataFrame], ways: bool) -> dict[str, float]:
    """Fold, and deal what it took out to the rounds between two folds; hold the frontier's share to other ways."""
    found, shares = {"fold_cpu": 0.0, "fold_wall": 0.0}, {}
    changed = made["frontier"].with_columns(part=pl.lit(0, pl.Int16))
    with tempfile.TemporaryDirectory(prefix="bench-frontier-") as folder:
        others = {"merge": merged, "rewrite": rewritten} if ways else {}
        prices = {name: way(lake, changed, folder) for name, way in others.items()}
    for name in [name for name in STATE if made[name].height]:  # these pages have no text that templates are made of
        rounds, wall = _rounds_between_folds(lake, name, made[name].height), time.monotonic()
        fold = partial(lake.fold, lease, name, rounds=0, least=1)
        shares[name] = priced(f"{lake.root}/{name}", fold), rounds
        found["fold_wall"] += (time.monotonic() - wall) / rounds
        found["fold_cpu"] += shares[name][0].cpu_s / rounds
    fold_once, rounds = shares["frontier"]
    tail = priced(f"{lake.root}/frontier", lambda: lake.write(lease, "frontier", _again(made["frontier"], lease)))
    own = Price(tail.cpu_s + fold_once.cpu_s / rounds, tail.bytes + fold_once.bytes / rounds)
    for name, price in prices.items():
        found[f"times_{name}"], found[f"bytes_times_{name}"] = price.times(own)
    return found


def _again(rows: pl.DataFrame, lease: Lease) -> pl.DataFrame:
    return rows.with_columns(round=pl.lit(lease.round, pl.Int64))


def _rounds_between_folds(lake: Lake, table: str, changed: int) -> int:
    """After how many rounds of so many changes a worker folds: rounds.FOLD_EVERY, and the rule of Lake.fold."""
    known = int(lake.scan(table).select(pl.len()).collect().item())
    by_rows = max(2_000, 0.25 * known) / changed
    return FOLD_EVERY * math.ceil(float(min(by_rows, 21)) / FOLD_EVERY)


def _steps(
    watch: Stopwatch, lake: Lake, lease: Lease, cursors: planning.Cursors, now: datetime, sieve: SeenSet
) -> None:
    """Take the steps of a plan one by one; nothing of it is kept."""
    sight = Sight(lake, lease, lake.versions(), now)
    found = watch.time("read", catching_up._new_links, sight, cursors)
    canonical = watch.time("canonical", lambda: [urls.canonical(url) for url in found["url"]])
    told = tuple(found["kind"]), tuple(found["nofollow"])
    watch.time("bucket", lambda: reading.columns(list(map(references.place, canonical)), *told, lake.buckets))
    links = watch.time("site", catching_up._with_site, found)
    seen = watch.time("seen", SeenSet(exact=True).known, sight, links, cursors, POLICY).hashes
    watch.time("seen_by_filter", sieve.known, sight, links, cursors, FILTERED)
    new = links.join(seen.to_frame(), on="url_hash", how="anti")
    watch.time("seen_all_new", SeenSet(exact=True).known, sight, new, cursors, POLICY)
    watch.time("seen_all_new_by_filter", sieve.known, sight, new, cursors, FILTERED)
    given = catching_up._new_orders(sight, cursors)
    stored = watch.time("hosts_stored", lambda: sight.rows("hosts").collect())
    hosts = watch.time("hosts", catching_up._hosts, sight, stored, links, given, POLICY, NOTHING)
    admitted = watch.time("budgets", admission.admit, links, seen, hosts, POLICY, now)
    rows = admitted.rows.with_columns(round=pl.lit(lease.round, pl.Int64))
    due = watch.time("due", listing.due, sight, rows, (), POLICY)
    watch.time("list", listing.make_list, sight, due.rows, rows, hosts, POLICY, {}, None)


def _bytes(root: str) -> int:
    return sum(file.stat().st_size for name in STATE for file in Path(root, name).rglob("*") if file.is_file())


def of_size(count: int, rounds: int, kept: Path | None, ways: bool) -> dict[str, Any]:
    """Build a lake that knows so many URLs and measure a copy of it; with `kept`, one that was built before."""
    with tempfile.TemporaryDirectory(prefix="bench-frontier-", dir=kept) as folder:
        tables = urls.hash64(repr([(name, table.schema) for name, table in TABLES.items()])) & 0xFFFFFFFF
        built, copy = Path(kept or folder, f"known-{count}-{tables:08x}"), f"{folder}/lake"
        if not built.exists():
            _apart(build, f"{folder}/building", count)
            Path(folder, "building").rename(built)
        shutil.copytree(built, copy, copy_function=os.link)  # nothing in a Delta table is changed in place
        return {"count": count, **_apart(measure, copy, rounds, ways)}


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
        "bloom_fp_over_design": max(size["fp_over_design"] for size in (one, ten) if size),
        "bits_per_seen_url": (ten or one)["bits"], "bits_per_seen_url_when_full": (ten or one)["bits_full"],
        "peak_rss_mb": max(size["rss_mb"] for size in (one, ten) if size),
        **{name: one[name] for name in ("times_merge", "bytes_times_merge", "times_rewrite", "bytes_times_rewrite")},
    }  # fmt: skip
    found |= {f"share_{step}": one["cpu"][step] / admit for step in ADMISSION}
    for name, size in (("1m", one), ("10m", ten)):
        found |= {f"fold_s_{name}": size["fold_wall"], f"cpu_fold_{name}": size["fold_cpu"]} if size else {}
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
    options.add_argument("--keep", type=Path, help="folder where built lakes stay, for another run")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    one = of_size(given.urls, given.rounds, given.keep, True)
    ten = of_size(10 * given.urls, given.rounds, given.keep, False) if given.full else None
    named = {name: one[name] for name in ("selected", "links", "admitted")}
    settings = {"urls": given.urls, "rounds": given.rounds, **named, "active_hosts": ACTIVE_HOSTS}
    report("frontier", figures(one, ten), TARGETS, settings, as_json=given.json)


if __name__ == "__main__":
    main()
