"""Retention: what has been kept as long as the policy says goes, whole months at a time.

Decides the order; what goes is in `core.retention`. Holds every bucket for it, as an erasure does: a worker may be
about to write a page that names a content which is stored already. The files go with the maintenance of a week later.

Invariant: at every moment each page that names a content finds it: pages lose theirs in one commit, before another
deletes what none names any more. So it can be killed and repeated.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline import ordering
from crawl_pipeline.core import retention
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.retention import Ages, Expired
from crawl_pipeline.core.tables import CONTENTS, ERASURES, FETCHES, LINKS, PAGES, ROBOTS, TABLES
from crawl_pipeline.lake import Lake, LeaseLost
from crawl_pipeline.lake.erasing import Rewritten
from crawl_pipeline.standstill import LEASE_S, Clock, Standstill, Tell, now, renewed


@dataclass(frozen=True, slots=True)
class Retained:
    """What went: by table, rows that were deleted and pages that lost their body."""

    tables: Mapping[str, Rewritten] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """The same as plain values."""
        return {name: {"rows": done.gone, "bodies": done.changed} for name, done in self.tables.items()}


def retain(
    lake: Lake, policy: Policy, *, wait_s: float = 0.0, clock: Clock = now, tell: Tell = lambda step: None
) -> Retained:
    """Delete what has been kept long enough; `policy` is what the policy file says.

    Raise LeaseHeld if some buckets are not free after `wait_s`.
    """
    rules = ordering.policy_in_force(lake, policy)
    ages = Ages.at(clock(), rules.retention)
    if not _any_before(lake, ages):
        return Retained()
    ordering.keep_policy(lake, rules, clock())
    still = Standstill.take(lake, rules, "retention", LEASE_S, wait_s=wait_s, clock=clock, tell=tell)
    try:
        with renewed(lake, still.lease, clock):
            return _retained(still, ages, clock)
    finally:
        with suppress(LeaseLost):  # whoever took over needs no word from us
            still.release()


def _any_before(lake: Lake, ages: Ages) -> bool:
    """Whether a table that still has rows of such an age may lose some: most maintenances need not look further."""
    times = {PAGES: "fetched_at", FETCHES: "started_at"}
    of = [(table, pl.col(column).min()) for table, column in times.items()]
    oldest = [lake.scan(table).select(first).collect().item() for table, first in of]
    return any(at is not None and at < ages.latest for at in oldest) or _last_round(lake, ages.links) > 0


def _last_round(lake: Lake, before: datetime) -> int:
    """The last round that had ended by then, and all before it."""
    ended = lake.scan("rounds").select("round", "ended_at").collect()
    younger = ended.filter(pl.col("ended_at") >= before)["round"].min()
    old = ended.filter(pl.col("ended_at") < before)["round"]
    rounds = old if younger is None else old.filter(old < younger)
    links = lake.scan("links").select(pl.col("round").min()).collect().item()
    return int(str(rounds.max())) if len(rounds) and links is not None and links <= rounds.max() else 0


def _retained(still: Standstill, ages: Ages, clock: Clock) -> Retained:
    lake = still.lake
    still.catch_up()  # every link is read before it goes
    tags = ordering.in_force(lake).tags
    none = retention.orphans(lake.stored(CONTENTS), [lake.stored(PAGES)], -1)
    expired = Expired(ages, _current(lake), _last_round(lake, ages.links),
                      {tag: facts.topic for tag, facts in tags.items()}, none)  # fmt: skip
    modules = [name for name in lake.tables if name not in TABLES]
    done = {}
    for name in (PAGES.name, *modules, "module_failures", FETCHES.name, ROBOTS.name, LINKS.name):
        still.tell(f"{name}: delete what has been kept long enough")
        done[name] = lake.erase(name, expired)
        still.renew()
    still.tell("contents: delete what no page names any more")
    naming = [lake.stored(table) for table in lake.tables.values() if "content_round" in table.column_names]
    ended = _ended(lake, ages.latest)
    orphans = retention.orphans(lake.stored(CONTENTS), naming, ended)
    done[CONTENTS.name] = lake.erase(CONTENTS, Expired(ages, expired.current, 0, {}, orphans))
    done = {name: one for name, one in done.items() if one.gone or one.changed}
    if done:
        _record(lake, done, ages, still.lease.holder, clock())
    return Retained(done)


def _current(lake: Lake) -> pl.DataFrame:
    """The newest version of each page, and when a visit last found it so."""
    newest = lake.scan("pages").group_by("url_hash").agg(pl.col("round").max(), fetched_at=pl.col("fetched_at").max())
    visits = lake.scan("change_frequency").select("url_hash", visited_at="fetched_at")
    both = newest.join(visits, on="url_hash", how="left")
    return both.select("url_hash", "round", seen_at=pl.coalesce("visited_at", "fetched_at")).collect()


def _ended(lake: Lake, before: datetime) -> int:
    ended = lake.scan("rounds", where=pl.col("ended_at") < before).select(pl.col("round").max()).collect().item()
    return int(ended or 0)


def _record(lake: Lake, done: Mapping[str, Rewritten], ages: Ages, worker: str, at: datetime) -> None:
    until = {PAGES.name: ages.pages, FETCHES.name: ages.requests, ROBOTS.name: ages.requests, LINKS.name: ages.links}
    versions = lake.versions()
    rows: list[dict[str, object]] = [
        {"table_name": name, "erased_at": at, "worker": worker, "until_at": until.get(name, ages.latest),
         "gone_count": one.gone, "changed_count": one.changed, "version": versions[name]}
        for name, one in done.items()
    ]  # fmt: skip
    lake.record(ERASURES, ERASURES.frame(rows))
