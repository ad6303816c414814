"""Say what is known of one URL, and why it was or was not fetched.

Reads the lake and asks the same rules that admission and selection ask; writes nothing and decides nothing new.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import admission, selection, urls
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import LINKS
from crawl_pipeline.lake import Lake

LATEST = 5
"""How many requests and sources are shown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Facts about a URL, and one sentence that says why."""

    url: str
    because: str
    facts: dict[str, Any] = field(default_factory=dict)


def explain(lake: Lake, policy: Policy, href: str, now: datetime) -> Explanation:
    """Explain a URL as a person typed it."""
    try:
        url = urls.canonical(href)
    except urls.NotCrawlable as refusal:
        return Explanation(href, f"it is not a URL that can be crawled: {refusal}")
    host = urls.host(url)
    bucket = urls.bucket(urls.site(host), lake.buckets)
    known = _rows(lake, "frontier", bucket, url)
    hosts = lake.scan("hosts", buckets=[bucket]).collect()
    facts: dict[str, Any] = {"canonical": url, "bucket": bucket, "host": _one(hosts.filter(pl.col("host") == host))}
    facts["found on"] = _sources(lake, url)
    if known.is_empty():
        return Explanation(url, _why_unknown(lake, policy, url, host, bucket, hosts), facts)
    facts["frontier"] = _one(known)
    facts["requests"] = _requests(lake, bucket, url)
    facts["changes"] = _one(_rows(lake, "change_frequency", bucket, url))
    return Explanation(url, _why_known(facts["frontier"], facts["host"] or {}, policy, now), facts)


def _why_known(row: dict[str, Any], host: dict[str, Any], policy: Policy, now: datetime) -> str:
    if row["outcome"] is not None and (row["due_at"] is None or row["due_at"] > now):
        again = f"; due again {row['due_at']:%F %T} UTC" if row["due_at"] else "; not due again by itself"
        said = f" ({row['reason']})" if row["reason"] else ""
        return f"its last fetch came to {row['outcome']}: {OUTCOMES[row['outcome']].says}{said}{again}"
    before = f" after {row['outcome']}" if row["outcome"] else ""
    quota, wait = selection.quota(pl.DataFrame([host], schema_overrides={"robots": pl.Object}), policy, now).select(
        "quota", "wait"
    ).row(0)  # fmt: skip
    if host.get("paused"):
        return f"it waits{before}: a person paused its host"
    if quota == 0:
        return f"it waits{before}: {wait}, until {host['next_allowed_at']:%F %T} UTC"
    return f"it waits{before} in band {row['band']} for the next round of bucket {row['bucket']}"


def _why_unknown(lake: Lake, policy: Policy, url: str, host: str, bucket: int, hosts: pl.DataFrame) -> str:
    """Judge the links that led to the URL by the rules of admission; if there are none, a link that might."""
    links = lake.scan("links", url_hashes=_hashes(url)).collect()
    site = pl.lit(urls.site(host)).alias("site")
    if links.is_empty():
        made_up = LINKS.frame([{"url": url, "host": host, "kind": "link", "depth": 1, "hops": 0, "nofollow": False}])
        refusal = admission.judge(made_up.with_columns(site), hosts, policy)["refusal"][0]
        would = f"; a link to it would be refused: {refusal}" if refusal else ""
        return f"no seed names it and no page that was read links to it{would}"
    refusals = admission.judge(links.with_columns(site), hosts, policy)["refusal"].drop_nulls().unique().sort()
    if len(refusals):
        return f"{links.height} links to it were refused: {', '.join(refusals)}"
    return f"{links.height} links to it wait to be admitted by the next round of bucket {bucket}, or met a full budget"


def _sources(lake: Lake, url: str) -> list[dict[str, Any]]:
    links = lake.scan("links", url_hashes=_hashes(url)).sort("round").head(LATEST)
    return links.select("source_url", "kind", "depth", "nofollow", "tag").collect().to_dicts()


def _requests(lake: Lake, bucket: int, url: str) -> list[dict[str, Any]]:
    sent = _rows(lake, "fetches", bucket, url).sort("started_at").tail(LATEST)
    return sent.select("started_at", "cause", "address", "http_status", "outcome", "reason", "robots_id").to_dicts()


def _rows(lake: Lake, table: str, bucket: int, url: str) -> pl.DataFrame:
    return lake.scan(table, buckets=[bucket], url_hashes=_hashes(url)).collect()


def _hashes(url: str) -> pl.Series:
    return pl.Series([urls.url_hash(url)])


def _one(rows: pl.DataFrame) -> dict[str, Any] | None:
    return next(rows.drop("bucket", "layer", strict=False).iter_rows(named=True), None)
