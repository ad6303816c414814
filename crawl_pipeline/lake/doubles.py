"""Doubles: contents that several workers stored at the same time. All but the first are dropped.

Decides which those are. Changes what pages point to, never what a reader finds there.

Invariant: at every moment each page that is kept names a row of `contents` that is there. So pages are pointed to the
first copy in one commit, before another deletes the others; killed in between, they are dropped the next time. A
worker that looked a content up may still point to one of the others, if the first was not committed at that time. So
copies are left alone until rounds that began before the first was committed have long ended.
"""

from collections.abc import Mapping
from datetime import datetime

import deltalake
import polars as pl

from crawl_pipeline.core.tables import CONTENTS, ROUNDS
from crawl_pipeline.lake import visible
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.visible import Wanted

_NAME = ["body_hash", "charset"]
_AT = ["content_round", *_NAME]


def drop(tables: Mapping[str, DeltaTable], before: datetime) -> int:
    """Drop the doubles of rounds that ended before that time; give how many."""
    doubles = _doubles(tables, before)
    if doubles.is_empty():
        return 0
    for opened in tables.values():  # pages, and what modules have found in files
        if "content_round" in opened.table.column_names:
            _point_to_first(opened, doubles)
    tables[CONTENTS.name].commit(lambda _: Change(CONTENTS.empty(), _rows_of(doubles)))
    return doubles.height


def _doubles(tables: Mapping[str, DeltaTable], before: datetime) -> pl.DataFrame:
    """Every such copy (content_round, body_hash, charset), and the round of the first (`first`)."""
    ended = visible.scan(tables, ROUNDS, Wanted(where=pl.col("ended_at") < before))
    old = ended.select("bucket", "round").unique()
    rows = visible.scan(tables, CONTENTS, Wanted()).with_columns(_CHARSET).select("bucket", "round", *_NAME)
    first = pl.col("round").min().over(_NAME)
    found = rows.join(old, on=["bucket", "round"]).with_columns(first=first).filter(pl.col("round") > pl.col("first"))
    return found.select(pl.col("round").alias("content_round"), *_NAME, "first").sort(_AT).collect()


_CHARSET = pl.col("charset").fill_null("")
"""Files have none."""


def _point_to_first(opened: DeltaTable, doubles: pl.DataFrame) -> None:
    """Rewrite the rounds of a table in which some rows point to a double."""
    charset = _CHARSET if "charset" in opened.table.column_names else pl.lit("")

    def decide(found: deltalake.DeltaTable) -> Change | None:
        rows = opened.rows(opened.files(found)).with_columns(charset.alias("_charset"))
        at = ["content_round", "body_hash", "_charset"]
        pointing = rows.join(doubles.lazy(), left_on=at, right_on=_AT, how="semi")
        touched = pointing.select("bucket", "round").unique().collect()
        if touched.is_empty():
            return None
        of_rounds = rows.join(touched.lazy(), on=["bucket", "round"], how="semi")
        pointed = of_rounds.join(doubles.lazy(), left_on=at, right_on=_AT, how="left").with_columns(
            content_round=pl.coalesce("first", "content_round")
        )
        changed = pointed.select(opened.table.column_names).sort("round", *opened.table.sorted_by).collect()
        of_round = touched.sort("round", "bucket").iter_rows()
        return Change(changed, " or ".join(f"(bucket = {bucket} and round = {round_})" for bucket, round_ in of_round))

    opened.commit(decide)


def _rows_of(doubles: pl.DataFrame) -> str:
    """Predicate for the doubles, and no others."""
    return " or ".join(
        f"(round = {round_} and body_hash = X'{body_hash.hex()}' and coalesce(charset, '') = '{charset}')"
        for round_, body_hash, charset in doubles.select(_AT).iter_rows()
    )
