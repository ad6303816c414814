"""`crawl_round`: the tables that a round writes, as one asset per table, partitioned by bucket.

One run owns one bucket or many. It opens the lake, lets a worker run rounds until its time is over, and says per bucket
and table what was written. Decides nothing: what a round does is in rounds.py. What the loop reads of its own earlier
rounds is not declared upstream: Dagster sees a graph without cycles, the lake closes the loop.

Invariant: what was committed is reported, whatever ended the run.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline.assets import checks, partitions, telling
from crawl_pipeline.core.tables import TABLES, Table
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

if TYPE_CHECKING:
    import polars as pl

    from crawl_pipeline.core.policy import Policy
    from crawl_pipeline.lake import Lake
    from crawl_pipeline.rounds import Done

WRITTEN = ("links", "fetches", "pages", "contents", "robots", "frontier", "hosts", "change_frequency", "templates",
           "patterns",
           "rounds")  # fmt: skip
GROUP = "crawl_round"
OWNERS = ["team:crawl"]
TOLD_TO_STOP = "it was told to stop"

Tell = Callable[["Done"], None]


def nobody(done: "Done") -> None:
    """Hear of a round and do nothing; who runs a crawl in process may listen instead."""


class RoundsConfig(dg.Config):
    """What a run is told."""

    seconds: float = 300.0


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
        work = _work(context, opened, rules, asked, config.seconds, tell)
        if work.done:
            yield from _report(context, opened, rules, work)
        _end(asked, work)

    return crawl_round


def orders() -> dg.AssetSpec:
    """What people asked for: written by the command line, read by rounds."""
    table = TABLES["orders"]
    return dg.AssetSpec(table.name, description=description(table), group_name="people", owners=OWNERS,
                        kinds={"deltalake"}, metadata=columns(table))  # fmt: skip


@dataclass(slots=True)
class _Work:
    """What came of a worker's time."""

    done: list["Done"] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""
    trouble: Exception | None = None

    @property
    def rows(self) -> "pl.DataFrame":
        """The rows of `rounds` that were committed."""
        import polars as pl  # noqa: PLC0415

        return pl.concat([done.rows for done in self.done])


def _work(
    context: dg.AssetExecutionContext,
    lake: "Lake",
    policy: "Policy",
    asked: list[int],
    seconds: float,
    tell: Tell,
) -> _Work:
    """Let a worker work; a log line per round, and what it could not do as a value."""
    from crawl_pipeline import worker  # noqa: PLC0415 (the code server needs no trio, httpx or deltalake)

    work, began = _Work(), time.monotonic()

    def heard(done: "Done") -> None:
        work.done.append(done)
        context.log.info(telling.line(done.round, done.rows))
        tell(done)

    try:
        work.stopped = worker.run(lake, policy, buckets=asked, seconds=seconds, tell=heard).stopped
    except Exception as trouble:  # raised again by _end, once what was committed is reported
        work.trouble = trouble
    work.seconds = time.monotonic() - began
    return work


def _report(
    context: dg.AssetExecutionContext, lake: "Lake", policy: "Policy", work: _Work
) -> Iterator[dg.AssetCheckResult]:
    """One materialisation per bucket and table, then the checks of this run."""
    rows, recent = work.rows, checks.recent_fetches(lake, policy, work.rows)
    for bucket, facts in telling.facts(rows, recent, telling.hosts(lake, rows)).items():
        for table, metadata in facts.items():
            context.log_event(dg.AssetMaterialization(table, partition=partitions.key(bucket), metadata=dict(metadata)))
    spent = {"crawl/rounds": telling.span(rows), "crawl/worker_s": f"{work.seconds:.3f}"}
    context.instance.add_run_tags(context.run.run_id, spent)
    context.log.info(f"The worker stopped: {work.stopped or work.trouble}")
    yield from checks.judge(rows, recent, checks.in_force(lake, recent))


def _end(asked: list[int], work: _Work) -> None:
    """Raise if buckets were left out, or if the run was stopped before its time."""
    from crawl_pipeline.lake import LeaseHeld, LeaseLost  # noqa: PLC0415

    did = set(work.rows["bucket"]) if work.done else set()
    held = [partitions.key(bucket) for bucket in asked if bucket not in did]
    if work.trouble and not isinstance(work.trouble, LeaseHeld | LeaseLost):
        raise work.trouble
    if work.trouble:
        raise dg.Failure(str(work.trouble), {"buckets not done": held}, allow_retries=True) from work.trouble
    if held:
        raise dg.Failure(
            f"expected free buckets, found {', '.join(held)} held by another worker: the other buckets are done; "
            "materialise these when its lease has ended (`crawl status` says when)",
            {"buckets not done": held},
            allow_retries=True,
        )
    if work.stopped == TOLD_TO_STOP:
        raise dg.DagsterExecutionInterruptedError("told to stop: the rounds so far are committed, the lease is back")


def _spec(table: Table, buckets: dg.PartitionsDefinition) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name, deps=["orders"], skippable=True, description=description(table), group_name=GROUP,
        owners=OWNERS, kinds={"deltalake", "polars"}, metadata=columns(table), partitions_def=buckets,
    )  # fmt: skip


def description(table: Table) -> str:
    """Say what a table holds."""
    key = ", ".join(table.key)
    return f"One row is {table.one_row_is}. A {table.kind} table; a row is identified by {key}."


def columns(table: Table) -> dict[str, dg.TableSchemaMetadataValue]:
    """Show a table's columns as Dagster does."""
    shown = [
        dg.TableColumn(
            column.name,
            str(column.dtype),
            f"{column.meaning} [{column.unit}]" if column.unit else column.meaning,
        )
        for column in table.columns
    ]
    return {"dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(shown))}
