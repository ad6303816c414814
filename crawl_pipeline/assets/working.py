"""A worker's time inside a Dagster run: let it work, report what it committed, say what it could not do.

What `crawl_round` and `recrawl` have in common. Decides nothing: what a round does is in rounds.py.

Invariant: what was committed is reported, whatever ended the run.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline.assets import checks, partitions, telling

if TYPE_CHECKING:
    import polars as pl

    from crawl_pipeline.core.policy import Policy
    from crawl_pipeline.lake import Lake
    from crawl_pipeline.rounds import Done

TOLD_TO_STOP = "it was told to stop"

Tell = Callable[["Done"], None]


def nobody(done: "Done") -> None:
    """Hear of a round and do nothing; who runs a crawl in process may listen instead."""


@dataclass(slots=True)
class Work:
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


def work(
    context: dg.AssetExecutionContext,
    lake: "Lake",
    policy: "Policy",
    asked: list[int],
    seconds: float,
    tell: Tell,
) -> Work:
    """Let a worker work; a log line per round, and what it could not do as a value."""
    from crawl_pipeline import worker  # noqa: PLC0415 (the code server needs no trio, httpx or deltalake)

    came, began = Work(), time.monotonic()

    def heard(done: "Done") -> None:
        came.done.append(done)
        context.log.info(telling.line(done.round, done.rows))
        tell(done)

    try:
        came.stopped = worker.run(lake, policy, buckets=asked, seconds=seconds, tell=heard).stopped
    except Exception as trouble:  # raised again by end, once what was committed is reported
        came.trouble = trouble
    came.seconds = time.monotonic() - began
    return came


def report(
    context: dg.AssetExecutionContext, lake: "Lake", policy: "Policy", came: Work, of: str | None = None
) -> Iterator[dg.AssetCheckResult]:
    """One materialisation per bucket and table, then the checks of this run, or those of the asset `of`."""
    rows, recent = came.rows, checks.recent_fetches(lake, policy, came.rows)
    hosts = telling.hosts(lake, rows)
    for bucket, facts in telling.facts(rows, recent, hosts).items():
        for table, metadata in facts.items():
            context.log_event(
                dg.AssetMaterialization(
                    table, partition=partitions.key(bucket), metadata={**metadata, **where(lake, table)}
                )
            )
    spent = {"crawl/rounds": telling.span(rows), "crawl/worker_s": f"{came.seconds:.3f}", **telling.regions(hosts)}
    context.instance.add_run_tags(context.run.run_id, spent)
    context.log.info(f"The worker stopped: {came.stopped or came.trouble}")
    yield from checks.judge(rows, recent, checks.in_force(lake, recent), of=of)


def where(lake: "Lake", table: str) -> dict[str, str]:
    """Where a table lies."""
    return {"dagster/uri": f"{lake.root.rstrip('/')}/{table}"}


def end(asked: list[int], came: Work) -> None:
    """Raise if buckets were left out, or if the run was stopped before its time."""
    from crawl_pipeline.lake import LeaseHeld, LeaseLost  # noqa: PLC0415

    did = set(came.rows["bucket"]) if came.done else set()
    held = [partitions.key(bucket) for bucket in asked if bucket not in did]
    if came.trouble and not isinstance(came.trouble, LeaseHeld | LeaseLost):
        raise came.trouble
    if came.trouble:
        raise dg.Failure(str(came.trouble), {"buckets not done": held}, allow_retries=True) from came.trouble
    if held:
        raise dg.Failure(
            f"expected free buckets, found {', '.join(held)} held by another worker: the other buckets are done; "
            "materialise these when its lease has ended (`crawl status` says when)",
            {"buckets not done": held},
            allow_retries=True,
        )
    if came.stopped == TOLD_TO_STOP:
        raise dg.DagsterExecutionInterruptedError("told to stop: the rounds so far are committed, the lease is back")
