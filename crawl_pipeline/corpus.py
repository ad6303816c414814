"""The lake as SQL: a DuckDB view per table, those of `views` over them, and the reports and tests written over them.

A view shows what exists: rows of committed rounds and, of state tables, the newest row per key. Nobody
filters by hand. A connection is a snapshot: it lists each table's files once, `rounds` first, so that every
round it shows is there in full. (A fold in between may show a later state; no log row is ahead of `rounds`.)

Nothing here writes, installs an extension, or repeats a rule of `core`. SQL given by people can read the lake
and no other file.
"""

import re
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import duckdb
import polars as pl

from crawl_pipeline import sql_functions
from crawl_pipeline.core.tables import CONTENTS, FRONTIER, MODULE_FAILURES, ORDERS, PAGES, ROUNDS, TABLES, Table
from crawl_pipeline.views import VIEWS

REPORTS = Path(__file__).parent.parent / "dbt_like_reports"

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "TimeZone": "UTC",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",  # a name in SQL is a table of the lake, never a Python variable
}


OF_FORGOTTEN = "url_hash in (select url_hash from main.frontier where status = 'forgotten')"
"""Pages of forgotten URLs are not shown, nor what modules made of them, nor contents that nothing else has. That such
pages are stored stands in snapshot.stored_pages, for the accounts. A page stays in the bucket it was stored in, while
its URL moves with a rebucketing: so the URL alone says which pages are meant."""


class QueryError(Exception):
    """The SQL is not one select over the lake; the message says what the lake has."""


class ReportError(Exception):
    """There is no report of this name, or its file does not begin with its sentence and its tables."""


class Files(Protocol):
    """What is needed of a lake: where it is, and what each table consists of at this moment."""

    @property
    def root(self) -> str:
        """The lake's address."""
        ...

    def files(self, table: str, /) -> list[str]:
        """Live Parquet files of a table, uncommitted rounds included."""
        ...

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table there is, those of modules included."""
        ...

    def dataset(self, table: str, /) -> object:
        """The same as an Arrow dataset, for lakes whose files DuckDB cannot open itself."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """One file of SQL: a model gives rows to read, a test selects the rows that break its sentence."""

    name: str
    sentence: str
    tables: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a test found: the sentence holds if no row offends."""

    name: str
    sentence: str
    tables: tuple[str, ...]
    offending: pl.DataFrame

    @property
    def holds(self) -> bool:
        """Tell whether the sentence is true of the lake."""
        return self.offending.is_empty()


# Views.


def connect(lake: Files, *, described: bool = True) -> duckdb.DuckDBPyConnection:
    """Open a read-only snapshot of the lake with one view per table; the caller closes it.

    `described`: each view and column says what it means, which takes as long as listing the files of a small lake.
    """
    spill = str(Path(tempfile.gettempdir()) / f"crawl-sql-{uuid.uuid4().hex}")
    connection = duckdb.connect(config={**SETTINGS, "temp_directory": spill})
    # Other views ask what is committed, and what is forgotten; contents, who has them.
    first = (ROUNDS, ORDERS, FRONTIER, *(table for table in lake.tables.values() if _has_contents(table)))
    try:
        connection.execute("create schema snapshot")
        # A page may be pointed to another copy of its content, and the one it named be dropped: so contents are listed
        # before pages.
        stored = {table.name: _rows(connection, lake, table) for table in _in_order(lake, ROUNDS, CONTENTS)}
        for table in _in_order(lake, *first):
            visible = _visible(table, stored[table.name])
            if table is PAGES:
                connection.execute(
                    f"create view snapshot.stored_pages as select bucket, round, url_hash from ({visible})"
                )
            if (asked := _not_forgotten(table, lake.tables)) and _forgets(connection):
                visible += asked
            connection.execute(f"create view main.{table.name} as {visible}")
            if described:
                _comment(connection, table)
            if table is ROUNDS:
                connection.execute("create table snapshot.committed as select bucket, round from main.rounds")
        sql_functions.register(connection)
        for view in VIEWS:
            connection.execute(f"create view main.{view.name} as {view.sql}")
            if described:
                _say(connection, view.name, view.one_row_is, view.columns)
        _lock(connection, lake)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_contents(table: Table) -> bool:
    return "content_round" in table.column_names


def _not_forgotten(table: Table, tables: Mapping[str, Table]) -> str:
    """What to ask of the rows of a table where something was ordered to be forgotten."""
    if table is PAGES or table is MODULE_FAILURES or table.name not in TABLES:
        return f" and not coalesce({OF_FORGOTTEN}, false)"
    if table is not CONTENTS:
        return ""
    key = "content_round, body_hash, coalesce(charset, '')"
    had = " union all ".join(
        f"select ({key if 'charset' in one.column_names else key.replace('charset', 'null')}) from main.{one.name}"
        for one in tables.values() if _has_contents(one)
    )  # fmt: skip
    return f" and (round, body_hash, coalesce(charset, '')) in ({had})"


def _in_order(lake: Files, *first: Table) -> list[Table]:
    return [*first, *(table for table in lake.tables.values() if table not in first)]


def _forgets(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether anything was ever ordered to be forgotten: most lakes need not ask their frontier for each page."""
    return bool(connection.execute("select count(*) from main.orders where kind = 'forget'").fetchall()[0][0])


def _rows(connection: duckdb.DuckDBPyConnection, lake: Files, table: Table) -> str:
    """Select every stored row; a column that no file has yet is null, an empty table still has its types."""
    declared = connection.from_arrow(table.empty().to_arrow())
    types = {name: str(dtype) for name, dtype in zip(declared.columns, declared.types, strict=True)}
    nulls = ", ".join(f'null::{dtype} as "{name}"' for name, dtype in types.items())
    typed = f"select {nulls} where false"
    if _remote(lake):
        connection.register(f"arrow_{table.name}", lake.dataset(table.name))
        return f"{typed} union all by name select * from arrow_{table.name}"
    files = lake.files(table.name)
    if not files:
        return typed
    parquet = _parquet(files, {name: types[name] for name in table.partitioned_by})
    return f"{typed} union all by name select * from {parquet}"


def _parquet(files: list[str], hive: dict[str, str]) -> str:
    listed = ", ".join(_quoted(file) for file in files)
    types = ", ".join(f"{name}: {dtype}" for name, dtype in hive.items())
    partitions = f"hive_partitioning=true, hive_types={{{types}}}" if hive else "hive_partitioning=false"
    return f"read_parquet([{listed}], union_by_name=false, {partitions})"


def _visible(table: Table, rows: str) -> str:
    """Select the rows that exist for a reader.

    A window over a state table was as fast as an overlay of base and tail by two anti-joins, or faster
    (2 M rows: 0.3 to 0.5 s), and a filter on bucket, host or key goes below it (0.03 s). For that it names
    the host, though the key alone decides.
    """
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    selected = f"select {columns} from ({rows}) as stored"
    owner = "source_bucket" if "source_bucket" in table.schema else "bucket"
    committed = f"({owner}, round) in (select bucket, round from snapshot.committed)"
    if table.kind == "state":
        key = ", ".join(dict.fromkeys(["bucket", "host", *table.key]))
        return (
            f"{selected} where layer = 'base' or {committed}"
            f" qualify row_number() over (partition by {key} order by round desc, layer desc) = 1"
        )
    if table.kind == "derived" and "layer" in table.schema:
        newest = "row_number() over (partition by url_hash order by clustering desc, layer desc) = 1"
        return f"select * from ({selected} qualify {newest}) where cluster_id is not null"
    return f"{selected} where {committed}" if table.kind == "log" and "round" in table.schema else selected


def _comment(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    meanings = {c.name: f"{c.meaning} [{c.unit}]" if c.unit else c.meaning for c in table.columns}
    _say(connection, table.name, table.one_row_is, meanings)


def _say(connection: duckdb.DuckDBPyConnection, name: str, one_row_is: str, meanings: Mapping[str, str]) -> None:
    connection.execute(f"comment on view main.{name} is {_quoted(f'one row is {one_row_is}')}")
    for column, meaning in meanings.items():
        connection.execute(f'comment on column main.{name}."{column}" is {_quoted(meaning)}')


def _lock(connection: duckdb.DuckDBPyConnection, lake: Files) -> None:
    """Leave nothing open but the lake's own folder; for a remote lake, nothing at all."""
    root = Path(lake.root)
    spellings = [] if _remote(lake) else [_quoted(str(path)) for path in (root, root.absolute(), root.resolve())]
    connection.execute(f"set allowed_directories = [{', '.join(spellings)}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _remote(lake: Files) -> bool:
    return "://" in lake.root


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Queries.


def query(lake: Files, sql: str) -> pl.DataFrame:
    """Run one select over a snapshot of the lake."""
    with connect(lake) as connection:
        return read(connection, sql)


def read(connection: duckdb.DuckDBPyConnection, sql: str) -> pl.DataFrame:
    """Run one select over an open snapshot; raise QueryError with what there is to select from."""
    if not _is_text(sql):
        raise QueryError(f"one select is wanted, found what is no text: {sql!r}")
    try:
        statements = connection.extract_statements(sql)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            found = ", ".join(statement.type.name.lower() for statement in statements) or "nothing"
            raise QueryError(f"one select is wanted, found {found}; the lake is only read here")
        found = connection.sql(sql).to_arrow_table()
        return pl.DataFrame(found.rename_columns(_told_apart(found.column_names)))
    except duckdb.Error as error:
        raise QueryError(f"{error}{_what_there_is(connection, sql, error)}") from error
    except pl.exceptions.ComputeError as error:
        raise QueryError(
            f"expected columns of types that can be shown, found another ({error}): cast to varchar"
        ) from error


def _is_text(sql: str) -> bool:
    """Tell whether it is free of the halves of characters that bytes outside UTF-8 become on a command line."""
    return not any("\ud800" <= char <= "\udfff" for char in sql)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: what a join brings twice is numbered from the second on."""
    given: list[str] = []
    for name in names:
        again = (f"{name}_{n}" for n in count(1))
        given.append(name if name not in given else next(other for other in again if other not in {*given, *names}))
    return given


def _what_there_is(connection: duckdb.DuckDBPyConnection, sql: str, error: duckdb.Error) -> str:
    if not isinstance(error, (duckdb.CatalogException, duckdb.BinderException)):
        return ""
    there = (
        "select table_name, column_name from duckdb_columns() where schema_name = 'main' and not internal "
        "order by table_name, column_index"
    )
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(there).fetchall():
        columns.setdefault(table, []).append(column)
    if isinstance(error, duckdb.CatalogException):
        return f"\nThe lake has the tables {', '.join(sorted(columns))}."
    used = sorted(columns.keys() & set(re.findall(r"\w+", sql.lower())))
    return "".join(f"\n{name} has the columns {', '.join(columns[name])}." for name in used)


# Reports.


def models(folder: Path = REPORTS) -> tuple[Report, ...]:
    """List the models by name."""
    return tuple(_report(path) for path in sorted((folder / "models").glob("*.sql")))


def tests(folder: Path = REPORTS) -> tuple[Report, ...]:  # noqa: PT028 - lists tests, is none
    """List the tests by name."""
    return tuple(_report(path) for path in sorted((folder / "tests").glob("*.sql")))


def run_model(lake: Files, name: str, folder: Path = REPORTS) -> pl.DataFrame:
    """Give the rows of one model."""
    return query(lake, _named(models, name, folder).sql)


def run_test(lake: Files, name: str, folder: Path = REPORTS) -> Result:
    """Ask for the rows that break one sentence."""
    report = _named(tests, name, folder)
    with connect(lake) as connection:
        return _result(connection, report)


def run_tests(lake: Files, folder: Path = REPORTS) -> tuple[Result, ...]:
    """Run every test over one snapshot."""
    with connect(lake, described=False) as connection:
        return tuple(_result(connection, report) for report in tests(folder))


def _result(connection: duckdb.DuckDBPyConnection, report: Report) -> Result:
    return Result(report.name, report.sentence, report.tables, read(connection, report.sql))


def _named(kind: Callable[[Path], tuple[Report, ...]], name: str, folder: Path) -> Report:
    reports = {report.name: report for report in kind(folder)}
    if name not in reports:
        raise ReportError(f"no {kind.__name__} file {name}.sql in {folder}; there are {', '.join(reports) or 'none'}")
    return reports[name]


def _report(path: Path) -> Report:
    sql = path.read_text(encoding="utf-8")
    first, second, *_ = [*sql.splitlines(), "", ""]
    sentence, names = first.removeprefix("-- "), second.removeprefix("-- tables: ")
    if sentence == first or names == second:
        raise ReportError(f"{path} must begin with `-- <sentence>` and `-- tables: a, b`, found {first!r}, {second!r}")
    tables = tuple(name.strip() for name in names.split(","))
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ReportError(f"{path} names {unknown}; the lake has {', '.join(sorted(TABLES))}")
    return Report(path.stem, sentence, tables, sql)
