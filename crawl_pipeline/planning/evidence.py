"""What links say of URL patterns: which other sites lead to them, what a sitemap names, which pages name new URLs.

Links that were read, and what of them was admitted, in; rows for `patterning` out. Nothing is decided.
"""

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.planning.parking import SOURCE_HOST

TOLD = {"host": pl.String, "url": pl.String, "source_url": pl.String, "linked_from": pl.Int64, "listed": pl.Boolean,
        "is_new": pl.Boolean}  # fmt: skip
RELEASED = {"host": pl.String, "pattern": pl.String}


def told(links: pl.DataFrame, admitted: pl.DataFrame) -> pl.DataFrame:
    """Links that tell something (columns TOLD): `linked_from` is the hash64 of another site, `is_new` says that a page
    of the same host was the first to name the URL.
    """
    rows = links.with_columns(source=pl.col("source_url").str.extract(SOURCE_HOST))
    outside = rows.filter((pl.col("source") != pl.col("host")) & ~pl.col("nofollow"))
    sites = {host: urls.site(host) for host in outside["source"].unique()}
    numbers = {host: urls.hash64(site) for host, site in sites.items()}
    outside = outside.filter(
        pl.col("source").replace_strict(sites, default=None, return_dtype=pl.String) != pl.col("site")
    ).with_columns(linked_from=pl.col("source").replace_strict(numbers, default=None, return_dtype=pl.Int64))
    listed = rows.filter(pl.col("kind") == "listed").with_columns(listed=pl.lit(value=True))
    inside = rows.filter((pl.col("source") == pl.col("host")) & (pl.col("kind") == "link"))
    new = inside.join(admitted.select("url_hash", "source_hash"), on=["url_hash", "source_hash"], how="semi")
    new = new.with_columns(is_new=pl.lit(value=True))
    parts = [_as_told(part) for part in (outside, listed, new)]
    return pl.concat(parts).unique(maintain_order=True)


def _as_told(rows: pl.DataFrame) -> pl.DataFrame:
    defaults = {"linked_from": None, "listed": False, "is_new": False}
    absent = [pl.lit(value).alias(name) for name, value in defaults.items() if name not in rows.columns]
    source = pl.when("is_new").then("source_url").alias("source_url")
    rows = rows.with_columns(absent).with_columns(source)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in TOLD.items())


def released(given: pl.DataFrame) -> pl.DataFrame:
    """The patterns that new orders release (host, pattern); a null stands for all of the host."""
    return given.filter(pl.col("kind") == "release").select(list(RELEASED))
