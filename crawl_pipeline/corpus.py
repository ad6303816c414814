"""The lake as SQL: a DuckDB view per table, and those of `views` over them; now, or as it was.

A view shows what exists: rows of committed rounds and, of state tables, the newest row per key. Nobody
filters by hand. A connection is a snapshot: it lists each table's files once, `rounds` first, so that every
round it shows is there in full. (A fold in between may show a later state; no log row is ahead of `rounds`.)
`as_of()` is the time of the snapshot: now, or the moment of the past that is shown.

Nothing here writes, installs an extension, or repeats a rule of `core`. SQL given by people can read the lake
and no other file.
"""

import re
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import duckdb
import polars as pl

from crawl_pipeline import sql_functions
from crawl_pipeline.core.tables import CONTENTS, FRONTIER, ORDERS, PAGES, ROUNDS, Table
from crawl_pipeline.moments import Moment
from crawl_pipeline.table_views import (
    Files,
    has_contents,
    has_existed,
    is_remote,
    not_forgotten,
    quoted,
    rows,
    visible,
)
from crawl_pipeline.views import VIEWS

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "TimeZone": "UTC",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",  # a name in SQL is a table of the lake, never a Python variable
}


class QueryError(Exception):
    """The SQL is not one select over the lake; the message says what the lake has."""


def connect(lake: Files, *, described: bool = True) -> duckdb.DuckDBPyConnection:
    """Open a read-only snapshot of a lake, or of a moment of one, with one view per table; the caller closes it.

    `described`: each view and column says what it means, which takes as long as listing the files of a small lake.
    """
    spill = str(Path(tempfile.gettempdir()) / f"crawl-sql-{uuid.uuid4().hex}")
    connection = duckdb.connect(config={**SETTINGS, "temp_directory": spill})
    try:
        connection.execute("create schema snapshot")
        _set_time(connection, lake)
        _make_tables(connection, lake, described)
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


def _set_time(connection: duckdb.DuckDBPyConnection, lake: Files) -> None:
    moment = f"timestamptz {quoted(lake.at.isoformat())}" if isinstance(lake, Moment) else "now()"
    connection.execute(f"create macro main.as_of() as {moment}")
    if isinstance(lake, Moment):
        connection.from_arrow(lake.committed.to_arrow()).create("snapshot.existed")
        connection.from_arrow(lake.forgotten.to_arrow()).create("snapshot.forgotten")


def _make_tables(connection: duckdb.DuckDBPyConnection, lake: Files, described: bool) -> None:
    """Make a view of each table: other views ask what is committed, and what is forgotten; contents, who has them."""
    first = (ROUNDS, ORDERS, FRONTIER, *(table for table in lake.tables.values() if has_contents(table)))
    # A page may be pointed to another copy of its content, and the one it named be dropped: so contents are listed
    # before pages.
    stored = {table.name: rows(connection, lake, table) for table in _in_order(lake, ROUNDS, CONTENTS)}
    for table in _in_order(lake, *first):
        shown = visible(table, stored[table.name])
        if isinstance(lake, Moment):
            shown = has_existed(table, shown)
        if table is PAGES:
            connection.execute(f"create view snapshot.stored_pages as select bucket, round, url_hash from ({shown})")
        if (asked := not_forgotten(table, lake.tables)) and _forgets(connection, lake):
            shown += asked
        connection.execute(f"create view main.{table.name} as {shown}")
        if described:
            _comment(connection, table)
        if table is ROUNDS:
            connection.execute("create table snapshot.committed as select bucket, round from main.rounds")
        if table is FRONTIER and not isinstance(lake, Moment):
            forgotten = "select url_hash from main.frontier where status = 'forgotten'"
            connection.execute(f"create view snapshot.forgotten as {forgotten}")


def _in_order(lake: Files, *first: Table) -> list[Table]:
    return [*first, *(table for table in lake.tables.values() if table not in first)]


def _forgets(connection: duckdb.DuckDBPyConnection, lake: Files) -> bool:
    """Tell whether anything was ever ordered to be forgotten: most lakes need not ask their frontier for each page."""
    if isinstance(lake, Moment):
        return not lake.forgotten.is_empty()
    return bool(connection.execute("select count(*) from main.orders where kind = 'forget'").fetchall()[0][0])


def _comment(connection: duckdb.DuckDBPyConnection, table: Table) -> None:
    meanings = {c.name: f"{c.meaning} [{c.unit}]" if c.unit else c.meaning for c in table.columns}
    _say(connection, table.name, table.one_row_is, meanings)


def _say(connection: duckdb.DuckDBPyConnection, name: str, one_row_is: str, meanings: Mapping[str, str]) -> None:
    connection.execute(f"comment on view main.{name} is {quoted(f'one row is {one_row_is}')}")
    for column, meaning in meanings.items():
        connection.execute(f'comment on column main.{name}."{column}" is {quoted(meaning)}')


def _lock(connection: duckdb.DuckDBPyConnection, lake: Files) -> None:
    """Leave nothing open but the lake's own folder; for a remote lake, nothing at all."""
    root = Path(lake.root)
    spellings = [] if is_remote(lake) else [quoted(str(path)) for path in (root, root.absolute(), root.resolve())]
    connection.execute(f"set allowed_directories = [{', '.join(spellings)}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


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
