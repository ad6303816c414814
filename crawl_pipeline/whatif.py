"""What would have been selected at a time under another policy: the difference to what was selected then, with reasons.

Both lists are planned from the same picture of the lake with the same seed, so that only the policy tells them apart.
One step of the crawl is compared, not a history: what earlier rounds admitted, found and learnt stays as it was.
Reads the lake; takes no lease and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline import past
from crawl_pipeline.core import admission, urls
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake
from crawl_pipeline.past import Then
from crawl_pipeline.planning import Plan

BOTH, ONLY_OLD, ONLY_NEW = "by both", "only by the old", "only by the new"
BEHIND = "left out: drawn far behind others of a large host"
EXAMPLES = 3
"""URLs of a bucket and reason that a person is shown."""
_LISTED = ["bucket", "url_hash", "host", "url", "selected", "old", "new"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One selection under two policies. `urls`: bucket, url_hash, host, url, selected, and why, by old and new.

    `in_hand` URLs were being asked or read already, whatever the policy; the round counted them as selected too.
    """

    then: Then
    old_policy: str
    new_policy: str
    in_hand: int
    old_count: int
    urls: pl.DataFrame

    def counts(self) -> pl.DataFrame:
        """URLs per bucket, selected by both or by one (bucket, selected, count)."""
        return self.urls.group_by("bucket", "selected").agg(count=pl.len()).sort("bucket", "selected")

    def sums(self, by: str) -> pl.DataFrame:
        """URLs selected by one policy only, per reason or per host, with a few examples each."""
        one = self.urls.filter(pl.col("selected") != BOTH)
        why = pl.when(pl.col("selected") == ONLY_NEW).then("old").otherwise("new").str.replace(r" \(.*\)$", "")
        grouped = one.with_columns(reason=why).group_by("selected", by)
        found = grouped.agg(count=pl.len(), examples=pl.col("url").sort().head(EXAMPLES))
        return found.sort("selected", "count", by, descending=[True, True, False])

    def figures(self) -> dict[str, Any]:
        """The same as plain values, with the full lists."""
        return {
            "round": self.then.round or None, "at": self.then.now, "buckets": self.then.buckets,
            "old_policy": self.old_policy, "new_policy": self.new_policy, "old_count": self.old_count,
            "in_hand_count": self.in_hand, "recorded_count": self.then.recorded if self.then.round else None,
            "counts": self.counts().to_dicts(), "by_reason": self.sums("reason").to_dicts(),
            "by_host": self.sums("host").to_dicts(), "urls": self.urls.to_dicts(),
        }  # fmt: skip


def whatif(lake: Lake, policy: Policy, at: datetime, now: datetime, against: Policy | None = None) -> list[Compared]:
    """Compare every selection of a time with what the policy would have made of it; `against`: in place of the old."""
    return [compare(lake, then, policy, against) for then in past.at_time(lake, at, now)]


def compare(lake: Lake, then: Then, policy: Policy, against: Policy | None = None) -> Compared:
    """Compare one selection."""
    before = against or past.policy_of(lake, then)
    old, new = past.plan(lake, then, before), past.plan(lake, then, policy)
    lists = _side_by_side(old, new)
    for side, made, other, rules in (("old", old, new, before), ("new", new, old, policy)):
        missing = lists.filter(pl.col(side).is_null())["url_hash"]
        why = _why_not(lake, made, other, missing, rules)
        lists = lists.with_columns(
            pl.coalesce(side, pl.col("url_hash").replace_strict(why, default=None, return_dtype=pl.String))
        )
    urls_ = lists.select(_LISTED).sort("bucket", "url")
    in_hand = len(past.in_hand(lake, then))
    return Compared(then, before.id, policy.id, in_hand, old.fetch_list.height, urls_)


def verdicts(made: Plan) -> pl.DataFrame:
    """What a plan made of each URL on its list (url_hash, why)."""
    chosen = made.fetch_list.select("url_hash").join(made.judged, on="url_hash", how="left")
    drawn = pl.format(
        "band {}, number {} of {} at its host (draw {})", "band", "rank", "quota", pl.col("draw").round(4)
    )
    visit = pl.format("number {} of {} at its host (a visit is worth {})", "rank", "quota", pl.col("worth").round(4))
    asked = pl.when("discovery").then(drawn).otherwise(visit)
    return chosen.select("url_hash", why=pl.coalesce(asked, pl.lit("robots.txt forbids it: settled without a request")))


def _side_by_side(old: Plan, new: Plan) -> pl.DataFrame:
    both = pl.concat([made.fetch_list.select("bucket", "url_hash", "host", "url") for made in (old, new)])
    rows = both.unique("url_hash", maintain_order=True)
    for name, made in (("old", old), ("new", new)):
        rows = rows.join(verdicts(made).rename({"why": name}), on="url_hash", how="left")
    one = pl.when(pl.col("new").is_null()).then(pl.lit(ONLY_OLD)).when(pl.col("old").is_null()).then(pl.lit(ONLY_NEW))
    return rows.with_columns(selected=one.otherwise(pl.lit(BOTH)))


def why_left_out(made: Plan) -> pl.DataFrame:
    """Why each due URL is not on a plan's list (url_hash, why)."""
    said = pl.format("left out: {} (number {}, quota {})", "left_out", "rank", "quota")
    waiting = made.judged.filter(pl.col("left_out").is_not_null()).select("url_hash", why=said)
    barred = made.due.drop_nulls("barred").select("url_hash", why=pl.format("left out: {}", "barred"))
    return pl.concat([waiting, barred])


def _why_not(lake: Lake, made: Plan, other: Plan, missing: pl.Series, policy: Policy) -> dict[int, str]:
    """Why each of some URLs of another plan's list is not on this one's."""
    left_out = pl.concat([why_left_out(made), _parked(made, other)])
    known = dict(left_out.filter(pl.col("url_hash").is_in(missing.implode())).iter_rows())
    unknown = missing.filter(~missing.is_in(list(known)))
    admitted = unknown.filter(unknown.is_in(other.admitted["url_hash"].implode()))
    behind = dict.fromkeys(unknown, BEHIND)
    refused = refusals(lake, admitted, made, policy, made.lease.buckets) if len(admitted) else {}
    return behind | refused | known


def _parked(made: Plan, other: Plan) -> pl.DataFrame:
    """What this plan parks, and what it leaves parked though the other lets it in (url_hash, why)."""
    new = made.admitted.filter(status=PARKED).select("url_hash", why=pl.format("left out: parked, {}", "reason"))
    still = other.changed.join(made.changed, on="url_hash", how="anti")
    return pl.concat([new, still.select("url_hash", why=pl.lit("left out: still parked"))])


def refusals(lake: Lake, hashes: pl.Series, made: Plan, policy: Policy, buckets: Sequence[int]) -> dict[int, str]:
    """Why admission refused URLs, by their links: the rule that each link meets, else the budget that was full."""
    links = lake.scan("links", buckets=lake.once_in(buckets), url_hashes=hashes).collect()
    site = pl.Series("site", [urls.site(host) for host in links["host"]], dtype=pl.String)
    judged = admission.judge(links.with_columns(site), made.hosts, policy, made.in_force)
    reasons = judged.group_by("url_hash").agg(pl.col("refusal").drop_nulls().unique().sort().str.join(", "))
    return dict.fromkeys(hashes, "refused by admission") | {
        number: f"refused by admission: {reason or 'a budget was full'}" for number, reason in reasons.iter_rows()
    }
