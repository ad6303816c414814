"""Ask for runs where work waits: a sensor that looks every minute, a schedule that looks every quarter of an hour.

Both do the same: read the newest round of each bucket, what was ordered and written since, and the leases; let core
say which buckets have work; ask for a few runs over neighbouring free ones. They never read a frontier or a log of
pages. Both are stopped until a person starts them: nobody is asked anything because a page was opened.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from crawl_pipeline.assets import partitions
from crawl_pipeline.core import waiting
from crawl_pipeline.core.waiting import Group, Waiting
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.runs import RunsResource

if TYPE_CHECKING:
    from crawl_pipeline.lake import Lake

Asked = Iterator[dg.RunRequest | dg.SkipReason]
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
# Runs that have no lease yet. One that has started is judged by its lease alone: after a crash its record may say
# "started" for hours.
ON_THE_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]


def work_sensor(job: "dg.UnresolvedAssetJobDefinition", count: int) -> dg.SensorDefinition:
    """The sensor for a lake of so many buckets."""

    @dg.sensor(
        job=job,
        minimum_interval_seconds=60,
        description="Asks for runs over the buckets that have work waiting.",
    )
    def buckets_with_work(context: dg.SensorEvaluationContext, lake: LakeResource, runs: RunsResource) -> Asked:
        yield from ask(context.instance, lake.open(count), runs, datetime.now(UTC))

    return buckets_with_work


def work_schedule(job: "dg.UnresolvedAssetJobDefinition", count: int) -> dg.ScheduleDefinition:
    """The schedule for a lake of so many buckets."""

    @dg.schedule(
        job=job, cron_schedule="*/15 * * * *", execution_timezone="UTC",
        description="Every quarter of an hour, runs over the buckets that have work waiting.",
    )  # fmt: skip
    def every_quarter_hour(context: dg.ScheduleEvaluationContext, lake: LakeResource, runs: RunsResource) -> Asked:
        yield from ask(context.instance, lake.open(count), runs, datetime.now(UTC))

    return every_quarter_hour


def ask(instance: dg.DagsterInstance, lake: "Lake", runs: RunsResource, now: datetime) -> Asked:
    """Ask for runs, or say why not."""
    found = look(lake, now)
    taken = asked_for(instance)
    free = Waiting(found.work, found.leased | taken, found.next_at, found.rounds)
    groups = waiting.groups(free, runs.most)
    if not groups:
        yield dg.SkipReason(_why_not(free, taken))
    for group in groups:
        yield _request(group, free, runs, now)


def look(lake: "Lake", now: datetime) -> Waiting:
    """Read the small tables that say what waits."""
    last = (
        lake.scan("rounds", buckets=range(lake.buckets))
        .select(waiting.LAST)
        .sort("round")
        .group_by("bucket")
        .last()
        .collect()
    )
    since = waiting.oldest_unread(last, lake.buckets)
    written = lake.scan("rounds", since=since).select("bucket", "round", "links_to").collect()
    orders = lake.scan("orders").select("order", "host", "site", "of_bucket").collect()
    return waiting.look(last, written, orders, lake.leases(), now)


def asked_for(instance: dg.DagsterInstance) -> frozenset[int]:
    """Buckets of runs that wait in the queue or are starting up: they will be leased, but are not yet."""
    found = instance.get_runs(dg.RunsFilter(statuses=ON_THE_WAY))
    spans = [_span(run.tags) for run in found]
    return frozenset(bucket for first, last in filter(None, spans) for bucket in range(first, last + 1))


def _span(tags: Mapping[str, str]) -> tuple[int, int] | None:
    one = tags.get("dagster/partition")
    first, last = (one, one) if one else (tags.get(name) for name in RANGE)
    return (partitions.bucket(first), partitions.bucket(last)) if first and last else None


def _request(group: Group, found: Waiting, runs: RunsResource, now: datetime) -> dg.RunRequest:
    """A request that is made once per state of its buckets, and again after an hour if that came to nothing."""
    newest = max((found.rounds.get(bucket, 0) for bucket in range(group.first, group.last + 1)), default=0)
    first, last = partitions.key(group.first), partitions.key(group.last)
    return dg.RunRequest(
        run_key=f"{first}-{last} after round {newest}, {now:%F %H}h",
        run_config={"ops": {"crawl_round": {"config": {"seconds": runs.seconds}}}},
        **over(group, {"crawl/mode": "rounds", "crawl/after_round": str(newest), "crawl/work": str(group.work)}),
    )


def over(group: Group, tags: Mapping[str, str]) -> dict[str, Any]:
    """Ask for the buckets of a group: one as a partition, several as a range."""
    if group.first == group.last:
        return {"partition_key": partitions.key(group.first), "tags": dict(tags)}
    return {"partition_key": None, "tags": {**tags, **partitions.tags(group.first, group.last)}}


def _why_not(found: Waiting, taken: frozenset[int]) -> str:
    if found.work:
        names = ", ".join(map(partitions.key, sorted(found.work)))
        return f"all buckets with work are leased or asked for: {names}"
    if found.next_at:
        return f"nothing due until {found.next_at:%F %T} UTC"
    return "nothing due, and nothing ordered: give seeds with `crawl seed`"
