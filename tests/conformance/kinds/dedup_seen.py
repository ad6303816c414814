"""Dedup of URLs: what is new. Every op runs the seen set over a lake as a worker does: filters, then the frontier.

Run as a module it is the second worker of `seen_restart`, in a process of its own: it prints how many URLs it knows.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.seen import Filter
from crawl_pipeline.core.tables import FRONTIER, ROUNDS
from crawl_pipeline.core.urls import NotCrawlable, canonical, url_hash
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning import SeenSet, read_cursors
from crawl_pipeline.planning.sight import Sight
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input

NOW = datetime(2026, 7, 1, tzinfo=UTC)
POLICY = Policy.model_validate({"agent": {"name": AGENT, "contact": "https://bot.example/"}})
BATCHES = 5


class Worker:
    """Holds the only bucket of a lake, and makes frontier rows of whatever is new to it."""

    def __init__(self, lake: Lake, false_positives: float) -> None:
        self.lake, self.seen = lake, SeenSet()
        self.lease = lake.claim([0], f"w{os.getpid()}", NOW, 600)
        section = POLICY.seen.model_copy(update={"filter_from": 0, "false_positives": false_positives})
        self.policy = POLICY.model_copy(update={"seen": section})

    def known(self, hashes: Sequence[int]) -> set[int]:
        """Look URLs up."""
        links = pl.DataFrame({"target_bucket": 0, "url_hash": pl.Series(hashes, dtype=pl.Int64)})
        sight = Sight(self.lake, self.lease, self.lake.versions(), NOW)
        links = links.with_columns(pl.col("target_bucket").cast(pl.Int16))
        return set(self.seen.known(sight, links, read_cursors(self.lake, self.lease), self.policy).hashes)

    def admit(self, hashes: Sequence[int]) -> int:
        """Make a round of what is new; say how many were."""
        known = self.known(hashes)
        new = [each for each in dict.fromkeys(hashes) if each not in known]
        rows = FRONTIER.frame([{"bucket": 0, "url_hash": each, "host": "h"} for each in new]).drop("round", "layer")
        done = [{"bucket": 0, "known_count": 1, "links_seen": [self.lease.round - 1], "orders_seen": -1}]
        self.lake.write(self.lease, FRONTIER, rows)
        self.lake.commit(self.lease, ROUNDS.frame(done).drop("round"))
        self.seen.committed(self.lease, rows)
        self.lease = self.lake.renew(self.lease, NOW, 600)
        return len(new)

    def end(self) -> None:
        """End in order: leave the filters to the next one."""
        self.seen.save(self.lake)
        self.lake.release(self.lease)


def _worker(root: str, rate: float = POLICY.seen.false_positives) -> Worker:
    return Worker(Lake.create(f"{root}/lake", 1), rate)


def seen(given: Input) -> dict[str, Json]:
    """Meet URLs one after the other."""
    with tempfile.TemporaryDirectory() as root:
        worker = _worker(root)
        return {"new": [hash_ is not None and worker.admit([hash_]) == 1 for hash_ in map(_hash, given["urls"])]}


def _hash(href: str) -> int | None:
    try:
        return url_hash(canonical(href))
    except NotCrawlable:
        return None


def seen_restart(given: Input) -> dict[str, Json]:
    """Admit URLs here, and look them up in another process whose hashes are salted differently."""
    with tempfile.TemporaryDirectory() as root:
        worker, hashes = _worker(root), _hashes(given["urls_gen"])
        worker.admit(hashes)
        worker.known(hashes)  # the filter is made by the first look that finds known URLs
        worker.end()
        done = subprocess.run(
            [sys.executable, "-m", __name__, worker.lake.root], input="\n".join(map(str, hashes)),
            env={**os.environ, "PYTHONHASHSEED": "4711"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return {"lost": len(hashes) - int(done.stdout)}


def _hashes(gen: Input) -> list[int]:
    return [url_hash(canonical(f"{gen['prefix']}{k}")) for k in range(gen["n"])]


def filter_rate(given: Input) -> dict[str, Json]:
    """Fill a filter and probe it with what is in it and what is not."""
    hashes = pl.Series([url_hash(f"https://h.example/{k}") for k in range(given["n"] + given["probes"])])
    inside, outside = hashes.head(given["n"]), hashes.tail(given["probes"])
    made = Filter.of(inside, given["error_rate"])
    return {
        "false_negatives": len(inside) - int(made.maybe(inside).sum()),
        "false_positive": int(made.maybe(outside).sum()) / len(outside),
    }


def filter_false_positive(given: Input) -> dict[str, Json]:
    """Admit URLs batch by batch, none of them twice: whoever is not new was dropped by a filter's mistake."""
    hashes = _hashes(given["urls_gen"])
    size = -(-len(hashes) // BATCHES)
    with tempfile.TemporaryDirectory() as root:
        worker = _worker(root, given["error_rate"])
        new = sum(worker.admit(hashes[at : at + size]) for at in range(0, len(hashes), size))
    return {"wrongly_dropped": len(hashes) - new}


def main() -> None:
    """Take the lake over and say how many of the hashes on standard input are known."""
    worker = Worker(Lake.open(sys.argv[1]), POLICY.seen.false_positives)
    print(len(worker.known([int(line) for line in sys.stdin])))


ADAPTERS: Adapters = {
    ("dedup", "seen"): seen,
    ("dedup", "seen_restart"): seen_restart,
    ("dedup", "filter_rate"): filter_rate,
    ("dedup", "filter_false_positive"): filter_false_positive,
}

if __name__ == "__main__":
    main()
