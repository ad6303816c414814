"""How discovery and visits share a list: each in its own order, whichever is worth more first, with a floor for both.

Within its kind a URL has a place: discovery by the draw, visits by worth. The two lines are merged by worth, where a
line is worth no more than the least before it, so that the order within a line stays. With a floor of a tenth, the
n-th of a kind comes at place 10 n of the merged list at the latest.

Invariants: no place is given twice, orders within a kind are kept, and of the first n both kinds have their floor if
they have as many.
"""

import polars as pl


def ranked(rows: pl.DataFrame, floor: float) -> pl.DataFrame:
    """Add the `rank` of each URL at its host; exact up to the quota, beyond it somewhere behind.

    rows: host, discovery, draw, worth, quota.
    """
    placed = _placed(rows, ["host"])
    near = placed.filter(pl.col("place") <= pl.col("quota"))
    far = placed.filter(pl.col("place") > pl.col("quota")).rename({"place": "rank"})
    return pl.concat([_merged(near, ["host"], floor), far.select(*rows.columns, pl.col("rank").cast(pl.Int64))])


def first(rows: pl.DataFrame, most: int, floor: float) -> pl.DataFrame:
    """The first so many of all rows, whatever their hosts."""
    placed = _placed(rows.drop("rank"), [])
    near = placed.filter(pl.col("place") <= most)
    return rows.join(_merged(near, [], floor).filter(pl.col("rank") <= most), on="url_hash", how="semi")


def nearest(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Of each host the first so many of either kind: no list of so many URLs needs others."""
    return _placed(rows, ["host"]).filter(pl.col("place") <= most)


def _placed(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Add the place of each URL in the line of its kind; visits that are worth the same go by the draw."""
    drawn = pl.col("draw") / (1 + pl.col("draw"))
    key = pl.when("discovery").then("draw").otherwise(pl.col("worth") * (1e-9 * drawn - 1))
    return rows.with_columns(_key=key).with_columns(
        place=pl.col("_key").rank("ordinal").cast(pl.Int64).over(*by, "discovery")
    ).drop("_key")  # fmt: skip


def _merged(near: pl.DataFrame, by: list[str], floor: float) -> pl.DataFrame:
    columns = [name for name in near.columns if name != "place"]
    if near.is_empty():
        return near.select(*columns, rank=pl.lit(0, pl.Int64))
    lines = near.sort("place").with_columns(_offer=pl.col("worth").cum_min().over(*by, "discovery"))
    behind = pl.int_range(1, pl.len() + 1)
    merged = lines.sort("_offer", "discovery", "place", descending=[True, True, False]).with_columns(
        _merged=behind.over(by) if by else behind
    )
    latest = (pl.col("place") * (1 / floor - 1)).floor()
    # At an equal place the one that has waited for its floor goes first.
    final = merged.with_columns(
        _place=pl.min_horizontal(pl.col("_merged"), latest), _late=pl.col("_merged") <= latest
    ).sort("_place", "_late", "discovery", "place")
    return final.with_columns(rank=behind.over(by) if by else behind).select(*columns, pl.col("rank").cast(pl.Int64))
