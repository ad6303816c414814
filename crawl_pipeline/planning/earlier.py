"""What the pages said that hosts have shown, kept by a worker while it has their bucket: fingerprints of those that
were good, and by URL the content of all, so that URLs that differ in a parameter can be compared (core.parameters).

Reads `pages` once per host and lease; then a worker adds what it finds. Nothing here is truth: what is lost is read
again, and what is left out for want of room lets a repetition pass for good.

Bounds: of a host the newest `traps.signatures` pages, of all hosts MOST together; hosts not met for longest go first.
Hosts that are being judged stay until their round is, however many pages they have.
"""

from dataclasses import dataclass, field

import polars as pl

from crawl_pipeline.core import parameters, repeats
from crawl_pipeline.core.parameters import Known
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning import Plan

MOST = 100_000


@dataclass(slots=True)
class EarlierPages:
    """Fingerprints by host, in the order in which hosts were met last."""

    kept: dict[str, pl.DataFrame] = field(default_factory=dict)
    by_url: dict[str, Known] = field(default_factory=dict)
    most: int = MOST

    def of(self, lake: Lake, plan: Plan, hosts: pl.Series, policy: Policy) -> pl.DataFrame:
        """The earlier pages of some hosts, oldest first (columns repeats.SIGNED)."""
        missing = [host for host in hosts if host not in self.kept]
        if missing:
            self.kept |= dict.fromkeys(missing, repeats.NOBODY)
            self.by_url |= {host: Known(policy.traps.signatures) for host in missing}
            self._read(lake, plan, missing, policy)
        for host in hosts:
            self.kept[host] = self.kept.pop(host)
        self._make_room(frozenset(hosts))
        return pl.concat([repeats.NOBODY, *(self.kept[host] for host in hosts)])

    def add(self, pages: pl.DataFrame, policy: Policy) -> None:
        """Keep pages that no earlier one is like, once their round is judged."""
        self._keep(pages, policy)
        self._make_room()

    def _keep(self, pages: pl.DataFrame, policy: Policy) -> None:
        most = policy.traps.signatures
        for (host,), rows in pages.select(list(repeats.SIGNED)).group_by("host", maintain_order=True):
            name = str(host)
            self.kept[name] = pl.concat([self.kept.get(name, repeats.NOBODY), rows]).tail(most)

    def _make_room(self, spared: frozenset[str] = frozenset()) -> None:
        # Copies are known by URL alone: a host of nothing else takes room as well.
        sizes = {host: max(1, rows.height, len(self.by_url[host].contents)) for host, rows in self.kept.items()}
        beyond = sum(sizes.values()) - self.most
        for host in [host for host in sizes if host not in spared] if beyond > 0 else ():
            if beyond <= 0:
                break
            beyond -= sizes[host]
            del self.kept[host], self.by_url[host]

    def _read(self, lake: Lake, plan: Plan, hosts: list[str], policy: Policy) -> None:
        among = pl.col("host").is_in(hosts)
        stored = lake.scan("pages", buckets=lake.once_in(plan.lease.buckets), where=among)
        newest = stored.sort("fetched_at").group_by("host", maintain_order=True).tail(policy.traps.signatures)
        pages = newest.drop_nulls("token_count").with_columns(bare_hash=pl.lit(None, pl.Int64))
        found = pages.select(list(repeats.SIGNED)).collect()
        self._keep(found, policy)
        worded = found.filter(pl.col("token_count") >= policy.traps.thin_tokens).drop_nulls("main_hash")
        for host, url, *content_of in worded.select("host", "url", "main_hash", "text_hash").iter_rows():
            self.by_url[host].add(url, parameters.content(content_of))
