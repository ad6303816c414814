"""When a page that has changed leaves its cluster.

A page stands in its cluster for a text. It enters with the first text that is read of it, and while it is alone it
stands for whatever it says now. Among others it is slow to leave, for what it shows today may be an error page. A text
that is still nearly the same as the representative takes the place of the former one. One that is somewhat like it
(`leave_below`) changes nothing. One that is unlike it is a doubt, and after `leave_after` doubts in a row the page
stands for its new text, wherever that belongs. A representative that no other page stands for is not given up for one
that is nearly the same, or clusters would be named anew with every edit.
"""

import polars as pl

from crawl_pipeline.core.policy import Policy


def stand(visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give `stands`, the text that each page stands for after a visit (null: none), and `doubts`.

    visits: main_hash (what was read; null: no text), stood (null: it is new), doubts, alone, holds (it alone stands for
    the representative), near and like (of what was read, to the representative).
    """
    rules = policy.duplicates
    read, stood = pl.col("main_hash"), pl.col("stood")
    free = stood.is_null() | pl.col("alone")
    stays = read.eq_missing(stood) | ((pl.col("near") | (pl.col("like") >= rules.leave_below)) & read.is_not_null())
    doubts = pl.when(free | stays).then(0).otherwise(pl.col("doubts").fill_null(0) + 1)
    leaves = doubts >= rules.leave_after
    follows = free | leaves | (stays & pl.col("near") & ~pl.col("holds"))
    return visits.with_columns(
        stands=pl.when(follows).then(read).otherwise(stood),
        doubts=pl.when(leaves).then(0).otherwise(doubts).cast(pl.Int16),
    )
