"""A moment of the past: which rounds were committed by then, and the files that show the lake as they had left it.

A moment is a set of rounds, of each bucket its first ones: all up to a number, all that had ended by a time, or those
of a version of the table `rounds`. Logs keep their rows and are read as they are now, by these rounds. State is
rewritten, so it is read from old versions, chosen for each bucket by what they hold (`lake.then`): clocks of workers
differ. Of clusters, which belong to no round, the version is the one that the store had at that time.

What is forgotten now is hidden in the past too. Nothing here writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from crawl_pipeline.core.tables import Table

if TYPE_CHECKING:
    from crawl_pipeline.lake import Lake

_PAIRS = ("bucket", "round", "ended_at")


class NoSuchMoment(Exception):
    """The lake was not there then, or what it was then has been deleted."""


@dataclass(frozen=True)
class Moment:
    """A lake as it was: the same as `table_views.Files`, but of the past."""

    lake: "Lake"
    at: datetime
    committed: pl.DataFrame = field(repr=False)

    @property
    def root(self) -> str:
        """The lake's address."""
        return self.lake.root

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table there is, those of modules included."""
        return self.lake.tables

    @property
    def uneven(self) -> frozenset[str]:
        """Tables some files of which may lack columns that were added later."""
        return self.lake.uneven

    def files(self, table: str, /) -> list[str]:
        """Parquet files of a table then, rows of later rounds among them."""
        return self._then(table)["uri"].to_list()

    def dataset(self, table: str, /) -> object:
        """The same as Arrow, for lakes whose files DuckDB cannot open itself: the rows of state lie in memory."""
        if self.lake.tables[table].kind in ("state", "derived"):
            return self.lake.rows_of(table, self._then(table)).collect().to_arrow()
        return self.lake.dataset(table)

    @cached_property
    def forgotten(self) -> pl.DataFrame:
        """URLs whose pages are not to be shown any more."""
        ordered = self.lake.scan("orders", where=pl.col("kind") == "forget").select(pl.len()).collect().item()
        where = pl.col("status") == "forgotten" if ordered else pl.lit(value=False)
        return self.lake.scan("frontier", where=where).select("url_hash").collect()

    def _then(self, table: str) -> pl.DataFrame:
        from crawl_pipeline.lake import WEEK, TooLongAgo  # noqa: PLC0415 (keeps the code server small)

        last = dict(self.committed.group_by("bucket").agg(pl.col("round").max()).iter_rows())
        try:
            return self.lake.then(table, last, self.at)
        except TooLongAgo as gone:
            ended = self.lake.scan("rounds").select(pl.col("ended_at").max()).collect().item()
            raise NoSuchMoment(
                f"expected the lake as it was on {self.at:%F %T} UTC, found that {gone}: maintenance keeps a week; "
                f"name a time from {ended - timedelta(hours=WEEK):%F %T} UTC on, or a later round"
            ) from gone


def of(
    lake: "Lake", *, version: int | None = None, at: datetime | None = None, round: int | None = None
) -> "Lake | Moment":
    """The lake as it was at a version of `rounds`, at a time, or once a round was committed; without one, as it is."""
    given = [name for name, value in (("version", version), ("at", at), ("round", round)) if value is not None]
    if len(given) > 1:
        raise NoSuchMoment(f"expected one of version, at and round, found {' and '.join(given)}: leave out the others")
    if not given:
        return lake
    rounds = lake.scan("rounds").select(_PAIRS).collect()
    if round is not None:
        return _after(lake, rounds, round)
    return _at(lake, rounds, at) if at is not None else _of_version(lake, rounds, version or 0)


def _after(lake: "Lake", rounds: pl.DataFrame, number: int) -> Moment:
    if number not in rounds["round"]:
        raise NoSuchMoment(f"expected the number of a committed round, found {number}: {_has(rounds)}")
    return _moment(lake, rounds.filter(pl.col("round") <= number))


def _at(lake: "Lake", rounds: pl.DataFrame, at: datetime) -> Moment:
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if at > datetime.now(UTC):
        raise NoSuchMoment(f"expected a time that has passed, found {at:%F %T} UTC: {_has(rounds)}")
    done = rounds.filter(pl.col("ended_at") <= at)
    if done.is_empty():
        raise NoSuchMoment(f"expected a time by which a round had ended, found {at:%F %T} UTC: {_has(rounds)}")
    return _moment(lake, done, at)


def _of_version(lake: "Lake", rounds: pl.DataFrame, version: int) -> Moment:
    newest = lake.versions()["rounds"]
    if not 0 <= version <= newest:
        raise NoSuchMoment(f"expected a version of the table `rounds` within 0 and {newest}, found {version}")
    try:
        then = lake.scan("rounds", at={"rounds": version}).select(_PAIRS).collect()
    except (OSError, ValueError, pl.exceptions.PolarsError) as gone:
        raise NoSuchMoment(f"version {version} of `rounds` cannot be read any more: {_has(rounds)}") from gone
    if then.is_empty():
        raise NoSuchMoment(f"expected a version in which a round was committed, found {version}: {_has(rounds)}")
    return _moment(lake, then)


def _moment(lake: "Lake", rounds: pl.DataFrame, at: datetime | None = None) -> Moment:
    return Moment(lake, at or rounds["ended_at"].max(), rounds.select("bucket", "round"))  # type: ignore[arg-type]


def _has(rounds: pl.DataFrame) -> str:
    if rounds.is_empty():
        return "no round has been committed yet, `crawl run` runs one"
    first, last = rounds.sort("round").row(0, named=True), rounds.sort("round").row(-1, named=True)
    return (
        f"the lake has rounds {first['round']} to {last['round']}, which ended from {first['ended_at']:%F %T} to "
        f"{last['ended_at']:%F %T} UTC"
    )
