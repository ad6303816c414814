"""What one more URL, page, link or round costs: the constants of docs/scale.md that no other bench prints.

State is measured on a made-up lake of one bucket (`known_urls`), rows of pages, links and requests on a lake that a
crawl has left, which `--lake` names (`make crawl` leaves demo-lake/lake). Bytes are those of the column chunks in
Parquet, without footers: what a row adds. Seconds are CPU seconds of the whole process, all threads, so that they
hardly depend on how busy the machine is.

Prints each constant; what it prints is copied, with the date, to bench/measured.toml.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rbloom import Bloom

from bench.figures import report
from bench.known_urls import NOW, POLICY, build
from crawl_pipeline import corpus, maintenance, planning
from crawl_pipeline.lake import Lake

MILLION = 1_000_000


def of_state(count: int) -> dict[str, float]:
    """Bytes of state per URL, and CPU seconds per million known URLs of what reads or rewrites it."""
    with tempfile.TemporaryDirectory(prefix="bench-constants-") as root:
        build(root, count)
        lake, millions = Lake.open(root), count / MILLION
        visited = lake.size("change_frequency").rows
        found = {
            "frontier_bytes": sum(column_bytes(lake, "frontier").values()) / count,
            "change_frequency_bytes": sum(column_bytes(lake, "change_frequency").values()) / visited,
            "hosts_bytes": sum(column_bytes(lake, "hosts").values()) / lake.size("hosts").rows,
        }
        lease = lake.claim([0], "bench", NOW, 3_600)
        cursors = planning.read_cursors(lake, lease)
        planning.plan(lake, lease, cursors, POLICY, NOW, (), {})  # warm up
        plan_s, plan = _cpu_s(lambda: planning.plan(lake, lease, cursors, POLICY, NOW, (), {}))
        found["select_s"] = plan_s / millions
        lake.write(lease, "frontier", plan.fetch_list.drop("round", "layer"))
        lake.commit(lease, lake.scan("rounds").collect().drop("round", "epoch", "worker"))
        next_lease = lake.renew(lease, NOW, 3_600)
        found["fold_s"] = _cpu_s(lambda: lake.fold(next_lease, "frontier", share=0, rounds=0, least=1))[0] / millions
        lake.release(next_lease)
        found["maintain_s"] = _cpu_s(lambda: maintenance.maintain(lake, POLICY, clock=lambda: NOW))[0] / millions
        unfetched = "select reason, count(*) from unfetched group by 1"
        found["unfetched_s"] = _cpu_s(lambda: corpus.query(lake, unfetched))[0] / millions
    return found


def of_pages(lake: Lake) -> dict[str, float]:
    """Bytes per page, request and link, and links per page, of a lake that a crawl has left."""
    pages, contents, chunks = lake.size("pages").rows, lake.size("contents").rows, column_bytes(lake, "contents")
    links = lake.size("links").rows
    return {
        "page_body_bytes": chunks["body"] / contents, "page_text_bytes": chunks["text"] / contents,
        "page_metadata_bytes": sum(column_bytes(lake, "pages").values()) / pages,
        "request_bytes": sum(column_bytes(lake, "fetches").values()) / lake.size("fetches").rows,
        "link_bytes": sum(column_bytes(lake, "links").values()) / links, "links_per_page": links / pages,
    }  # fmt: skip


def column_bytes(lake: Lake, table: str) -> Counter[str]:
    """Compressed bytes of each column in the live files of a table."""
    sums: Counter[str] = Counter()
    for file in lake.files(table):
        meta = pq.ParquetFile(file).metadata
        for group in (meta.row_group(number) for number in range(meta.num_row_groups)):
            for chunk in (group.column(number) for number in range(group.num_columns)):
                sums[chunk.path_in_schema.partition(".")[0]] += chunk.total_compressed_size
    return sums


def _cpu_s(step: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = step()
    return time.process_time() - began, found


def main() -> None:
    """Measure, print a table, and one JSON object if asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--urls", type=int, default=MILLION, help="what the made-up frontier knows")
    options.add_argument("--lake", default="demo-lake/lake", help="a lake that a crawl has left")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    found = of_state(given.urls) | {"seen_bits": Bloom(MILLION, 0.01).size_in_bits / MILLION}
    if Path(given.lake).exists():
        found |= of_pages(Lake.open(given.lake))
    report("constants", found, [], {"urls": given.urls, "lake": given.lake}, as_json=given.json)


if __name__ == "__main__":
    main()
