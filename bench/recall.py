"""Recall and politeness on pages nobody here wrote: Debian's documentation, judged by nginx's own access log.

The set of pages fetched is compared with the set of files reachable by links, which another link reader (lxml) finds on
the disk without asking anybody.
"""

import argparse
import subprocess
import sys
from collections import Counter
from itertools import groupby, pairwise

from bench import farm_crawl
from bench.figures import report
from crawl_pipeline import corpus
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import access_log, farm_survey, site_farm

# nginx logs whole milliseconds, for the start and for the end.
CLOCK_S = 0.002


def main() -> None:
    """Crawl the farm and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--delay-s", type=float, default=0.05)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with farm_crawl.served(options.hosts) as (farm, folder):
        root = farm_crawl.prepared(farm, folder, delay_s=options.delay_s)
        command = [
            sys.executable,
            "-m",
            "crawl_pipeline",
            "--lake",
            str(root),
            "run",
            "--minutes",
            str(options.minutes),
        ]
        subprocess.run(command, check=True)
        log = site_farm.rows(farm.log)
        wanted = farm_survey.reachable(farm)
        rows = corpus.query(Lake.open(str(root)), "select url, count(*) as n from pages group by url")
        lake_requests = corpus.query(Lake.open(str(root)), "select count(*) as n from fetches").item()
    fetched = Counter(dict(rows.iter_rows()))
    too_soon, overlapping = violations(log, options.delay_s)
    report(
        "recall",
        {
            "hosts": len(farm.hosts), "reachable_pages": len(wanted), "fetched_pages": len(fetched),
            "missing_pages": len(wanted - set(fetched)), "unexpected_pages": len(set(fetched) - wanted),
            "pages_fetched_twice": sum(n > 1 for n in fetched.values()), "requests_in_server_log": len(log),
            "requests_not_in_both_logs": abs(len(log) - lake_requests), "asked_too_soon": too_soon,
            "asked_while_answering": overlapping,
        },
        [("hosts", ">=", 50), ("missing_pages", "==", 0), ("unexpected_pages", "==", 0),
         ("pages_fetched_twice", "==", 0), ("requests_not_in_both_logs", "==", 0),
         ("asked_too_soon", "==", 0), ("asked_while_answering", "==", 0)],
        {"delay_s": options.delay_s, "corpus": "python3-doc, libboost-doc"}, as_json=options.json,
    )  # fmt: skip
    for url in sorted(wanted - set(fetched))[:5]:
        print("missing:", url, file=sys.stderr)
    for url in sorted(set(fetched) - wanted)[:5]:
        print("unexpected:", url, file=sys.stderr)


def violations(log: list[access_log.Row], delay_s: float) -> tuple[int, int]:
    """Count requests of one host that started too soon after, or before the end of, the one before, by its server."""
    too_soon = overlapping = 0
    by_host = sorted(log, key=lambda row: (row.host, row.started_at))
    for _, rows in groupby(by_host, key=lambda row: row.host):
        for before, after in pairwise(rows):
            wait_s = (after.started_at - before.ended_at) / 1e6
            too_soon += wait_s < delay_s - CLOCK_S
            overlapping += wait_s < -CLOCK_S
    return too_soon, overlapping


if __name__ == "__main__":
    main()
