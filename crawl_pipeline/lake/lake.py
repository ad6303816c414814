"""The lake as the rest of the crawl sees it: open it, take buckets, write a round, commit it, read.

Start here, then read the module a method calls. Decides nothing itself. Safe to share between threads; a process
that was forked must open the lake again.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import deltalake
import polars as pl
import pyarrow.dataset as ds
from pyarrow import fs

from crawl_pipeline.core.tables import LEASES, TABLES, Table
from crawl_pipeline.lake import (
    caching,
    declaring,
    deriving,
    doubles,
    erasing,
    folding,
    layouts,
    leases,
    moving,
    past,
    probing,
    ranking,
    sweeping,
    tidying,
    visible,
    writing,
)
from crawl_pipeline.lake.delta import WEEK, Backoff, DeltaTable, LakeMismatch, LakeMissing
from crawl_pipeline.lake.deriving import Clustered
from crawl_pipeline.lake.erasing import Cut, Deleted, Rewritten
from crawl_pipeline.lake.folding import SHAPE, Shape
from crawl_pipeline.lake.layouts import Layout
from crawl_pipeline.lake.leases import Lease
from crawl_pipeline.lake.moving import Move
from crawl_pipeline.lake.probing import Probed
from crawl_pipeline.lake.ranking import Ranking
from crawl_pipeline.lake.visible import Wanted

MOST_BUCKETS = 1024
# Delta on S3 is safe through conditional writes. These two settings replace them: the first was dropped by the
# library, which ignores it (delta-rs #4464), the second overwrites other writers' commits.
UNSAFE = {"aws_s3_locking_provider": ("dynamodb",), "aws_s3_allow_unsafe_rename": ("true", "1", "yes")}


class LakeExists(Exception):
    """There is a lake at the root already."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is live in a table, rows that no reader sees among them."""

    files: int
    bytes: int
    rows: int


class Lake:
    """Every table of the crawl under one root."""

    def __init__(
        self, root: str, tables: dict[str, DeltaTable], buckets: int, opener: Callable[[Table], DeltaTable]
    ) -> None:
        self.root = root
        self.buckets = buckets
        self.caches = caching.folder(root)
        """Files that may be deleted at any time."""
        self._tables, self._opener = tables, opener

    @classmethod
    def create(
        cls,
        root: str,
        buckets: int,
        storage_options: Mapping[str, str] | None = None,
        backoff: Backoff | None = None,
    ) -> "Lake":
        """Make every table and stamp the bucket count. If it was killed half way, it can be repeated.

        Of several who do this at once one makes the lake, with the count that was stamped first; that also holds after
        a kill. The others raise LakeExists.
        """
        check_count(buckets)
        tables = _tables(_opener(root, storage_options, backoff))
        there = LakeExists(
            f"expected no lake at {root}, found one: it is ready for use; its policy can be edited at any time"
        )
        if tables["leases"].exists():
            raise there
        for table in tables.values():
            if table.table is not LEASES:
                table.create()
        layouts.begin(tables["rounds"], buckets)
        begun = layouts.at(tables["rounds"]).buckets  # another's, if several make it at once or one was killed at it
        if not tables["leases"].create(leases.first_rows(begun)):  # last: a lake is there once its leases are
            raise there
        return cls.open(root, storage_options, backoff)

    @classmethod
    def open(
        cls, root: str, storage_options: Mapping[str, str] | None = None, backoff: Backoff | None = None
    ) -> "Lake":
        """Open a lake whose tables are exactly the declared ones, and those that modules have declared."""
        opener = _opener(root, storage_options, backoff)
        tables = _tables(opener)
        if not tables["leases"].exists():
            raise LakeMissing(
                f"expected a lake at {root}, found none: make one with `crawl init`, or name another with --lake"
            )
        with ThreadPoolExecutor(len(tables)) as pool:
            list(pool.map(DeltaTable.check, tables.values()))
        for table in declaring.known(tables["module_tables"]):
            tables[table.name] = opener(table)
            tables[table.name].check()
        return cls(root, tables, layouts.at(tables["rounds"]).buckets, opener)

    @classmethod
    def upgrade(
        cls,
        root: str,
        now: datetime,
        storage_options: Mapping[str, str] | None = None,
        backoff: Backoff | None = None,
    ) -> list[str]:
        """Give a lake that an earlier version made the tables and columns of this one; say which were absent.

        What was stored stays as it is: columns that came later are null in it. Can be killed and repeated. Raise
        LeaseHeld while a worker holds a bucket, LakeMismatch where more differs than what is absent.
        """
        tables = _tables(_opener(root, storage_options, backoff))
        if not tables["leases"].exists():
            raise LakeMissing(f"expected a lake at {root}, found none: name another with --lake")
        if not tables["rounds"].exists():
            raise LakeMismatch(
                f"expected the table 'rounds' at {tables['rounds'].uri}, found none: every version has it, and without "
                "it nothing that was stored counts; put it back"
            )
        leases.expect_none_held(tables["leases"], now)
        return [name for table in tables.values() for name in _upgraded(table)]

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table by name, those of modules included."""
        return {name: opened.table for name, opened in self._tables.items()}

    def declare(self, tables: Mapping[str, Table]) -> None:
        """Make tables for modules, each with the name of its module, and name them to all who open the lake later.

        Raise LakeMismatch if one of them is there with other columns.
        """
        for table in tables.values():
            opened = self._opener(table)
            opened.create()
            self._tables.setdefault(table.name, opened)
        declaring.declare(self._tables["module_tables"], tables)
        for table in tables.values():
            self._tables[table.name].check()

    @property
    def uneven(self) -> frozenset[str]:
        """Tables some files of which may lack columns that were added later."""
        return frozenset(name for name, opened in self._tables.items() if opened.uneven)

    @property
    def layout(self) -> Layout:
        """The layout in force: it changes when the lake is rebucketed, be it by another process."""
        return layouts.at(self._tables["rounds"])

    def once_in(self, buckets: Sequence[int]) -> tuple[int, ...]:
        """The buckets in which logs of hosts of these buckets may lie: more than these once the lake was rebucketed."""
        return self.layout.once_in(buckets, MOST_BUCKETS)

    @property
    def gone(self) -> range:
        """Buckets that the lake may have had and has no more: their logs are still there, and nobody writes them."""
        return range(self.buckets, MOST_BUCKETS)

    def claim(
        self, buckets: Sequence[int], holder: str, now: datetime, lease_s: float, *, skip_held: bool = False
    ) -> Lease:
        """Take the buckets in one commit, then fence off former holders.

        Raise LeaseHeld if one of them is not free; with `skip_held` take those that are, and raise if none is. Raise
        LakeMismatch if the lake was rebucketed since it was opened.
        """
        layouts.expect(self.buckets, self.layout)
        lease = leases.claim(self._tables["leases"], buckets, self.buckets, holder, now, lease_s, skip_held)
        try:
            return writing.raise_fence(self._tables["rounds"], lease, self.buckets)
        except LakeMismatch:
            self.release(lease)
            raise

    def renew(self, lease: Lease, now: datetime, lease_s: float) -> Lease:
        """Prolong the lease and begin a new round; raise LeaseLost if somebody else took over."""
        return leases.renew(self._tables["leases"], lease, now, lease_s)

    def release(self, lease: Lease) -> None:
        """Give the buckets back; raise LeaseLost if somebody else took over."""
        leases.release(self._tables["leases"], lease)

    def write(self, lease: Lease, table: str | Table, frame: pl.DataFrame) -> None:
        """Replace this round's rows of the leased buckets; an empty frame clears them. Nobody sees them yet.

        Absent columns `round` and `layer` are filled in; present ones are checked, as are buckets and schema.
        """
        writing.write(self._tables[_name(table)], lease, frame)

    def write_all(self, lease: Lease, frames: Mapping[str, pl.DataFrame]) -> None:
        """Write several tables side by side."""
        with ThreadPoolExecutor(max(1, len(frames))) as pool:
            list(pool.map(lambda item: self.write(lease, *item), frames.items()))

    def commit(self, lease: Lease, rounds: pl.DataFrame) -> None:
        """Make the round exist for readers: a row of `rounds` per bucket. Raise LeaseLost if fenced off.

        Columns `round`, `epoch` and `worker` are filled in from the lease.
        """
        writing.commit(self._tables["rounds"], lease, rounds)

    def fold(
        self, lease: Lease, table: str | Table, *, share: float = 0.25, rounds: int = 20, least: int = 2_000,
        shape: Shape = SHAPE,
    ) -> tuple[int, ...]:  # fmt: skip
        """Merge tails into bases; give the buckets where that was due.

        It is due when a tail of `least` rows or more passes `share` of its base, or when it has over `rounds` rounds.
        """
        due = folding.Due(share, rounds, least)
        return folding.fold(self._tables["rounds"], self._tables[_name(table)], lease, due, shape)

    def scan(
        self,
        table: str | Table,
        *,
        buckets: Sequence[int] | None = None,
        where: pl.Expr | None = None,
        since: int | None = None,
        at: Mapping[str, int] | None = None,
        url_hashes: pl.Series | None = None,
        parts: Collection[int] | None = None,
        files: Collection[str] | None = None,
    ) -> pl.LazyFrame:
        """Give committed rows; of a state table the newest row per key.

        `buckets` are those the rows are for (of links the target). `since` keeps rounds after that number and skips
        the files of earlier ones. `at` gives versions to read, as from `versions`. `url_hashes` keeps rows of these
        URLs; where they lie is looked up at once, so that little else is read. Of a base, only `parts` are read; of
        live files, only `files`.
        """
        named = None if buckets is None else tuple(buckets)
        wanted = Wanted(named, where, since, self.buckets, at, url_hashes, parts, files)
        return visible.scan(self._tables, self._tables[_name(table)].table, wanted)

    def slices(self, table: str | Table, buckets: Sequence[int], at: Mapping[str, int] | None = None) -> pl.DataFrame:
        """The slices of large hosts in the bases of the buckets: `part`, `host`, `rows`."""
        live = visible.files(self._tables, self._tables[_name(table)].table, Wanted(at=at))
        return (
            live.filter(pl.col("bucket").is_in(buckets) & (pl.col("part") > 0))
            .group_by("part", host="min_host", maintain_order=True)
            .agg(pl.col("rows").sum())
        )

    def give(self, orders: pl.DataFrame, check: Callable[[pl.LazyFrame], None] = lambda _: None) -> int:
        """Append orders and return their number, which is also filled in as their column `order`.

        `check` is shown all orders given before, and no other can come between; what it raises ends the attempt.
        """
        return writing.give(self._tables["orders"], orders, check)

    @property
    def id(self) -> str:
        """What tells this lake, laid out as it is, from any other that was made, at the same place too."""
        made = self._tables["frontier"].read(lambda opened: str(opened.metadata().id))
        return f"{made}-{self.layout.number}"

    def leases(self) -> pl.DataFrame:
        """Every bucket's lease."""
        return self.scan(LEASES, where=pl.col("bucket") < self.layout.buckets).sort("bucket").collect()

    def versions(self) -> dict[str, int]:
        """Newest version of each table, `rounds` first: with `at` they give one picture of the lake."""
        names = ["rounds", *(name for name in self._tables if name != "rounds")]
        return {name: self._tables[name].read(deltalake.DeltaTable.version) for name in names}

    def versions_before(self, buckets: Sequence[int], round_: int) -> dict[str, int]:
        """Versions that show the lake as a committed round of the buckets found it; raise TooLongAgo if deleted."""
        return past.before(self._tables, buckets, round_)

    def then(self, table: str | Table, last: Mapping[int, int], at: datetime) -> pl.DataFrame:
        """Files that show a table as these last rounds of buckets had left it at a time; raise TooLongAgo if deleted.

        Rows of later rounds may be among them, but for bases of state.
        """
        return past.then(self._tables[_name(table)], self.layout, last, at)

    def rows_of(self, table: str | Table, live: pl.DataFrame) -> pl.LazyFrame:
        """Give all rows of files such as `then` names, those of rounds that are not committed among them."""
        return self._tables[_name(table)].rows(live)

    def files(self, table: str | Table, at: int | None = None) -> list[str]:
        """Live Parquet files for hive-partitioned readers; rows of rounds that are not committed are among them."""
        if at is None:
            return visible.files(self._tables, self._tables[_name(table)].table, Wanted())["uri"].to_list()
        return layouts.seen(self._tables[_name(table)].live(at), self.layout)["uri"].to_list()

    def rows_in(self, table: str | Table, files: Collection[str]) -> pl.LazyFrame:
        """Give all rows of some live files, those of rounds that are not committed among them."""
        opened = self._tables[_name(table)]
        return opened.rows(visible.files(self._tables, opened.table, Wanted(files=files)))

    def dataset(self, table: str | Table) -> ds.Dataset:
        """The same files as an Arrow dataset."""
        opened = self._tables[_name(table)]
        of_state = [("layout", "=", str(self.layout.number))] if "layout" in opened.table.partitioned_by else None
        return opened.dataset(of_state)

    def tidy(
        self, table: str | Table, *, buckets: Sequence[int] | None = None, files: int = 32, size: int = 32 << 20
    ) -> bool:
        """Rewrite small files of a log or ledger where a partition has over `files` below `size` bytes; say if so.

        Best called between rounds with the leased buckets: a round that is being written may have to wait for it.
        """
        opened = self._tables[_name(table)]
        if opened.table.kind not in ("log", "ledger") or "round" not in opened.table.column_names:
            raise ValueError(
                f"expected a log or ledger of rounds, found {opened.table.name!r}: state is folded instead"
            )
        return tidying.tidy(opened, buckets, files, size)

    def sweep(self, lease: Lease, table: str | Table) -> int:
        """Delete rows whose rounds were never committed, and cannot be, and rows of past layouts; give how many."""
        return sweeping.sweep(self._tables["rounds"], self._tables[_name(table)], lease)

    def drop_doubles(self, before: datetime) -> int:
        """Drop contents that were stored again by rounds which ended before that time; give how many. Maintenance only.

        The time must be so long ago that no worker is still at a round it was at when one of them was committed.
        """
        return doubles.drop(self._tables, before)

    def stored(self, table: str | Table) -> pl.LazyFrame:
        """Every live row of a table, those that no reader sees among them."""
        opened = self._tables[_name(table)]
        return opened.rows(opened.live())

    def erase(self, table: str | Table, cut: Cut) -> Rewritten:
        """Rewrite a table without what is cut out of it; only who holds every bucket may."""
        return erasing.rewrite(self._tables[_name(table)], cut)

    def drop_files(self, table: str | Table, now: datetime, *, at_rest: bool) -> Deleted:
        """Delete all files and log entries that the newest version does not need; only who holds every bucket may.

        `at_rest`: nobody can be about to commit a file.
        """
        return erasing.drop_files(self._tables[_name(table)], now, at_rest=at_rest)

    def record(self, table: str | Table, rows: pl.DataFrame) -> int:
        """Append rows to a log that belongs to no round, and return their number, which fills its first column."""
        return writing.record(self._tables[_name(table)], rows)

    @property
    def store(self) -> fs.FileSystem:
        """The lake's folder: every file that is in it."""
        return self._tables["rounds"].store_of_lake()

    def plan_move(self, lease: Lease, buckets: int) -> Move:
        """Say where every host goes in a layout of so many buckets, which takes its number from the lease's round."""
        fewest = min(self.layout.fewest, buckets)
        return moving.plan(self._tables, self.buckets, Layout(lease.round, buckets, fewest))

    def portions(self, table: Table, move: Move, shape: Shape = SHAPE) -> Iterator[tuple[int, ...]]:
        """The new buckets in groups, each to be laid out in one commit."""
        return moving.portions(self._tables, table, move, shape.rows)

    def lay_out(self, table: Table, move: Move, buckets: Sequence[int], shape: Shape = SHAPE) -> None:
        """Write the rows of some new buckets, which nobody sees; only who holds all old buckets may."""
        moving.lay_out(self._tables, table, move, buckets, shape)

    def laid_out(self, table: Table, move: Move) -> pl.LazyFrame:
        """Rows of the layout to come; raise ValueError unless they are as many as readers see now."""
        moving.check(self._tables, table, move.to)
        return moving.rows(self._tables, table, move.to)

    def adopt(self, lease: Lease, move: Move, rounds: pl.DataFrame) -> Lease:
        """Make the layout the one in force, with a row of `rounds` for each new bucket.

        The lease that comes back is of the buckets that are left. Raise LeaseLost if somebody took a bucket over.
        """
        left = moving.adopt(self._tables, lease, move.to, rounds)
        self.buckets = move.to.buckets
        return left

    def drop_leases(self) -> None:
        """Delete the leases of buckets that are no more."""
        leases.drop(self._tables["leases"], self.buckets)

    @property
    def clustered(self) -> Clustered:
        """The last clustering of pages, and how far it read."""
        return deriving.clustered(self._tables["clusters"], self._tables["rounds"])

    def commit_clustering(self, before: Clustered, rows: pl.DataFrame, seen: Mapping[int, int]) -> Clustered:
        """Write what a clustering changed, and how far it read; raise Overtaken if another one was at work."""
        made = deriving.commit(self._tables["clusters"], before, rows, seen)
        deriving.log_merges(self._tables["clusters"], self._tables["merges"])
        return made

    def fold_clusters(self, *, least: int = deriving.ROWS, most: int = deriving.ROUNDS) -> bool:
        """Merge what clusterings changed into one base once that is long; say if so."""
        return deriving.fold(self._tables["clusters"], self._tables["merges"], least=least, most=most)

    def ranking(self, version: int | None = None) -> Ranking:
        """The ranking in force, or that of a version of `ranks`, and how far it read."""
        return ranking.standing(self._tables["ranks"], range(MOST_BUCKETS), version)

    def hosts_lag(self, number: int) -> bool:
        """Whether what a ranking says of hosts was not written: it was cut short."""
        return min(ranking.told(self._tables[name]) for name in ("host_ranks", "host_graph")) < number

    def commit_ranking(self, before: Ranking, ranks: pl.DataFrame, seen: Mapping[int, int]) -> Ranking:
        """Write all ranks, and how far was read for them; raise Overtaken if another ranking was at work."""
        return ranking.commit(self._tables["ranks"], before, ranks, seen, self.layout)

    def tell_of_hosts(self, made: Ranking, hosts: pl.DataFrame, graph: pl.DataFrame) -> None:
        """Write what a ranking says of hosts (rows of `host_ranks` and `host_graph`), unless a later one has."""
        for name, rows in (("host_ranks", hosts), ("host_graph", graph)):
            ranking.tell(self._tables[name], made.number, rows)

    def size(self, table: str | Table) -> Size:
        """What is live in a table."""
        live = self._tables[_name(table)].live()
        return Size(live.height, int(live["size"].sum()), int(live["rows"].sum()))

    def probe(self) -> Probed:
        """Try for real whether commits are safe in this store; slow, for whoever sets a crawl up."""
        base, _, _ = self._tables["leases"].uri.rpartition("/")
        return probing.probe(base, self._tables["leases"].options)

    def trim_log(self, table: str | Table) -> None:
        """Write a checkpoint, then delete log files that no version of the last 30 days needs; maintenance only."""
        self._tables[_name(table)].trim_log()

    def vacuum(self, table: str | Table, hours: int = WEEK) -> int:
        """Delete files that no version of the last `hours` uses; give how many. Maintenance only, never in a hurry.

        Raise RetentionTooShort if that is less than a week.
        """
        return self._tables[_name(table)].vacuum(hours)


def check_count(buckets: int) -> None:
    """Raise ValueError unless a lake can have so many buckets."""
    if not 1 <= buckets <= MOST_BUCKETS or buckets & (buckets - 1):
        raise ValueError(f"expected a bucket count that is a power of two up to {MOST_BUCKETS}, found {buckets}")


def _name(table: str | Table) -> str:
    return table if isinstance(table, str) else table.name


def _opener(root: str, options: Mapping[str, str] | None, backoff: Backoff | None) -> Callable[[Table], DeltaTable]:
    given = dict(options or {})
    _refuse_unsafe(given if "://" not in root else {**os.environ, **given})
    base = root.rstrip("/") if "://" in root else _folder(root)
    return lambda table: DeltaTable(base, table, given, backoff or Backoff())


def _upgraded(table: DeltaTable) -> list[str]:
    return [table.table.name] if table.create() else [f"{table.table.name}.{name}" for name in table.extend()]


def _tables(opener: Callable[[Table], DeltaTable]) -> dict[str, DeltaTable]:
    return {name: opener(table) for name, table in TABLES.items()}


def _folder(root: str) -> str:
    """The absolute path of a local lake; refuse what delta-rs cannot open (it reads paths as URLs and patterns)."""
    path = os.path.abspath(root)
    if not set(path).isdisjoint("%[]"):
        raise LakeMismatch(f"expected a lake's path without %, [ and ], found {path}: choose another folder")
    at = path
    while not os.path.exists(at):
        at = os.path.dirname(at)
    if not os.path.isdir(at):
        raise LakeMismatch(f"expected a folder for the lake, found the file {at}: choose another folder")
    return path


def _refuse_unsafe(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if value.lower() in UNSAFE.get(name.lower(), ()):
            raise LakeMismatch(
                f"expected conditional writes to guard commits, found {name}={value}: remove the setting; "
                "two writers could otherwise overwrite each other's commits"
            )
