"""Tables of modules: `module_tables` says which ones a lake has, so that who opens it needs no module to see them.

Decides nothing about what such a table holds (core.declared_tables). Invariant: a table is there before it is named,
and a name is never given other columns.
"""

from collections.abc import Mapping

import deltalake
import polars as pl

from crawl_pipeline.core import declared_tables
from crawl_pipeline.core.tables import MODULE_TABLES, Table
from crawl_pipeline.lake.delta import Change, DeltaTable, LakeMismatch


def known(named: DeltaTable) -> list[Table]:
    """The tables of modules that the lake has."""
    rows = named.rows(named.live()).collect().sort("table_name")
    return [declared_tables.from_row(row) for row in rows.iter_rows(named=True)]


def declare(named: DeltaTable, tables: Mapping[str, Table]) -> None:
    """Name tables, each with the module that writes it; raise LakeMismatch if one is there with other columns."""
    rows = MODULE_TABLES.frame([declared_tables.as_row(table, module) for module, table in tables.items()])

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        found = named.rows(named.files(opened)).collect()
        both = rows.join(found, on="table_name", suffix="_found")
        for row in both.filter(pl.col("declared") != pl.col("declared_found")).iter_rows(named=True):
            raise LakeMismatch(
                f"table {row['table_name']!r} of module {row['module']}: expected the columns {row['declared']}, the "
                f"lake has {row['declared_found']}: give the table another name, or use the module's former version"
            )
        new = rows.join(found, on="table_name", how="anti")
        names = ", ".join(f"'{name}'" for name in new["table_name"])
        return Change(new, f"table_name in ({names})") if new.height else None

    if rows.height:
        named.commit(decide)
