"""`ranks`, `host_ranks` and `host_graph`: what `crawl rank` does, as assets over all buckets.

Decides nothing; what is read, and how it is committed, is in ranking.py.
"""

from collections.abc import Iterator

import dagster as dg

from crawl_pipeline.assets import checks
from crawl_pipeline.assets.rounds import OWNERS, columns, description
from crawl_pipeline.core.tables import HOST_GRAPH, HOST_RANKS, RANKS, Table
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

GROUP = "importance"
TABLES = (RANKS, HOST_RANKS, HOST_GRAPH)
WRITTEN = tuple(table.name for table in TABLES)


class RankConfig(dg.Config):
    """What a run is told."""

    again: bool = False
    """Rank though nothing was asked since the last ranking."""


def ranks(buckets: int) -> dg.AssetsDefinition:
    """The assets for a lake of so many buckets."""

    @dg.multi_asset(name="ranking", specs=[_spec(table) for table in TABLES])
    def ranked(
        context: dg.AssetExecutionContext, config: RankConfig, lake: LakeResource, policy: PolicyResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Rank what is known by the links that lead to it, from the last ranks on."""
        from crawl_pipeline import ranking  # noqa: PLC0415 (keeps the code server small)

        opened = lake.open(buckets)
        found = ranking.rank(opened, policy.load(), again=config.again)
        context.log.info(ranking.line(found))
        figures = {
            "ranking": found.number, "known_urls": found.urls, "links": found.links, "iterations": found.iterations,
            "moved": found.moved, "seconds": round(found.seconds, 3),
        }  # fmt: skip
        best = {RANKS: ranking.best(opened), HOST_RANKS: ranking.best_hosts(opened)}
        for table in TABLES:
            shown = {"best": dg.MetadataValue.md(checks.markdown(best[table]))} if table in best else {}
            rows = {"dagster/row_count": opened.size(table).rows}
            yield dg.MaterializeResult(table.name, metadata={**(figures if table is RANKS else {}), **rows, **shown})

    return ranked


def _spec(table: Table) -> dg.AssetSpec:
    return dg.AssetSpec(
        table.name, deps=["links", "pages", "frontier"], description=description(table), group_name=GROUP,
        owners=OWNERS, kinds={"deltalake", "polars"}, metadata=columns(table),
    )  # fmt: skip
