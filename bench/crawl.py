"""Pages per CPU-second of the whole crawl, beside the floor and beside Scrapy, on the same farm in one run.

The crawl: `crawl run` with robots.txt, redirects, exactly-once frontier, text, hashes and durable Delta state on; all
CPU of its processes counts, start-up included. The floor: for the same pages, in one process, one raw GET, one lexbor
parse, one zstd and one hash. Delays are next to nothing, so that CPU is what limits.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import xxhash
import zstandard
from selectolax.lexbor import LexborHTMLParser

from bench import farm_crawl
from bench.figures import Cost, report, run
from crawl_pipeline import corpus
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import site_farm

SCRAPY = Path(__file__).parent.parent / ".peers" / "bin" / "scrapy"
SPIDER = Path(__file__).parent / "scrapy_spider.py"


def main() -> None:
    """Crawl, measure the floor on the pages that were fetched, let Scrapy crawl, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with farm_crawl.served(options.hosts) as (farm, folder):
        root = farm_crawl.prepared(farm, folder, delay_s=0.001)
        crawl = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root), "run", "--minutes", f"{options.minutes}"]
        ours = run(crawl, stdout=sys.stderr)
        pages = corpus.query(Lake.open(str(root)), "select url, body_bytes from pages order by host, url")
        floor = floor_cpu_s(farm, pages["url"].to_list())
        scrapy = scrapy_pages(farm, folder, options.minutes) if SCRAPY.exists() else None
    if scrapy and not scrapy[0]:
        raise SystemExit("expected Scrapy to fetch pages, found none: see its errors above")
    rate = pages.height / ours.cpu_s
    floor_rate = pages.height / floor
    report(
        "crawl",
        {
            "pages": pages.height, "pages_per_cpu_s": rate, "floor_pages_per_cpu_s": floor_rate,
            "cpu_ratio_to_floor": floor_rate / rate, "pages_per_s": pages.height / ours.wall_s,
            "peak_rss_mb": ours.peak_mb, "scrapy_pages": scrapy[0] if scrapy else None,
            "scrapy_pages_per_cpu_s": scrapy[0] / scrapy[1].cpu_s if scrapy else None,
            "times_scrapy": rate / (scrapy[0] / scrapy[1].cpu_s) if scrapy else None,
        },
        [("cpu_ratio_to_floor", "<=", 4.0), ("cpu_ratio_to_floor", "<=", 2.0), ("times_scrapy", ">=", 5.0)],
        {"hosts": len(farm.hosts), "page_kb": int(pages["body_bytes"].sum()) // pages.height // 1000},
        as_json=options.json,
    )  # fmt: skip


def floor_cpu_s(farm: site_farm.Farm, urls: Iterable[str]) -> float:
    """CPU seconds of the least that could be done with the same pages: a kept connection per host, one thread."""
    compress = zstandard.ZstdCompressor(level=3).compress
    started = time.process_time()
    for body in _bodies(farm, urls):
        LexborHTMLParser(body)
        compress(body)
        xxhash.xxh3_64_intdigest(body)
    return time.process_time() - started


def _bodies(farm: site_farm.Farm, urls: Iterable[str]) -> Iterator[bytes]:
    for host, of_host in groupby(urls, key=lambda url: urlsplit(url).hostname or ""):
        with socket.create_connection((farm.hosts[host][0], farm.port)) as connection:
            for url in of_host:
                path = urlsplit(url)._replace(scheme="", netloc="").geturl()
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{farm.port}\r\n\r\n".encode())
                yield _body(connection)


def _body(connection: socket.socket) -> bytes:
    """Read one answer with a Content-Length, as nginx gives for files."""
    data = connection.recv(1 << 20)
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 20)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    parts, have = [body], len(body)
    while have < length:
        parts.append(connection.recv(1 << 20))
        have += len(parts[-1])
    return b"".join(parts)


def scrapy_pages(farm: site_farm.Farm, folder: Path, minutes: float) -> tuple[int, Cost]:
    """Let Scrapy crawl the same seeds with robots.txt, a job folder and pages written to a file."""
    settings = folder / "scrapy.json"
    settings.write_text(json.dumps({"seeds": list(farm.seeds), "hosts": {n: a[0] for n, a in farm.hosts.items()}}))
    with tempfile.TemporaryDirectory() as job:
        out = Path(job) / "pages.jsonl"
        cost = run(
            [str(SCRAPY), "runspider", str(SPIDER), "-a", f"settings={settings}", "-o", str(out),
             "-s", f"JOBDIR={job}/job", "-s", f"CLOSESPIDER_TIMEOUT={minutes * 60:.0f}", "-s", "LOG_LEVEL=ERROR"],
            env=os.environ | {"PYTHONWARNINGS": "ignore"}, stdout=sys.stderr,
        )  # fmt: skip
        return sum(1 for _ in out.open()), cost


if __name__ == "__main__":
    main()
