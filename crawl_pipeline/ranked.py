"""What a URL's score is made of, in one sentence: its rank, the cash since, its seed list; before, its distance.

Reads the ranking in force and the links since; asks core.importance, and decides nothing new.
"""

from typing import Any

import polars as pl

from crawl_pipeline.core import importance
from crawl_pipeline.core.orders import InForce
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import RANKS
from crawl_pipeline.lake import Lake


def because(lake: Lake, row: dict[str, Any], in_force: InForce, policy: Policy) -> str:
    """Say where the score comes from. `row`: of `frontier`."""
    ranking = lake.ranking()
    if row["kind"] in ("seed", "sitemap"):
        return f"score {row['score']:.3g}, band {row['band']}: ranks change nothing for a {row['kind']}"
    if not ranking.number:
        return f"score {row['score']:.3g}, band {row['band']}: by its distance from a seed; nothing was ranked yet"
    one = pl.Series("url_hash", [row["url_hash"]])
    found = lake.scan(RANKS, where=pl.col("url_hash") == row["url_hash"]).select(list(importance.RANKS)).collect()
    seen = pl.col("source_bucket").replace_strict(dict(ranking.seen), default=0, return_dtype=pl.Int64)
    since = lake.scan("links", url_hashes=one, where=pl.col("cash").is_not_null()).filter(pl.col("round") > seen)
    cash = since.group_by("url_hash").agg(pl.col("cash").cast(pl.Float64).sum()).collect()
    due = pl.DataFrame([{name: row[name] for name in ("url_hash", "kind", "score", "tag")}], {
        "url_hash": pl.Int64, "kind": pl.String, "score": pl.Float32, "tag": pl.String})  # fmt: skip
    made = importance.scored(due, found, cash, in_force, policy).row(0, named=True)
    rank, more = (frame[name].sum() for frame, name in ((found, "page_rank"), (cash, "cash")))
    share = min(made["mass"] / policy.rank.full_at, 1.0)
    return (
        f"score {made['score']:.3g}, band {made['band']}: rank {rank or 1.0:.3g} in ranking {ranking.number} and "
        f"{more or 0.0:.3g} from pages visited since come to {share:.1%} of {policy.rank.full_at:g}, full importance, "
        f"times {made['score'] / share:.3g} for its seed list"
    )
