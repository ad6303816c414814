"""`recrawl`: known pages of a bucket visited again, those that people or the sensor wish for; partitioned by bucket.

A run first orders what it was told to (nothing, for pages that are due already), then runs rounds in which new URLs
wait, and says per bucket how many pages were wished for and how many are left. Decides nothing: recrawling.py says what
a wish means.

Invariant: all runs of one backfill, their retries included, are of one wish, made when the backfill was; so is a run
with its re-executions.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from crawl_pipeline.assets import checks, partitions, working
from crawl_pipeline.assets.rounds import OWNERS
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

if TYPE_CHECKING:
    from crawl_pipeline.recrawling import Wish

NAME, GROUP = "recrawl", "recrawl"
BACKFILLS = ("dagster/root_backfill_id", "dagster/backfill")
VISITED = dg.AssetCheckSpec(
    "all_visited", asset=NAME, description="Every page that was wished for has been visited when the run ends."
)


class Mode(Enum):
    """Which known pages are visited again. (Dagster shows the names.)"""

    due = "due"
    older_than = "older_than"
    pattern = "pattern"
    all = "all"


class RecrawlConfig(dg.Config):
    """Which pages of the chosen buckets are visited again, and for how long the run may take."""

    mode: Mode = Field(
        default=Mode.due,
        description="due: known pages whose time has come. older_than: those last visited more than `days` ago. "
        "pattern: those whose URL matches `pattern`. all: every known page. What is new waits meanwhile.",
    )
    days: float = Field(default=30.0, ge=0, le=36_500, description="For older_than: the age, in days.")
    pattern: str = Field(default="*", description="For pattern: what whole URLs match; * is any text: */news/*")
    seconds: float = Field(
        default=600.0, gt=0, le=31_536_000,
        description="The most a run works, in seconds; it ends when all is visited. What is left stays due.",
    )  # fmt: skip


def recrawl(buckets: dg.StaticPartitionsDefinition) -> dg.AssetsDefinition:
    """The asset for a lake of so many buckets."""

    @dg.multi_asset(
        name=NAME,
        specs=[dg.AssetSpec(
            NAME, deps=["frontier", "change_frequency"], skippable=True, group_name=GROUP, owners=OWNERS,
            kinds={"deltalake", "polars"}, partitions_def=buckets,
            description="Known pages visited again. Materialise buckets with a mode: due, older_than, pattern or all.",
        )],
        check_specs=[VISITED, *checks.inline(NAME)],
        partitions_def=buckets,
    )  # fmt: skip
    def recrawl(
        context: dg.AssetExecutionContext, config: RecrawlConfig, lake: LakeResource, policy: PolicyResource,
        tell: dg.ResourceParam[Callable],  # type: ignore[type-arg]  # Dagster takes no parameters here
    ) -> Iterator[dg.AssetCheckResult]:  # fmt: skip
        """Order the visits and run rounds until they are made, or the time is over."""
        from crawl_pipeline import recrawling  # noqa: PLC0415 (keeps the code server small)

        opened, rules = lake.open(buckets.get_num_partitions()), recrawling.only_known(policy.load())
        asked, wish = [partitions.bucket(key) for key in context.partition_keys], _wish(context, config)
        context.instance.add_run_tags(context.run.run_id, {"crawl/mode": wish.mode})
        wished = recrawling.waiting(opened, asked, wish)
        context.log.info(f"{sum(wished.values())} pages to visit again: {wish}")
        recrawling.order(opened, asked, wish, by=f"Dagster run {context.run.run_id[:8]}")
        came = working.work(context, opened, rules, asked, config.seconds, tell)
        if came.done:
            yield from working.report(context, opened, rules, came, of=NAME)
            yield _tell(context, wish, wished, recrawling.waiting(opened, asked, wish))
        working.end(asked, came)

    return recrawl


def made_at(instance: dg.DagsterInstance, run: dg.DagsterRun) -> datetime:
    """When that was asked for which the run does: its backfill, or the run that it repeats, or the run itself."""
    root = run.tags.get("dagster/root_run_id", run.run_id)
    record = instance.get_run_record_by_id(root) or instance.get_run_record_by_id(run.run_id)  # one may be pruned
    tags = {**(record.dagster_run.tags if record else {}), **run.tags}
    for tag in BACKFILLS:
        if (backfill := tags.get(tag)) and (found := instance.get_backfill(backfill)):
            return datetime.fromtimestamp(found.backfill_timestamp, UTC)
    assert record is not None
    return record.create_timestamp.replace(tzinfo=UTC)


def _wish(context: dg.AssetExecutionContext, config: RecrawlConfig) -> "Wish":
    from crawl_pipeline.recrawling import Wish  # noqa: PLC0415

    return Wish(config.mode.value, made_at(context.instance, context.run), config.days, config.pattern)


def _tell(
    context: dg.AssetExecutionContext, wish: "Wish", wished: Mapping[int, int], left: Mapping[int, int]
) -> dg.AssetCheckResult:
    """Say of each bucket what came of it, and of all whether something is left."""
    for bucket, count in wished.items():
        numbers = {"wished_for": count, "visited": count - left[bucket], "left": left[bucket]}
        context.log_event(
            dg.AssetMaterialization(NAME, partition=partitions.key(bucket), metadata={**numbers, "wish": str(wish)})
        )
    behind = {partitions.key(bucket): count for bucket, count in left.items() if count}
    return dg.AssetCheckResult(
        passed=not behind, severity=dg.AssetCheckSeverity.WARN, asset_key=VISITED.asset_key, check_name=VISITED.name,
        metadata={"wished_for": sum(wished.values()), "left": sum(left.values())},
        description=_left(behind) if behind else None,
    )  # fmt: skip


def _left(behind: Mapping[str, int]) -> str:
    names = ", ".join(f"{count} of {bucket}" for bucket, count in behind.items())
    return (
        f"Pages that were not visited in time: {names}. To do: nothing, since they are due and the next rounds go on; "
        "or re-execute this run with more `seconds`: what was visited is not visited twice. If hosts rest, are paused, "
        "or have had their day, `crawl funnel` says so."
    )
