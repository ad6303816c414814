"""What people order in Dagster: seed, pause, resume, revisit, forget. Each job checks what was typed and gives orders.

The same functions of ordering.py as behind the command line; the owners of the buckets obey in their next rounds. What
is wrong with an order fails the run with what to correct, and then nothing was ordered.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from crawl_pipeline.assets import working
from crawl_pipeline.resources.lake import LakeResource

if TYPE_CHECKING:
    from crawl_pipeline.lake import Lake

_BY = Field(default="", description="Who orders this; it stands with the order. Empty: the Dagster run.")


class SeedConfig(dg.Config):
    """URLs to be crawled, and what is said of their list."""

    urls: list[str] = Field(default=[], description="URLs to start from, such as https://www.example.org/")
    tag: str = Field(
        default="", description="Name of the seed list; it stands with every page that is found through it."
    )
    topic: str = Field(default="", description="What the list is about; needs a tag.")
    region: str = Field(default="", description="Where its hosts are; needs a tag.")
    band: int = Field(default=0, ge=0, description="Band at which its pages start, 1 the most urgent; 0: as usual.")
    by: str = _BY


class HostsConfig(dg.Config):
    """Hosts, by name."""

    hosts: list[str] = Field(default=[], description="Host names without scheme, port and path: www.example.org")
    by: str = _BY


class ScopesConfig(dg.Config):
    """URLs, hosts and whole sites."""

    urls: list[str] = Field(default=[], description="Single URLs.")
    hosts: list[str] = Field(default=[], description="Whole hosts: www.example.org")
    sites: list[str] = Field(default=[], description="Whole sites with all their hosts: example.org")
    by: str = _BY


def load(count: int) -> dg.Definitions:
    """The jobs by which people give orders, in a lake of so many buckets."""

    @dg.op(description="Order URLs to be crawled.")
    def seed(context: dg.OpExecutionContext, config: SeedConfig, lake: LakeResource) -> None:
        from crawl_pipeline import ordering  # noqa: PLC0415 (keeps the code server small)
        from crawl_pipeline.core.orders import Tag  # noqa: PLC0415

        facts = Tag(config.topic or None, config.region or None, config.band or None)
        _give(context, lake.open(count), config.urls, lambda opened, by, now: ordering.seed(
            opened, config.urls, tag=config.tag or None, facts=facts, now=now, by=by), config.by)  # fmt: skip

    @dg.op(description="Order that hosts are left alone until they are resumed.")
    def pause(context: dg.OpExecutionContext, config: HostsConfig, lake: LakeResource) -> None:
        _pause(context, lake.open(count), config, paused=True)

    @dg.op(description="Order that paused hosts may be asked again.")
    def resume(context: dg.OpExecutionContext, config: HostsConfig, lake: LakeResource) -> None:
        _pause(context, lake.open(count), config, paused=False)

    @dg.op(description="Order that known URLs are visited again, as soon as politeness allows.")
    def revisit(context: dg.OpExecutionContext, config: ScopesConfig, lake: LakeResource) -> None:
        from crawl_pipeline import ordering  # noqa: PLC0415

        _give(context, lake.open(count), [*config.urls, *config.hosts, *config.sites], lambda opened, by, now:
              ordering.recrawl(opened, hrefs=config.urls, hosts=config.hosts, sites=config.sites, now=now, by=by),
              config.by)  # fmt: skip

    @dg.op(description="Order that URLs, known or not, are neither asked for nor shown, until a seed lifts that.")
    def forget(context: dg.OpExecutionContext, config: ScopesConfig, lake: LakeResource) -> None:
        from crawl_pipeline import ordering  # noqa: PLC0415

        _give(context, lake.open(count), [*config.urls, *config.hosts, *config.sites], lambda opened, by, now:
              ordering.forget(opened, hrefs=config.urls, hosts=config.hosts, sites=config.sites, now=now, by=by),
              config.by)  # fmt: skip

    return dg.Definitions(jobs=[_job(op) for op in (seed, pause, resume, revisit, forget)])


def _job(op: dg.OpDefinition) -> dg.JobDefinition:
    """A job of one op, with the order's kind in its name and tag."""
    graph = dg.GraphDefinition(f"{op.name}_job", node_defs=[op], description=op.description)
    return graph.to_job(tags={"crawl/job": op.name}, description=op.description)


def _pause(context: dg.OpExecutionContext, lake: "Lake", config: HostsConfig, *, paused: bool) -> None:
    from crawl_pipeline import ordering  # noqa: PLC0415

    _give(context, lake, config.hosts,
          lambda opened, by, now: ordering.pause(opened, config.hosts, paused=paused, now=now, by=by),
          config.by)  # fmt: skip


def _give(
    context: dg.OpExecutionContext, lake: "Lake", named: list[str], order: Callable[["Lake", str, datetime], int],
    by: str,
) -> None:  # fmt: skip
    """Give an order and say so at the asset `orders`; what is wrong with it fails the run with what to do."""
    from crawl_pipeline.core.orders import OrderError  # noqa: PLC0415

    if not named:
        raise dg.Failure("expected names in the run's config, found none, so nothing was ordered: fill in one of its "
                         "lists in the launchpad", allow_retries=False)  # fmt: skip
    try:
        given = order(lake, by or f"Dagster run {context.run_id[:8]}", datetime.now(UTC))
    except OrderError as wrong:
        raise dg.Failure(str(wrong), allow_retries=False) from wrong
    kind = context.op.name
    context.log.info(f"{given} orders were given ({kind}); the next rounds of their buckets obey them")
    told: dict[str, Any] = {"kind": kind, "given": given, "first": named[0]}
    context.log_event(dg.AssetMaterialization("orders", metadata={**told, **working.where(lake, "orders")}))
