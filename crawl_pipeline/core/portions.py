"""When URLs that sitemaps name take their turns: in portions, so that a large sitemap does not flood its host.

A host can be asked for so many URLs in `sitemap.portion_s`; the share `sitemap.share` of them is a portion, and the
rest stays free for what links lead to. The first portion is due at once, each further one a portion's time later, the
nearest and most recently modified URLs first. What was given out before stands with the host as `listed_until_at`, so
that many sitemaps wait in one line. A URL that anything but a sitemap links to does not wait.

Invariants: no URL is lost, each gets one date; whatever sitemaps name, no more than two portions of a host fall due in
any portion's time.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import politeness, selection
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import TIME

IN_TURN = (pl.col("kind") == "listed") | ((pl.col("kind") == "sitemap") & (pl.col("depth") > 0))
"""Links that wait for a turn: pages and further sitemaps that a sitemap names. One named by robots.txt does not."""


def patient(links: pl.DataFrame) -> pl.DataFrame:
    """The URLs that sitemaps name and nothing else does (url_hash, lastmod_at)."""
    each = links.group_by("url_hash").agg(IN_TURN.all().alias("waits"), pl.col("lastmod_at").max())
    return each.filter("waits").drop("waits")


def give_out(urls: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime) -> tuple[pl.DataFrame, pl.Series]:
    """Give each URL its date (url_hash, turn_at), and what `hosts.listed_until_at` is then.

    urls: url_hash, host, depth, lastmod_at. A date that is yet to come is no date.
    """
    lines = _lines(urls, hosts, policy, now)
    modified = pl.when(pl.col("lastmod_at") <= now).then("lastmod_at").alias("modified")
    turned = (
        urls.with_columns(modified)
        .sort("depth", "modified", "url_hash", descending=[False, True, False], nulls_last=True)
        .with_columns(place=pl.int_range(pl.len()).over("host"))
        .join(lines, on="host")
        .with_columns(portion=((pl.col("given") + pl.col("place")) / pl.col("portion_urls")).floor())
        .select("url_hash", turn_at=_later("portion", policy, now))
    )
    until = lines.with_columns(portions=(pl.col("given") + pl.col("named")) / pl.col("portion_urls"))
    dates = dict(until.select("host", _later("portions", policy, now)).iter_rows())
    listed_until = pl.col("host").replace_strict(dates, default=None, return_dtype=TIME)
    return turned, hosts.select(pl.coalesce(listed_until, "listed_until_at").alias("listed_until_at")).to_series()


def _later(portions: str, policy: Policy, now: datetime) -> pl.Expr:
    return pl.lit(now, TIME) + pl.duration(microseconds=(pl.col(portions) * policy.sitemap.portion_s * 1e6).cast(int))


def _lines(urls: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime) -> pl.DataFrame:
    """Per host that is named: how many URLs a portion has, how many turns are given out, how many are asked for."""
    named = dict(urls.group_by("host").len().iter_rows())
    among = hosts.filter(pl.col("host").is_in(list(named)))
    rows = [(row["host"], *_line(row, policy, now), named[row["host"]]) for row in among.iter_rows(named=True)]
    schema = {"host": pl.String, "portion_urls": pl.Int64, "given": pl.Float64, "named": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _line(row: Mapping[str, object], policy: Policy, now: datetime) -> tuple[int, float]:
    rules, until = policy.sitemap, row["listed_until_at"]
    gap_s = politeness.gap_s(selection.pace_of(dict(row)), None, policy, str(row["host"]))
    size = max(1, int(rules.share * rules.portion_s / max(gap_s, 1e-3)))
    ahead = (until - now) / timedelta(seconds=rules.portion_s) if isinstance(until, datetime) and until > now else 0.0
    return size, ahead * size
