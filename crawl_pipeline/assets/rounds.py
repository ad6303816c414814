"""`crawl_round`: the tables that a round writes, as one asset per table, partitioned by bucket.

One run owns one bucket or many. It opens the lake, lets a worker run rounds until its time is over, and says per bucket
and table what was written. Decides nothing: what a round does is in rounds.py. What the loop reads of its own earlier
rounds is not declared upstream: Dagster sees a graph without cycles, the lake closes the loop.
"""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from crawl_pipeline.assets import checks, partitions, working
from crawl_pipeline.core.tables import TABLES, Table
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

WRITTEN = ("links", "fetches", "pages", "contents", "robots", "frontier", "hosts", "change_frequency", "templates",
           "patterns",
           "rounds")  # fmt: skip
GROUP = "crawl_round"
OWNERS = ["team:crawl"]


class RoundsConfig(dg.Config):
    """What a run is told."""

    seconds: float = Field(
        default=300.0, gt=0,
        description="How long the run works, in seconds: it repeats rounds until then, or until nothing falls due. "
        "Starting a run costs some ten seconds, so make it minutes.",
    )  # fmt: skip


def crawl_round(buckets: dg.StaticPartitionsDefinition) -> dg.AssetsDefinition:
    """The asset definitions for a lake of so many buckets."""

    @dg.multi_asset(
        name="crawl_round",
        specs=[_spec(TABLES[name], buckets) for name in WRITTEN],
        check_specs=checks.INLINE,
        partitions_def=buckets,
        # Buckets chosen together share runs, as many as may run at once; the lease keeps them apart.
        backfill_policy=dg.BackfillPolicy.multi_run(max(1, buckets.get_num_partitions() // 2)),
    )
    def crawl_round(
        context: dg.AssetExecutionContext, config: RoundsConfig, lake: LakeResource, policy: PolicyResource,
        tell: dg.ResourceParam[Callable],  # type: ignore[type-arg]  # Dagster takes no parameters here
    ) -> Iterator[dg.AssetCheckResult]:  # fmt: skip
        """Run rounds in these buckets for some seconds."""
        opened, rules = lake.open(buckets.get_num_partitions()), policy.load()
        asked = [partitions.bucket(key) for key in context.partition_keys]
        context.instance.add_run_tags(context.run.run_id, {"crawl/mode": "rounds"})
        came = working.work(context, opened, rules, asked, config.seconds, tell)
        if came.done:
            yield from working.report(context, opened, rules, came)
        working.end(asked, came)

    return crawl_round


def orders() -> dg.AssetSpec:
    """What people asked for: written by the command line, read by rounds."""
    table = TABLES["orders"]
    return dg.AssetSpec(table.name, description=description(table), group_name="people", owners=OWNERS,
                        kinds={"deltalake"}, metadata=columns(table))  # fmt: skip


def _spec(table: Table, buckets: dg.PartitionsDefinition) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name, deps=["orders"], skippable=True, description=description(table), group_name=GROUP,
        owners=OWNERS, kinds={"deltalake", "polars"}, metadata=columns(table), partitions_def=buckets,
    )  # fmt: skip


def description(table: Table) -> str:
    """Say what a table holds."""
    key = ", ".join(table.key)
    return f"One row is {table.one_row_is}. A {table.kind} table; a row is identified by {key}."


def columns(table: Table) -> dict[str, Any]:
    """Show a table's name and columns as Dagster does."""
    shown = [
        dg.TableColumn(
            column.name,
            str(column.dtype),
            f"{column.meaning} [{column.unit}]" if column.unit else column.meaning,
        )
        for column in table.columns
    ]
    return {
        "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(shown)),
        "dagster/table_name": table.name,
    }
