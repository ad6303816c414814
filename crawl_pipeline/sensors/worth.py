"""Ask for recrawls where they are worth most: a sensor over what visits of due pages would bring, bucket by bucket.

It asks of each bucket what a run would select of its known pages, by the selection of rounds themselves and the
evidence of `change_frequency` that it goes by; takes the fewest buckets that hold most of the worth; and asks for a few
balanced runs. It reads due rows only, and no longer than a tick may last: the next tick goes on with other buckets.
Stopped until a person starts it.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline.assets import partitions
from crawl_pipeline.core import waiting
from crawl_pipeline.core.waiting import Group, Waiting
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource
from crawl_pipeline.resources.runs import RunsResource
from crawl_pipeline.sensors.work import Asked, asked_for, over

if TYPE_CHECKING:
    from crawl_pipeline.core.policy import Policy
    from crawl_pipeline.lake import Lake
    from crawl_pipeline.recrawling import Worth

LOOK_S = 30.0
"""How long a tick looks at buckets: Dagster gives it a minute."""


def worth_sensor(job: "dg.UnresolvedAssetJobDefinition", count: int) -> dg.SensorDefinition:
    """The sensor for a lake of so many buckets."""

    @dg.sensor(
        job=job, minimum_interval_seconds=600,
        description="Asks for recrawls of the buckets whose due pages are worth most.",
    )  # fmt: skip
    def buckets_worth_a_visit(
        context: dg.SensorEvaluationContext, lake: LakeResource, policy: PolicyResource, runs: RunsResource
    ) -> Asked:
        opened, rules, now = lake.open(count), policy.load(), datetime.now(UTC)
        free = _free(opened, asked_for(context.instance), now)
        start = int(context.cursor or 0)
        turn = [bucket for bucket in free if bucket >= start] + [bucket for bucket in free if bucket < start]
        found = look(opened, turn, rules, now, runs.seconds)
        context.update_cursor(str(turn[len(found) % len(turn)] if turn else 0))
        groups = waiting.groups(_waiting(found, free, count), runs.most)
        if not groups:
            yield dg.SkipReason(_why_not(free, found))
        for group in groups:
            yield _request(group, found, runs, now)

    return buckets_worth_a_visit


def look(
    lake: "Lake", buckets: list[int], policy: "Policy", now: datetime, seconds: float, *, most_s: float = LOOK_S
) -> dict[int, "Worth"]:
    """What the due pages of each bucket are worth, of as many as there is time for; at least of one."""
    from crawl_pipeline import ordering, recrawling  # noqa: PLC0415 (keeps the code server small)

    began, found, rules = time.monotonic(), dict[int, "Worth"](), ordering.policy_in_force(lake, policy)
    for bucket in buckets:
        found[bucket] = recrawling.worth(lake, bucket, rules, now, seconds)
        if time.monotonic() - began > most_s:
            break
    return found


def _free(lake: "Lake", taken: frozenset[int], now: datetime) -> list[int]:
    leases = lake.leases()
    held = {row["bucket"] for row in leases.iter_rows(named=True) if not row["released"] and row["deadline_at"] > now}
    return [bucket for bucket in sorted(leases["bucket"]) if bucket not in held | taken]


def _waiting(found: Mapping[int, "Worth"], free: list[int], count: int) -> Waiting:
    """The best buckets, with the pages of each as work; others may lie between them in a run, but no held one."""
    best = waiting.best({bucket: each.worth for bucket, each in found.items() if each.pages})
    held = frozenset(range(count)) - frozenset(free)
    return Waiting({bucket: found[bucket].pages for bucket in best}, held, None, {})


def _why_not(free: list[int], found: Mapping[int, "Worth"]) -> str:
    if not free:
        return "all buckets are leased or asked for"
    return f"no known page is due and may be asked for in the {len(found)} buckets looked at, of {len(free)} free ones"


def _request(group: Group, found: Mapping[int, "Worth"], runs: RunsResource, now: datetime) -> dg.RunRequest:
    first, last = partitions.key(group.first), partitions.key(group.last)
    worth = sum(each.worth for bucket, each in found.items() if group.first <= bucket <= group.last)
    return dg.RunRequest(
        run_key=f"recrawl of {first}-{last}, {now:%F %H:%M}",
        run_config={"ops": {"recrawl": {"config": {"mode": "due", "seconds": runs.seconds}}}},
        **over(group, {"crawl/mode": "due", "crawl/work": str(group.work), "crawl/worth": f"{worth:.6g}"}),
    )
