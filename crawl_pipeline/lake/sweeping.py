"""Sweeping: rows that no reader has ever seen, or will see again, are deleted from logs and state.

These are rows of rounds that were never committed, and cannot be any more; and rows of state in other layouts than the
one in force, which a rebucketing left behind, or began and did not finish.

Decides which rows those are. Never changes what a reader sees.

Invariant: only rows of leased buckets, and of rounds before the lease's own, are swept. The claim fenced off every
former holder before `rounds` is read here, so that a round which is not found there never comes. Rows of a worker that
is alive are in buckets that it holds, not we; or, if our lease was lost meanwhile, in rounds after ours. A rebucketing
has fenced off the holders of all buckets, so that of rounds before it whatever bucket is swept, be it one that is no
more. And where we hold a bucket no other rebucketing is at work, or it has a larger number than our round.
"""

import deltalake
import polars as pl

from crawl_pipeline.core.tables import Table
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.leases import Lease
from crawl_pipeline.lake.visible import committed, owner


def sweep(rounds: DeltaTable, opened: DeltaTable, lease: Lease) -> int:
    """Delete such rows of the leased buckets; give how many there were."""
    swept = 0

    def decide(found: deltalake.DeltaTable) -> Change | None:
        nonlocal swept
        live = opened.files(found)
        dead, past = never_committed(rounds, opened, live, lease), _past(live, lease)
        swept = int(dead["rows"].sum()) + int(past["rows"].sum())
        if not swept:  # nothing there, or a former attempt stands although its answer was lost
            return None
        return Change(opened.table.empty(), " or ".join(filter(None, [_rows_of(opened.table, dead), _layouts(past)])))

    opened.commit(decide)
    return swept


def never_committed(rounds: DeltaTable, opened: DeltaTable, live: pl.DataFrame, lease: Lease) -> pl.DataFrame:
    """Count the rows by bucket and round, from two columns of the files that statistics do not clear."""
    bucket = owner(opened.table)
    if bucket is None or opened.table.kind not in ("log", "state"):
        raise ValueError(f"expected a log or state table whose rows belong to rounds, found {opened.table.name!r}")
    pairs = committed(rounds, rounds.live(), None if lease.layout else lease.buckets, None).rename({"bucket": bucket})
    doubtful = _doubtful(live, pairs, bucket, lease)
    earlier = _earlier(pl.col(bucket), pl.col("round"), lease)
    found = opened.rows(doubtful).filter(earlier).group_by(bucket, "round").agg(rows=pl.len())
    return found.join(pairs.lazy(), on=[bucket, "round"], how="anti").sort("round", bucket).collect()


def _earlier(bucket: pl.Expr, number: pl.Expr, lease: Lease) -> pl.Expr:
    return (bucket.is_in(lease.buckets) & (number < lease.round)) | (number < lease.layout)


def _past(live: pl.DataFrame, lease: Lease) -> pl.DataFrame:
    """Files of state in other layouts: former ones, and those of rebucketings that were killed."""
    if "layout" not in live.columns:
        return live.clear()
    return live.filter((pl.col("layout") != lease.layout) & (pl.col("layout") < lease.round))


def _layouts(past: pl.DataFrame) -> str:
    return f"layout in ({', '.join(map(str, past['layout'].unique().sort()))})" if past.height else ""


def _doubtful(live: pl.DataFrame, pairs: pl.DataFrame, bucket: str, lease: Lease) -> pl.DataFrame:
    """Files that may hold such rows. One of a single round that is committed does not."""
    live = live.filter(pl.col("min_round") < lease.round)
    if "layer" in live.columns:
        live = live.filter((pl.col("layer") == "tail") & (pl.col("layout") == lease.layout))
    if bucket not in live.columns:
        return live
    live = live.filter(_earlier(pl.col(bucket), pl.col("min_round"), lease))
    single = pl.col("min_round") == pl.col("max_round")
    unknown = live.filter(single).join(pairs.rename({"round": "min_round"}), on=[bucket, "min_round"], how="anti")
    return pl.concat([unknown, live.filter(~single)])


def _rows_of(table: Table, dead: pl.DataFrame) -> str:
    """Predicate for these rows, and no others."""
    bucket, layer = owner(table), " and layer = 'tail'" if "layer" in table.column_names else ""
    of_round = dead.group_by("round", maintain_order=True).agg(str(bucket)).iter_rows()
    return " or ".join(
        f"(round = {number} and {bucket} in ({', '.join(map(str, buckets))}){layer})" for number, buckets in of_round
    )
