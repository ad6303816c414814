"""Ways to store bodies, and to lay them out: bytes a page, CPU of a commit, CPU of reading one page by its key.

The pages are Debian's documentation (bench/corpus.sh), dealt out to rounds as a crawl would: each round has pages of
every host. Each way is written through the lake, once per round; then the files are joined, as tidying does.

* `page`: each body packed by itself (zstd, level 3), before it is handed to Parquet.
* `dictionary`: the same with a dictionary trained on each round's pages, which is stored beside them.
* `parquet`: bodies as they came, those of a host side by side; Parquet's zstd packs a megabyte of them at a time.
* `parquet_mixed`: the same in an order without sense.

And for the layout: files and CPU of a round's commit by month alone, and by bucket and month.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import zstandard

from bench.constants import column_bytes
from bench.figures import Target, report
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.tables import CONTENTS, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.delta import Backoff, Change, DeltaTable
from crawl_pipeline.testing import site_farm

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BUCKETS, READS, DICTIONARY_BYTES = 16, 40, 112_640
TARGETS: list[Target] = [
    ("parquet_times_smaller", ">=", 1.2),
    ("parquet_read_ms", "<=", 20.0),
    ("commit_cpu_ratio", "<=", 1.3),
]

Pack = Callable[[list[bytes]], tuple[list[bytes], int]]
"""Bodies of a round as they are handed to Parquet, and bytes beside them."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the corpus."""

    host: str
    path: str
    body: bytes


def corpus(pages: int) -> list[Page]:
    """So many pages, drawn from all documentation."""
    with tempfile.TemporaryDirectory() as folder:
        farm = site_farm.farm(Path(folder), hosts=1)
    found = [(family, file, f"/{file.relative_to(tree)}") for family, tree in sorted(farm.trees.items())
             for file in sorted(tree.rglob("*.html")) if file.is_file()]  # fmt: skip
    drawn = random.Random(1).sample(found, min(pages, len(found)))
    return [Page(farm.owner(family, path), path, file.read_bytes()) for family, file, path in drawn]


def rounds_of(pages: list[Page], count: int) -> list[list[Page]]:
    """The pages dealt out to rounds, in each by host and path."""
    return [sorted(pages[at::count], key=lambda page: (page.host, page.path)) for at in range(count)]


def by_itself(bodies: list[bytes]) -> tuple[list[bytes], int]:
    """Pack each body alone."""
    pack = zstandard.ZstdCompressor(level=3).compress
    return [pack(body) for body in bodies], 0


def with_dictionary(bodies: list[bytes]) -> tuple[list[bytes], int]:
    """Train on a tenth of the round, pack each body with that."""
    samples: list[bytes | bytearray | memoryview] = [*bodies[::10]]
    words = zstandard.train_dictionary(DICTIONARY_BYTES, samples)
    pack = zstandard.ZstdCompressor(level=3, dict_data=words).compress
    return [pack(body) for body in bodies], len(zstandard.compress(words.as_bytes()))


def as_they_came(bodies: list[bytes]) -> tuple[list[bytes], int]:
    """Leave it to Parquet."""
    return bodies, 0


def measured(pages: list[Page], rounds: int, pack: Pack, *, mixed: bool = False) -> dict[str, float]:
    """Store the pages in rounds, join the files, read some pages."""
    with tempfile.TemporaryDirectory(prefix="bench-bodies-") as root:
        lake, beside, cpu_s = Lake.create(root, BUCKETS), 0, 0.0
        lease = lake.claim(range(BUCKETS), "bench", NOW, 3_600)
        for of_round in rounds_of(pages, rounds):
            chosen = random.Random(2).sample(of_round, len(of_round)) if mixed else of_round
            began = time.process_time()
            packed, more = pack([page.body for page in chosen])
            frame = _frame(chosen, packed)
            lake.write(lease, "contents", frame.drop("round"))
            cpu_s += time.process_time() - began
            lake.commit(lease, _ledger())
            lease, beside = lake.renew(lease, NOW, 3_600), beside + more
        lake.tidy("contents", files=2)
        stored = column_bytes(lake, "contents")["body"] + beside
        return {
            "bytes": stored / len(pages), "cpu_us": cpu_s / len(pages) * 1e6, "read_ms": _read_ms(lake),
        }  # fmt: skip


def _frame(pages: list[Page], packed: list[bytes]) -> pl.DataFrame:
    return CONTENTS.frame(
        [{"bucket": n % BUCKETS, "month": "2026-03", "body_hash": content_hash(page.body), "charset": "utf-8",
          "body_bytes": len(page.body), "body": body, "text": ""}
         for n, (page, body) in enumerate(zip(pages, packed, strict=True))]
    )  # fmt: skip


def _ledger() -> pl.DataFrame:
    return ROUNDS.frame(pl.DataFrame({"bucket": range(BUCKETS)})).drop("round")


def _read_ms(lake: Lake) -> float:
    """CPU of reading one body, given what its row of `pages` says: round and hash."""
    keys = lake.scan("contents").select("round", "body_hash").collect().sample(READS, seed=3).rows()
    began = time.process_time()
    for round_, body_hash in keys:
        wanted = (pl.col("round") == round_) & (pl.col("body_hash") == body_hash)
        assert lake.scan("contents", where=wanted).select("body").collect().height
    return (time.process_time() - began) / READS * 1e3


def laid_out(pages: list[Page], partitioned_by: tuple[str, ...]) -> dict[str, float]:
    """Commit a round's contents under one partitioning; files, bytes a page, milliseconds of CPU."""
    table = replace(CONTENTS, partitioned_by=partitioned_by)
    frame = _frame(pages, [page.body for page in pages]).with_columns(round=pl.lit(1, pl.Int64))
    with tempfile.TemporaryDirectory(prefix="bench-bodies-") as root:
        opened = DeltaTable(root, table, {}, Backoff())
        opened.create()
        began = time.process_time()
        opened.commit(lambda _: Change(frame))
        cpu_ms, live = (time.process_time() - began) * 1e3, opened.live()
    return {"files": live.height, "bytes": float(live["size"].sum()) / len(pages), "cpu_ms": cpu_ms}


def figures(pages: list[Page], rounds: int) -> dict[str, float]:
    """All of it, the ways in turn."""
    ways: dict[str, tuple[Pack, bool]] = {
        "page": (by_itself, False), "dictionary": (with_dictionary, False), "parquet": (as_they_came, False),
        "parquet_mixed": (as_they_came, True),
    }  # fmt: skip
    found = {"raw_bytes": sum(len(page.body) for page in pages) / len(pages)}
    measured(pages[:200], 2, as_they_came)  # warm up
    for name, (pack, mixed) in ways.items():
        found |= {f"{name}_{what}": value for what, value in measured(pages, rounds, pack, mixed=mixed).items()}
    one = rounds_of(pages, rounds)[0]
    for name, columns in (("month", ("month",)), ("bucket_month", ("bucket", "month"))):
        found |= {f"by_{name}_{what}": value for what, value in laid_out(one, columns).items()}
    found["parquet_times_smaller"] = found["page_bytes"] / found["parquet_bytes"]
    found["commit_cpu_ratio"] = found["parquet_cpu_us"] / found["page_cpu_us"]
    return found


def main() -> None:
    """Measure, print a table, and one JSON object if asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=4_000)
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    pages = corpus(given.pages)
    settings = {"pages": len(pages), "rounds": given.rounds, "hosts": len({page.host for page in pages})}
    report("bodies", figures(pages, given.rounds), TARGETS, settings, as_json=given.json)


if __name__ == "__main__":
    main()
