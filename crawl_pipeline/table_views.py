"""The SQL of one table's view: which files it reads, and which of their rows exist.

Rows of committed rounds exist and, of state tables, the newest row per key. Text only; `corpus` decides in which order
views are made and of what time.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import duckdb

from crawl_pipeline.core.tables import CONTENTS, MODULE_FAILURES, MODULE_TABLES, PAGES, ROUNDS, TABLES, Table

OF_FORGOTTEN = "url_hash in (select url_hash from snapshot.forgotten)"
"""Pages of forgotten URLs are not shown, nor what modules made of them, nor contents that nothing else has. That such
pages are stored stands in snapshot.stored_pages, for the accounts. A page stays in the bucket it was stored in, while
its URL moves with a rebucketing: so the URL alone says which pages are meant."""


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
    def uneven(self) -> Collection[str]:
        """Tables some files of which may lack columns that were added later."""
        ...

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table there is, those of modules included."""
        ...

    def dataset(self, table: str, /) -> object:
        """The same as an Arrow dataset, for lakes whose files DuckDB cannot open itself."""
        ...


def is_remote(lake: Files) -> bool:
    """Tell whether DuckDB cannot open the lake's files by name."""
    return "://" in lake.root


def quoted(text: str) -> str:
    """Write text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def has_contents(table: Table) -> bool:
    """Tell whether rows of the table name a content."""
    return "content_round" in table.column_names


def rows(connection: duckdb.DuckDBPyConnection, lake: Files, table: Table) -> str:
    """Select every stored row; a column that no file has yet is null, an empty table still has its types."""
    declared = connection.from_arrow(table.empty().to_arrow())
    types = {name: str(dtype) for name, dtype in zip(declared.columns, declared.types, strict=True)}
    nulls = ", ".join(f'null::{dtype} as "{name}"' for name, dtype in types.items())
    typed = f"select {nulls} where false"
    if is_remote(lake):
        connection.register(f"arrow_{table.name}", lake.dataset(table.name))
        # Files hold string views, which Arrow cannot compare: a filter that DuckDB hands on to it fails. Of an
        # expression it hands on none, and still only the columns that are asked for are read.
        plain = [f'coalesce("{name}", null) as "{name}"' for name, kind in types.items() if kind in ("VARCHAR", "BLOB")]
        kept = f" replace ({', '.join(plain)})" if plain else ""
        return f"{typed} union all by name select *{kept} from arrow_{table.name}"
    files = lake.files(table.name)
    if not files:
        return typed
    uneven = table.name in lake.uneven
    parquet = _parquet(files, {name: types[name] for name in table.partitioned_by}, uneven=uneven)
    return f"{typed} union all by name select * from {parquet}"


def _parquet(files: Sequence[str], hive: Mapping[str, str], *, uneven: bool) -> str:
    """Files by name; only where they are uneven is each looked into first, which takes half as long again."""
    listed = ", ".join(quoted(file) for file in files)
    types = ", ".join(f"{name}: {dtype}" for name, dtype in hive.items())
    partitions = f"hive_partitioning=true, hive_types={{{types}}}" if hive else "hive_partitioning=false"
    return f"read_parquet([{listed}], union_by_name={str(uneven).lower()}, {partitions})"


def visible(table: Table, stored: str) -> str:
    """Select the rows that exist for a reader.

    A window over a state table was as fast as an overlay of base and tail by two anti-joins, or faster
    (2 M rows: 0.3 to 0.5 s), and a filter on bucket, host or key goes below it (0.03 s). For that it names
    the host, though the key alone decides.
    """
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    selected = f"select {columns} from ({stored}) as stored"
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


def has_existed(table: Table, shown: str) -> str:
    """Of the rows of a table, those that existed at the moment of the past that `snapshot.existed` stands for."""
    if table is ROUNDS:
        return f"{shown} where (bucket, round) in (select bucket, round from snapshot.existed)"
    if table.kind == "control":
        return f"{shown} where {'true' if table is MODULE_TABLES else 'false'}"  # leases: who held them is not kept
    since = next((name for name in ("ordered_at", "merged_at") if name in table.schema), None)
    return f"{shown} where {since} <= as_of()" if since else shown


def not_forgotten(table: Table, tables: Mapping[str, Table]) -> str:
    """What to ask of the rows of a table where something was ordered to be forgotten."""
    if table is PAGES or table is MODULE_FAILURES or table.name not in TABLES:
        return f" and not coalesce({OF_FORGOTTEN}, false)"
    if table is not CONTENTS:
        return ""
    key = "content_round, body_hash, coalesce(charset, '')"
    had = " union all ".join(
        f"select ({key if 'charset' in one.column_names else key.replace('charset', 'null')}) from main.{one.name}"
        for one in tables.values() if has_contents(one)
    )  # fmt: skip
    return f" and (round, body_hash, coalesce(charset, '')) in ({had})"
