"""Tables that are not ours: a module declares one, and a lake that has it knows it from then on.

Declarations in, tables out, and back from the rows of `module_tables`, so that whoever opens a lake sees the same
table without the module. Decides what such a table must have: every row belongs to one URL, one round and one bucket,
or it could be neither swept nor forgotten. Nothing is written here.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from crawl_pipeline.core.tables import COLUMNS, MODULE_TABLES, TABLES, TIME, Column, Table

PLACE = ("bucket", "round", "url", "url_hash", "host", "fetched_at")
"""What the crawl fills in for every row."""
KEPT = ("body_hash", "body_bytes", "content_round")
"""What it fills in too, where the body of the row is kept in `contents`."""
TYPES: Mapping[str, pl.DataType] = {
    "text": pl.String(), "whole number": pl.Int64(), "small whole number": pl.Int32(), "number": pl.Float64(),
    "yes or no": pl.Boolean(), "bytes": pl.Binary(), "time": TIME, "list of text": pl.List(pl.String()),
    "list of whole numbers": pl.List(pl.Int64()), "list of numbers": pl.List(pl.Float64()),
}  # fmt: skip
"""Types that a column of a module's own may have; those that all readers of a lake understand."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def declared(name: str, one_row_is: str, columns: Sequence[Column | str]) -> Table:
    """The table of a module; a string names a column that other tables have too. ValueError if it cannot be one."""
    if not _NAME.fullmatch(name) or name in TABLES:
        raise ValueError(
            f"table {name!r}: expected a name of a-z, 0-9 and _ that is not one of {', '.join(TABLES)}: choose another"
        )
    own = tuple(column for column in columns if isinstance(column, Column))
    names = [column if isinstance(column, str) else column.name for column in columns]
    for column in own:
        _check(name, column)
    unknown = [column for column in columns if isinstance(column, str) and column not in COLUMNS]
    twice = sorted({one for one in names if names.count(one) > 1 or one in PLACE})
    if unknown or twice or not names:
        raise ValueError(
            f"table {name!r}: expected columns that are declared or shared, each once and beside {', '.join(PLACE)}, "
            f"found unknown {unknown}, given twice {twice}, {len(names)} in all: correct its declaration"
        )
    return Table(name, "log", ("url_hash", "round"), ("bucket",), ("host", "url"), one_row_is, (*PLACE, *names), own)


def _check(table: str, column: Column) -> None:
    if not _NAME.fullmatch(column.name) or column.name in COLUMNS or not column.meaning:
        raise ValueError(
            f"table {table!r}, column {column.name!r}: expected a name of a-z, 0-9 and _ with a meaning, that no other "
            "table uses for something else: choose another, or give the name alone to share the column"
        )
    if column.dtype not in TYPES.values():
        raise ValueError(
            f"table {table!r}, column {column.name!r}: expected a type that every reader of a lake knows, one of "
            f"{', '.join(map(str, TYPES.values()))}, found {column.dtype}"
        )


def as_row(table: Table, module: str) -> dict[str, object]:
    """The row of `module_tables` that tells of a table."""
    own = {column.name: column for column in table.own}
    names = {dtype: name for name, dtype in TYPES.items()}
    columns = [
        [name, names[own[name].dtype], own[name].unit, own[name].meaning] if name in own else name
        for name in table.column_names[len(PLACE) :]
    ]
    row = (table.name, module, table.one_row_is, json.dumps(columns, ensure_ascii=False))
    return dict(zip(MODULE_TABLES.column_names, row, strict=True))


def from_row(row: Mapping[str, Any]) -> Table:
    """The table that a row of `module_tables` tells of."""
    columns = [
        column if isinstance(column, str) else Column(column[0], TYPES[column[1]], column[2], column[3])
        for column in json.loads(row["declared"])
    ]
    return declared(row["table_name"], row["one_row_is"], columns)
