"""Time travel: which versions of the tables show the lake as a round found it.

Decides by what versions hold, not by when they were committed: clocks of workers differ, and a picture that is a
commit too old or too new is another picture. A version comes before a round if none of its files may hold rows of that
round or a later one, in the round's buckets; statistics in the log tell, and no file is opened for that.

Logs are read at their newest version: which of their rows exist is said by `rounds`, whose version is an old one.
"""

from collections.abc import Mapping, Sequence

import deltalake
import polars as pl
from deltalake.exceptions import DeltaError

from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.lake import layouts
from crawl_pipeline.lake.delta import DeltaTable

TRAVELS = ("rounds", *(name for name, table in TABLES.items() if table.kind == "state"))
"""Tables whose rows are replaced as time goes on, `rounds` first."""


class TooLongAgo(Exception):
    """The files or the log of a version have been deleted."""


def before(tables: Mapping[str, DeltaTable], buckets: Sequence[int], round_: int) -> dict[str, int]:
    """Versions that show the buckets as the round found them, and everything that was committed until it was."""
    layout = layouts.at(tables["rounds"])
    if round_ <= layout.number:
        raise TooLongAgo(f"the lake was rebucketed since, in round {layout.number}: its buckets were others then")
    found = {name: _before(tables[name], buckets, round_) for name in TRAVELS}
    for name in TRAVELS[1:]:
        _check(tables[name], found[name], buckets)
    found["ranks"] = _ranks_seen(tables["rounds"], buckets, round_)
    _check(tables["ranks"], found["ranks"], None)
    return found | {name: tables[name].read(_version) for name in tables if name not in found}


def _ranks_seen(rounds: DeltaTable, buckets: Sequence[int], round_: int) -> int:
    """The version of `ranks` that the round was planned with; 0, without any, if there was no ranking."""
    live = rounds.live().filter(pl.col("bucket").is_in(buckets))
    rows = rounds.rows(live).filter(pl.col("round") == round_, pl.col("bucket").is_in(buckets))
    return rows.select(pl.col("ranks_seen").max()).collect().item() or 0


def _before(table: DeltaTable, buckets: Sequence[int], round_: int) -> int:
    """The last version before the round's first rows. Rounds of a bucket come in order, so search by halves."""
    low, high = -1, table.read(_version)
    if not _reached(table, high, buckets, round_):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reached(table, middle, buckets, round_) else (middle, high)
    return low


def _reached(table: DeltaTable, version: int, buckets: Sequence[int], round_: int) -> bool:
    try:
        live = table.live(version)
    except DeltaError:  # the log was trimmed: older than all that can be opened
        return False
    return live.filter(pl.col("bucket").is_in(buckets) & (pl.col("max_round") >= round_)).height > 0


def _check(table: DeltaTable, version: int, buckets: Sequence[int] | None) -> None:
    try:
        live = table.live(version)
        live = live if buckets is None else live.filter(pl.col("bucket").is_in(buckets))
        table.rows(live).select(pl.len()).collect()  # reads the footer of each file
    except (DeltaError, OSError, pl.exceptions.ComputeError) as trouble:
        raise TooLongAgo(f"version {version} of {table.table.name!r} has been deleted") from trouble


def _version(opened: deltalake.DeltaTable) -> int:
    return int(opened.version())
