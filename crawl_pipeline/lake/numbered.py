"""Commits that bear a number, of tables that all buckets share and one writer at a time adds to.

The number is an application transaction of the table itself, so that rows and number stand or fall in one commit. It
is made from the very version in which the number before was found: of two writers at once the later is refused
(`Overtaken`) and has changed nothing. A commit whose answer was lost is known by its writer's mark.

Invariant: the number grows by one with each commit.
"""

import secrets
from collections.abc import Mapping

import deltalake
import polars as pl

from crawl_pipeline.lake.delta import Change, DeltaTable


class Overtaken(Exception):
    """Another such commit was made since this one looked."""


def commit_next(
    table: DeltaTable,
    name: str,
    before: int,
    rows: pl.DataFrame,
    stamps: Mapping[str, int],
    replaces: str | None = None,
) -> int:
    """Commit rows under the number after `before`, with further stamps; give the number, or raise Overtaken.

    `name` is what is numbered, and the name of the transaction; `replaces` says which rows go in the same commit.
    """
    writer, mark = secrets.randbits(62), f"{name}-writer"
    change = Change(rows, replaces, {**stamps, name: before + 1, mark: writer}, retries=0)

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        if opened.transaction_version(mark) == writer:
            return None  # it stands, and the answer was lost
        found = opened.transaction_version(name) or 0
        if found != before:
            raise Overtaken(
                f"expected {name} {before} to be the last one, found {found}: another was at work; run again"
            )
        return change

    table.commit(decide)
    return before + 1
