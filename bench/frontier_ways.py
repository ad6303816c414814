"""The same round's changes of the frontier written in other ways, for bench.frontier: Delta's MERGE, and a rewrite.

Both keep one row per URL in a plain Delta table, so that no tail need be laid over a base and none be folded. They are
held against what a round of this lake pays: its tail, and its share of the fold that comes later.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import deltalake
import polars as pl
from deltalake import write_deltalake

from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.delta import writer


@dataclass(frozen=True, slots=True)
class Price:
    """What a way took: CPU seconds of all threads, and bytes of new data files."""

    cpu_s: float
    bytes: float

    def times(self, other: "Price") -> tuple[float, float]:
        """How many times the other this is."""
        return self.cpu_s / other.cpu_s, self.bytes / other.bytes


def priced(folder: str, step: Callable[[], object]) -> Price:
    """Take a step that writes Parquet files below a folder."""
    before, cpu = files(folder), time.process_time()
    step()
    cpu = time.process_time() - cpu
    return Price(cpu, sum(size for name, size in files(folder).items() if name not in before))


def files(folder: str) -> dict[str, int]:
    """Sizes of all data files below a folder."""
    return {str(file): file.stat().st_size for file in Path(folder).rglob("*.parquet") if "_delta_log" not in str(file)}


def merged(lake: Lake, changed: pl.DataFrame, folder: str) -> Price:
    """Change the rows by Delta's MERGE on the URL's hash."""
    table = _plain(lake, f"{folder}/merge")

    def step() -> None:
        merge = table.merge(
            changed, "known.url_hash = changed.url_hash", source_alias="changed", target_alias="known",
            writer_properties=writer(FRONTIER),
        )  # fmt: skip
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return priced(f"{folder}/merge", step)


def rewritten(lake: Lake, changed: pl.DataFrame, folder: str) -> Price:
    """Read every row, lay the changed ones over them, write all anew."""
    table = _plain(lake, f"{folder}/rewrite")

    def step() -> None:
        known = pl.scan_parquet(table.file_uris(), glob=False)
        kept = known.join(changed.lazy(), on="url_hash", how="anti")
        rows = pl.concat([kept, changed.lazy().select(kept.collect_schema().names())]).collect().rechunk()
        write_deltalake(table, rows, mode="overwrite", writer_properties=writer(FRONTIER))

    return priced(f"{folder}/rewrite", step)


def _plain(lake: Lake, root: str) -> deltalake.DeltaTable:
    write_deltalake(root, lake.scan("frontier").collect().rechunk(), writer_properties=writer(FRONTIER))
    return deltalake.DeltaTable(root)
