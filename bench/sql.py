"""How fast the ready queries are: over a million stored pages and all that is known of them, without bodies.

The lake is made up, in the shape of a long crawl (`known_urls`): pages, requests and links are laid in rounds, state in
a base. Every query of docs/queries.md runs in a process of its own, as an analyst's first does, the snapshot
that it needs first is measured apart. Seconds depend on the machine. The ratios
are over DuckDB reading the same Parquet files with nothing between, so they say what the views cost.
"""

import argparse
import multiprocessing
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from bench import known_urls
from bench.figures import report
from bench.known_urls import NOW
from crawl_pipeline import corpus, reports
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.tables import FETCHES, LINKS, ORDERS, PAGES, ROBOTS, ROUNDS
from crawl_pipeline.lake import Lake

PAGE = Path(__file__).parents[1] / "docs" / "queries.md"
QUERY = re.compile(r"## (?P<title>[^\n]+)\n(?:(?!\n## ).)*?```sql\n(?P<sql>.*?)```", re.S)
ROUND_PAGES = 125_000
BARE = {
    "pages_by_host": (
        "select host, count(distinct url), count(*), sum(body_bytes) from {} group by host", "pages"
    ),
    "requests_by_host": (
        "select host, outcome, count(*), min(gap_s), max(started_at) from {} group by host, outcome", "fetches"
    ),
    "urls_by_state": ("select host, status, outcome, count(*), min(due_at) from {} group by all", "frontier"),
}  # fmt: skip
"""Queries that read one table, and the table: over the view, and over its bare files."""
TARGETS = [("first_query_s", "<=", 60.0), ("slowest_over_bare_scan", "<=", 20.0)]


def build(root: str, count: int) -> Lake:
    """Make a lake of about so many stored pages."""
    known_urls.build(root, int(count / 0.92))
    lake = Lake.open(root)
    fetched = pl.col("status") == "fetched"
    rows = lake.scan("frontier", where=fetched).select("url", "url_hash", "host", "visited_at", "source_hash").collect()
    policy = known_urls.POLICY
    told = {"kind": "policy", "policy_id": policy.id, "policy_toml": policies.render(policy), "ordered_at": NOW}
    lake.give(ORDERS.frame([told]))
    for number, some in enumerate(rows.sort("visited_at").iter_slices(ROUND_PAGES)):
        _round(lake, some.with_columns(bucket=pl.lit(0)), number)
    return lake


def _round(lake: Lake, rows: pl.DataFrame, number: int) -> None:
    rng, count = np.random.default_rng(number), rows.height
    sizes = pl.Series(rng.integers(2_000, 200_000, count))
    drawn = {name: pl.Series(rng.integers(-(2**62), 2**62, count)) for name in ("text_hash", "main_hash", "simhash")}
    place = ["bucket", "url", "url_hash", "host"]
    pages = rows.select(*place, fetched_at="visited_at", body_bytes=sizes, **drawn).with_columns(
        title=pl.format("{}, a page of {}", "main_hash", "host"), month=pl.col("fetched_at").dt.strftime("%Y-%m"),
        lang=pl.lit("en"), charset=pl.lit("utf-8"), content_type=pl.lit("text/html"),
        word_count=pl.col("body_bytes") // 9, tag=pl.lit("bench"),
        body_hash=pl.Series([value.tobytes() for value in rng.integers(0, 2**62, (count, 2))]),
    )  # fmt: skip
    asked = rows.select(
        *place, request_id=pl.Series(rng.integers(0, 2**62, count)), origin=pl.format("https://{}", "host"),
        cause=pl.lit("page"), started_at="visited_at", ended_at=pl.col("visited_at") + pl.duration(milliseconds=120),
        http_status=200, outcome=pl.lit("fetched"), wire_bytes=pl.Series(rng.integers(900, 60_000, count)), gap_s=1.0,
        policy_id=pl.lit(known_urls.POLICY.id), address=pl.lit("192.0.2.1"), worker=pl.lit("bench"),
        user_agent=pl.lit(known_urls.POLICY.agent.header),
    )  # fmt: skip
    robots = asked.unique("host").with_columns(cause=pl.lit("robots"), request_id=pl.col("request_id") + 1)
    links = rows.select(
        "url", "url_hash", "host", "source_hash", target_bucket="bucket", source_bucket="bucket", kind=pl.lit("link"),
        source_url=pl.col("url").shuffle(seed=number), depth=2, hops=0,
    )  # fmt: skip
    answers = robots.select(
        "bucket", "host", "origin", robots_id="request_id", fetched_at="ended_at", state=pl.lit("rules"),
        expires_at=pl.col("ended_at") + pl.duration(hours=24), http_status=200,
        body=pl.lit(b"User-agent: *\nDisallow:\n"),
    )  # fmt: skip
    lease = lake.claim([0], "bench", NOW + timedelta(minutes=number), 3_600)
    frames = {PAGES: pages, FETCHES: pl.concat([asked, robots]), LINKS: links, ROBOTS: answers}
    for table, frame in frames.items():
        lake.write(lease, table, table.frame(frame.with_columns(round=pl.lit(lease.round))))
    done = {"bucket": 0, "page_count": count, "request_count": count + robots.height, "started_at": NOW,
            "ended_at": NOW, "links_seen": [lease.round]}  # fmt: skip
    lake.commit(lease, ROUNDS.frame([done]).drop("round", "epoch", "worker"))
    lake.release(lease)


def ready(host: str) -> dict[str, str]:
    """The queries of the page by their titles, asked of a host of the made-up lake."""
    found = {match["title"]: match["sql"] for match in QUERY.finditer(PAGE.read_text(encoding="utf-8"))}
    return {title: sql.replace("manual.test", host) for title, sql in found.items()}


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def asked(root: str, sql: str) -> tuple[float, float, float]:
    """Seconds of the snapshot, seconds of the query, and the peak of the process's memory in MB."""
    began = time.perf_counter()
    with closing(reports.connect(Lake.open(root))) as connection:
        connected = time.perf_counter()
        corpus.read(connection, sql)
        ended = time.perf_counter()
    return connected - began, ended - connected, _peak_mb()


def _peak_mb() -> float:
    """Peak of this process since it began; getrusage would count its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def over_bare(root: str, sql: str, table: str) -> tuple[float, float]:
    """Seconds of a query over the view, and over its files, the median of three each."""
    lake = Lake.open(root)
    files = ", ".join(f"'{file}'" for file in lake.files(table))
    with closing(corpus.connect(lake)) as views, closing(duckdb.connect()) as bare:
        return _median(views, sql.format(table)), _median(bare, sql.format(f"read_parquet([{files}])"))


def scan_s(root: str) -> float:
    """Seconds in which DuckDB reads every column of the files of pages, requests and frontier."""
    lake, total = Lake.open(root), 0.0
    with closing(duckdb.connect()) as bare:
        for table in ("pages", "fetches", "frontier"):
            files = ", ".join(f"'{file}'" for file in lake.files(table))
            total += _median(bare, f"select bit_xor(hash(columns(*))) from read_parquet([{files}])")
    return total


def _median(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        connection.execute(sql).fetchall()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def first_query_s(root: str) -> float:
    """Seconds of a first query as a person asks it: a new process of `crawl sql`, from start to exit."""
    sql = "select host, count(*) as pages from pages group by host order by pages desc limit 5"
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "crawl_pipeline", "--lake", root, "sql", sql], check=True, capture_output=True
    )
    return time.perf_counter() - began


def measure(root: str) -> dict[str, float | None]:
    """All figures of a lake."""
    with closing(corpus.connect(Lake.open(root), described=False)) as connection:
        host = connection.execute("select host from pages group by host order by count(*) desc limit 1").fetchall()[0][
            0
        ]
        stored = connection.execute("select count(*) from pages").fetchall()[0][0]
    taken = {title: _apart(asked, root, sql) for title, sql in ready(host).items()}
    for title, (_, seconds, mb) in taken.items():
        print(f"  {seconds:8.2f} s {mb:8.0f} MB  {title}", flush=True)
    bare_s = _apart(scan_s, root)
    ratios = {name: _apart(over_bare, root, *query) for name, query in BARE.items()}
    snapshots, seconds, peaks = (list(of) for of in zip(*taken.values(), strict=True))
    return {
        "pages": stored, "first_query_s": first_query_s(root), "snapshot_s": statistics.median(snapshots),
        "median_query_s": statistics.median(seconds), "slowest_query_s": max(seconds),
        "peak_mb": max(peaks), "bare_scan_s": bare_s,
        "median_over_bare_scan": statistics.median(seconds) / bare_s, "slowest_over_bare_scan": max(seconds) / bare_s,
        **{f"{name}_over_bare": view / bare for name, (view, bare) in ratios.items()},
    }  # fmt: skip


def main() -> None:
    """Make the lake, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--lake", help="a lake that this bench made before, or where to make one and keep it")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as folder:
        root = given.lake or f"{folder}/lake"
        if not Path(root, "rounds").exists():
            build(root, given.pages)
        report("sql", measure(root), TARGETS, {"pages": given.pages}, as_json=given.json)


if __name__ == "__main__":
    main()
