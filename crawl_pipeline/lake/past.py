"""Time travel: which versions of the tables show the lake as a round found it.

Decides by what versions hold, not by when they were committed: clocks of workers differ, and a picture that is a
commit too old or too new is another picture. A version comes before a round if none of its files may hold rows of that
round or a later one, in the round's buckets; statistics in the log tell, and no file is opened for that.

Logs are read at their newest version: which of their rows exist is said by `rounds`, whose version is an old one.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache

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


def then(opened: DeltaTable, layout: layouts.Layout, last: Mapping[int, int], at: datetime) -> pl.DataFrame:
    """Live files of a table that show it as these last rounds of buckets had left it; tails may hold later rounds.

    Of a state table each bucket has a version of its own: the last one before a fold took in a later round. Logs have
    all they ever had. Clusters belong to no round: what the store had at that time is shown.
    """
    if opened.table.kind == "derived":
        return _by_clock(opened, at)
    if opened.table.kind != "state":
        return opened.live()
    if max(last.values()) < layout.number:
        raise TooLongAgo(f"the lake was rebucketed since, in round {layout.number}: its buckets were others then")
    chosen: dict[int, list[int]] = {}
    reached = _bases(opened)
    newest = opened.read(_version)
    for bucket in range(layout.buckets):
        version = _unfolded(reached, newest, bucket, max(last.get(bucket, 0), layout.number))
        chosen.setdefault(version, []).append(bucket)
    for version in sorted(chosen.keys() - {newest}):
        _check(opened, version, chosen[version])
    live = [layouts.seen(opened.live(version), layout).filter(pl.col("bucket").is_in(buckets))
            for version, buckets in chosen.items()]  # fmt: skip
    return pl.concat(live)


def _bases(table: DeltaTable) -> Callable[[int], Mapping[int, int]]:
    """A function that tells the last round in the base of each bucket in a version, each version looked at once."""

    @cache
    def reached(version: int) -> Mapping[int, int]:
        try:
            live = table.live(version).filter(pl.col("layer") == "base")
        except DeltaError:  # the log was trimmed: older than all that can be opened
            return {}
        return dict(live.group_by("bucket").agg(pl.col("max_round").max().fill_null(0)).iter_rows())

    return reached


def _unfolded(reached: Callable[[int], Mapping[int, int]], newest: int, bucket: int, until: int) -> int:
    """The newest version in which the base of a bucket holds no round after `until`."""
    low, high = -1, newest
    if reached(high).get(bucket, 0) <= until:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle).get(bucket, 0) > until else (middle, high)
    return low


def _by_clock(table: DeltaTable, at: datetime) -> pl.DataFrame:
    try:
        version = table.read(lambda opened: _version_at(opened, at))
        live = table.live(version)
        table.rows(live).select(pl.len()).collect()
    except (DeltaError, OSError, pl.exceptions.ComputeError) as trouble:
        raise TooLongAgo(f"{table.table.name!r} as it was then has been deleted") from trouble
    return live


def _version_at(opened: deltalake.DeltaTable, at: datetime) -> int:
    """The last version of that time. The first one, which is empty, if there was none yet."""
    before = [
        entry["version"] for entry in opened.history() if datetime.fromtimestamp(entry["timestamp"] / 1e3, UTC) <= at
    ]
    return int(max(before, default=0))


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
