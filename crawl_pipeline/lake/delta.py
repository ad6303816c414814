"""Delta tables: where they lie, whether they are ours, and how a commit is repeated until it stands.

Decides nothing about leases, rounds or rows. The one module that imports deltalake and sees its errors.

Invariant: a commit is made with the table object its content was decided from. `DeltaTable.commit` hands a fresh
object to `decide`, and writes what that returns through the same object. Delta then refuses the commit if anything
`decide` could have seen has changed since; it is decided anew, after a wait. Passing the path instead would read
the table again and lose that check.
"""

import errno
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import (
    ColumnProperties,
    CommitProperties,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from crawl_pipeline.core.tables import Table

Found = TypeVar("Found")

# Columns whose minimum and maximum go into the log, so that files can be skipped. Never texts or bodies: their
# statistics would make up most of the log.
STATISTICS = frozenset(
    ("bucket", "source_bucket", "target_bucket", "round", "order", "host", "url_hash", "request_id", "status", "band",
     "due_at", "started_at", "fetched_at")
)  # fmt: skip
ROW_GROUP = 65_536
"""Rows that a reader can skip together inside a file."""
CONTENT_GROUP = 1_024
"""The same of a table of bodies, some ten thousand times as long as other rows: a reader of one skips the rest."""
# Hashes are noise: a dictionary of them only adds its indices, two bytes a value, and a step to read them.
_NOISE = ("url_hash", "source_hash", "text_hash", "body_hash", "request_id")
# Nobody looks for bodies between two bodies.
_CONTENT = ("body", "text")
PROPERTIES = {
    "delta.checkpointInterval": "20",  # opening stays under 10 ms; at the default of 100 it was 38 ms
    "delta.enableExpiredLogCleanup": "false",  # never from a writer: delta-rs #3692
}
STATISTICS_OF, UNEVEN = "delta.dataSkippingStatsColumns", "crawl.uneven"
"""Properties of a table: of which columns statistics are kept; whether some files lack columns that came later."""
AFTER_COMMIT = PostCommitHookProperties(cleanup_expired_logs=False)
HOPELESS = {
    errno.ENOSPC: "make room on its disk", errno.EDQUOT: "raise the quota or make room",
    errno.EROFS: "mount it so that it can be written, or name another lake",
    errno.EACCES: "let this user write there, or run as one who may",
    errno.EPERM: "let this user write there, or run as one who may",
}  # fmt: skip
"""Faults of a store that stay, and what to do about them."""
_OS_ERROR = re.compile(r"(?:os error |code: |Errno )(\d+)")  # as delta-rs and Python write them
WEEK = 168
"""Hours that a file outlives its last use, at least."""


def writer(table: Table) -> WriterProperties:
    """How a table's files are written.

    Bodies lie in them as they came: pages of a host are alike, and Parquet's zstd sees a megabyte of them at once.
    """
    plain = {name: ColumnProperties(dictionary_enabled=False) for name in _NOISE}
    if not set(_CONTENT) <= set(table.column_names):
        return WriterProperties(
            compression="ZSTD", compression_level=3, max_row_group_size=ROW_GROUP, column_properties=plain
        )
    bare = {name: ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE") for name in _CONTENT}
    return WriterProperties(
        compression="ZSTD", compression_level=3, max_row_group_size=CONTENT_GROUP, column_properties=plain | bare
    )


class LakeMissing(Exception):
    """There is no lake at the root."""


class LakeMismatch(Exception):
    """The lake, or the way to it, is not one this program can use safely."""


class LakeBusy(Exception):
    """A commit failed in every attempt: too many writers, or the store does not answer."""


class LakeUnwritable(Exception):
    """The store takes nothing: it is full, may only be read, or is not ours to write."""


class RetentionTooShort(ValueError):
    """Files were to be deleted that a reader or a writer may still need."""


def check_retention(hours: int) -> None:
    """Refuse a vacuum that would not leave a week: a file is written long before its commit, and read long after."""
    if hours < WEEK:
        raise RetentionTooShort(
            f"expected a vacuum to keep at least {WEEK} hours (a week), found {hours}: workers and readers under way "
            "may still need younger files; give a larger number"
        )


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often and how fast a commit is repeated: full jitter, so that colliding writers part."""

    attempts: int = 40  # when others' commits collide with ours
    faults: int = 5  # when the store fails, or the answer is lost
    first_s: float = 0.02
    cap_s: float = 0.5
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)

    def wait(self, attempt: int) -> None:
        """Sleep anywhere between nothing and a bound that doubles with each attempt."""
        self.sleep(self.rng.uniform(0, min(self.cap_s, self.first_s * 2**attempt)))


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does: rows, which rows they replace (None: they are added), and versions of identifiers."""

    rows: pl.DataFrame | pa.RecordBatchReader
    replaces: str | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    retries: int = 5  # inside Delta, which checks for conflicts but does not decide anew; 0: next version or none


class DeltaTable:
    """One table of the lake. Calls from several threads wait for each other."""

    def __init__(self, root: str, table: Table, options: Mapping[str, str], backoff: Backoff) -> None:
        self.table = table
        self.uri = f"{root}/{table.name}"
        self._options = dict(options)
        self._backoff = backoff
        self._lock = threading.RLock()
        self._opened: deltalake.DeltaTable | None = None
        # A version never changes, and a plan looks at one many times.
        self._live: tuple[int, pl.DataFrame] | None = None
        self._stamps: dict[tuple[int, tuple[str, ...]], tuple[int | None, ...]] = {}

    @property
    def options(self) -> Mapping[str, str]:
        """How the store is reached."""
        return self._options

    def exists(self) -> bool:
        """Say whether the table is there."""
        return deltalake.DeltaTable.is_deltatable(self.uri, storage_options=self._options)

    def create(self, rows: pl.DataFrame | None = None) -> bool:
        """Make the table, with its first rows in the same commit; say if it was this call that made it.

        An existing table is left alone, also if somebody else made it at the same moment.
        """
        if self.exists():
            return False
        partitions = list(self.table.partitioned_by) or None
        settings = PROPERTIES | {STATISTICS_OF: ",".join(self._statistics())}
        once = CommitProperties(max_commit_retries=0)  # tried again, it would add its rows to a table just made
        try:
            if rows is None:
                deltalake.DeltaTable.create(
                    self.uri, _delta_schema(self.table), mode="error", partition_by=partitions,
                    configuration=settings, storage_options=self._options, commit_properties=once,
                )  # fmt: skip
            else:
                write_deltalake(
                    self.uri, rows, mode="error", partition_by=partitions, configuration=settings,
                    storage_options=self._options, writer_properties=writer(self.table), commit_properties=once,
                )  # fmt: skip
        except (DeltaError, OSError) as error:
            if self.exists():
                return False
            self._refuse_hopeless(error)
            raise
        return True

    def _statistics(self) -> list[str]:
        stored = (name for name in self.table.column_names if name not in self.table.partitioned_by)
        return [name for name in stored if name in STATISTICS]

    def check(self) -> None:
        """Raise LakeMismatch unless the table is there with exactly the declared columns and partitions."""
        if absent := self.absent():
            raise LakeMismatch(
                f"expected the table {self.table.name!r} at {self.uri} as this program makes it, found it without the "
                f"columns {sorted(_fields(absent))}. An earlier version made this lake: `crawl upgrade` adds them"
            )

    def absent(self) -> list[deltalake.Field]:
        """The declared columns that the table lacks; raise LakeMismatch if it differs in anything else."""
        try:
            opened = self._fresh()
        except TableNotFoundError:
            raise LakeMismatch(
                f"expected the table {self.table.name!r} at {self.uri}, found none. An earlier version made this lake, "
                "and `crawl upgrade` makes it, without rows; or somebody deleted it: then put it back"
            ) from None
        except DeltaError as trouble:
            raise LakeMismatch(f"table {self.table.name!r} at {self.uri} cannot be read: {trouble}") from trouble
        declared, found = _delta_schema(self.table).fields, {field.name: field for field in opened.schema().fields}
        unknown = _fields(found.values()) - _fields(declared)
        parts, wanted = opened.metadata().partition_columns, list(self.table.partitioned_by)
        absent = [field for field in declared if field.name not in found]
        wrong = [
            f"unknown are its columns {sorted(unknown)}" if unknown else "",
            f"it is partitioned by {parts}, not by {wanted}" if parts != wanted else "",
        ]
        if any(wrong):
            wrong.append(f"absent are {sorted(_fields(absent))}" if absent else "")
            raise LakeMismatch(
                f"expected the table {self.table.name!r} at {self.uri} as this program makes it, found another: "
                f"{'; '.join(filter(None, wrong))}. Another version made this lake: use that one, or begin a new lake"
            )
        return absent

    def extend(self) -> list[str]:
        """Add the declared columns that the table lacks, null in all its rows; give their names. Can be repeated."""
        return self._repeated(self._extend)

    def _extend(self) -> list[str]:
        absent, statistics = self.absent(), ",".join(self._statistics())
        if absent:
            # The property first: killed in between, readers are only more careful than they must be.
            self._fresh().alter.set_table_properties({UNEVEN: "true"}, raise_if_not_exists=False)
            self._fresh().alter.add_columns(absent)
        if self._fresh().metadata().configuration.get(STATISTICS_OF) != statistics:
            self._fresh().alter.set_table_properties({STATISTICS_OF: statistics}, raise_if_not_exists=False)
        return [field.name for field in absent]

    def read(self, look: Callable[[deltalake.DeltaTable], Found], at: int | None = None) -> Found:
        """Give what `look` finds in the newest version, or in version `at`."""
        with self._lock:
            return look(self._at(at))

    @property
    def uneven(self) -> bool:
        """Whether some of its files may lack columns that were added later."""
        return self.read(lambda opened: UNEVEN in opened.metadata().configuration)

    def live(self, at: int | None = None) -> pl.DataFrame:
        """Live files: uri, rows, size, partition values, range of `round`, and the first host of tables with parts."""
        return self.live_and_stamps((), at)[0]

    def stamps(self, names: tuple[str, ...], at: int | None = None) -> tuple[int | None, ...]:
        """Transaction identifiers of the newest version, or of version `at`."""
        with self._lock:
            if at is None or (at, names) not in self._stamps:
                at = self._stamped(self._at(at), names)
            return self._stamps[at, names]

    def live_and_stamps(
        self, names: tuple[str, ...], at: int | None = None
    ) -> tuple[pl.DataFrame, tuple[int | None, ...]]:
        """Give what `live` and `stamps` do, both of one version."""
        with self._lock:
            if self._live is None or self._live[0] != at or (at, names) not in self._stamps:
                opened = self._at(at)
                at = self._stamped(opened, names)
                if self._live is None or self._live[0] != at:
                    self._live = at, self.files(opened)
            return self._live[1], self._stamps[at, names]

    def _stamped(self, opened: deltalake.DeltaTable, names: tuple[str, ...]) -> int:
        """Remember the identifiers of a version, which stay: reading them costs as much again as opening it."""
        at = opened.version()
        if (at, names) not in self._stamps:
            same = {known: found for known, found in self._stamps.items() if known[0] == at}
            self._stamps = same | {(at, names): tuple(map(opened.transaction_version, names))}
        return at

    def _at(self, version: int | None) -> deltalake.DeltaTable:
        """The table at a version; what is open may stand there already, and opening reads the log again."""
        if version is None:
            return self._fresh()
        if self._opened is not None and self._opened.version() == version:
            return self._opened
        return deltalake.DeltaTable(self.uri, version=version, storage_options=self._options)

    def files(self, opened: deltalake.DeltaTable) -> pl.DataFrame:
        """Give what `live` does, for the table object that a `decide` was given."""
        adds = pl.DataFrame(opened.get_add_actions(flatten=True))
        if "round" in self.table.column_names and "min.round" not in adds.columns:  # no file yet
            adds = adds.with_columns(pl.lit(None, pl.Int64).alias(f"{end}.round") for end in ("min", "max"))
        if "part" in self.table.column_names and "min.host" not in adds.columns:
            adds = adds.with_columns(pl.lit(None, pl.String).alias("min.host"))
        return adds.select(
            (pl.lit(self.uri + "/") + pl.col("path")).alias("uri"),
            pl.col("num_records").alias("rows"),
            pl.col("size_bytes").alias("size"),
            *(pl.col(f"partition.{name}").cast(self.table.schema[name]).alias(name)
              for name in self.table.partitioned_by),
            *(pl.col(f"{end}.round").alias(f"{end}_round") for end in ("min", "max")
              if "round" in self.table.column_names),
            *([pl.col("min.host").alias("min_host")] if "part" in self.table.column_names else []),
        )  # fmt: skip

    def rows(self, live: pl.DataFrame) -> pl.LazyFrame:
        """Every row of the given live files, in the declared columns."""
        if live.is_empty():
            return pl.LazyFrame(schema=self.table.schema)
        partitions = {name: self.table.schema[name] for name in self.table.partitioned_by}
        return pl.scan_parquet(
            live["uri"].to_list(), glob=False, storage_options=self._options or None, schema=self.table.schema,
            hive_partitioning=bool(partitions), hive_schema=partitions or None, missing_columns="insert",
        ).select(self.table.column_names)  # fmt: skip

    def dataset(self, partitions: list[tuple[str, str, str]] | None = None) -> ds.Dataset:
        """Live files, those of some partitions or all, as an Arrow dataset."""
        return self.read(lambda opened: opened.to_pyarrow_dataset(file_pruning_predicate=partitions))

    def commit(self, decide: Callable[[deltalake.DeltaTable], Change | None]) -> int | None:
        """Commit what `decide` makes of the newest version; return the version this made, None if nothing was to do.

        `decide` runs again after a collision, and after an error that leaves open whether the commit stands. So it
        must see for itself whether its work is already done.
        """
        return self._repeated(lambda: self._attempt(decide))

    def _repeated(self, attempt_once: Callable[[], Found]) -> Found:
        for attempt in range(self._backoff.attempts):
            try:
                with self._lock:
                    return attempt_once()
            except (CommitFailedError, DeltaError, OSError) as error:
                if not isinstance(error, CommitFailedError | OSError) and type(error) is not DeltaError:
                    raise  # a schema or protocol fault is ours; waiting does not mend it
                self._refuse_hopeless(error)
                collided = isinstance(error, CommitFailedError)
                if attempt + 1 >= (self._backoff.attempts if collided else self._backoff.faults):
                    raise self._busy(attempt + 1, error) from error
                self._opened = None
            self._backoff.wait(attempt)
        raise AssertionError("the last attempt returns or raises")

    def _refuse_hopeless(self, error: Exception) -> None:
        """Raise LakeUnwritable for a fault that waiting and fewer writers do not mend."""
        found = _OS_ERROR.search(str(error))
        advice = HOPELESS.get(int(found[1]) if found else 0)
        if advice and found:
            raise LakeUnwritable(
                f"{self.uri}: expected a store that can be written to, found {os.strerror(int(found[1])).lower()}: "
                f"{advice}, then start again; what was committed stands"
            ) from error

    def _busy(self, attempts: int, error: Exception) -> LakeBusy:
        return LakeBusy(
            f"{self.uri}: expected a commit to stand within {attempts} attempts, the last one failed with "
            f"{type(error).__name__}: {error}: "
            + ("use fewer writers" if isinstance(error, CommitFailedError) else "check the store")
        )

    def _attempt(self, decide: Callable[[deltalake.DeltaTable], Change | None]) -> int | None:
        opened = self._fresh()
        change = decide(opened)
        if change is None:
            return None
        properties = CommitProperties(
            max_commit_retries=change.retries,
            app_transactions=[Transaction(name, version) for name, version in change.transactions.items()],
        )
        # The writer deals batches out to its threads: only a frame in one piece keeps its order.
        rows = change.rows.rechunk() if isinstance(change.rows, pl.DataFrame) else change.rows
        if change.replaces is None:
            write_deltalake(
                opened, rows, mode="append", writer_properties=writer(self.table),
                commit_properties=properties, post_commithook_properties=AFTER_COMMIT,
            )  # fmt: skip
        else:
            write_deltalake(
                opened, rows, mode="overwrite", predicate=change.replaces, writer_properties=writer(self.table),
                commit_properties=properties, post_commithook_properties=AFTER_COMMIT,
            )  # fmt: skip
        return opened.version()  # the version of this very commit, whoever committed before or after

    def store(self) -> fs.FileSystem:
        """The table's folder, whatever lies in it."""
        return store(self.uri, self._options)

    def store_of_lake(self) -> fs.FileSystem:
        """The folder that this table and all others lie in."""
        return store(self.uri.rpartition("/")[0], self._options)

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version; give its number."""

        def write(opened: deltalake.DeltaTable) -> int:
            opened.create_checkpoint()
            return int(opened.version())

        return self.read(write)

    def trim_log(self) -> None:
        """Write a checkpoint, then delete log files that no version of the last 30 days needs.

        deltalake 1.6.6 keeps the last checkpoint before those days and all that follows: every younger version opened.
        """
        self.checkpoint()
        self.read(lambda opened: opened.cleanup_metadata())

    def vacuum(self, hours: int) -> int:
        """Delete files that no version of the last `hours` uses, and strays of that age; return how many.

        A full vacuum, which lists the folder: the other kind goes by the log's tombstones, and a checkpoint drops
        those when they are a week old, with their files still there (delta-rs #3644).
        """
        check_retention(hours)
        return self._repeated(lambda: self._vacuum(hours))

    def _vacuum(self, hours: int) -> int:
        opened = self._fresh()
        opened.create_checkpoint()  # else files that an earlier vacuum deleted are counted again
        gone = opened.vacuum(hours, dry_run=False, full=True, post_commithook_properties=AFTER_COMMIT)
        return len(gone)

    def _fresh(self) -> deltalake.DeltaTable:
        with self._lock:
            if self._opened is None:
                self._opened = deltalake.DeltaTable(self.uri, storage_options=self._options)
            else:
                self._opened.update_incremental()
            return self._opened


def store(uri: str, options: Mapping[str, str]) -> fs.FileSystem:
    """A folder, on a disk or in an object store, as files by their paths in it."""
    return fs.PyFileSystem(DeltaStorageHandler(uri, dict(options)))


def _delta_schema(table: Table) -> deltalake.Schema:
    return deltalake.Schema.from_arrow(table.empty().to_arrow().schema)


def _fields(fields: Iterable[deltalake.Field]) -> set[str]:
    return {f"{field.name} {field.type}" for field in fields}
