"""`clusters` and `merges`: what `crawl duplicates` does, as assets over all buckets whose figures are drawn over time.

Decides nothing; what is found, and how it is committed, is in duplicates.py.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline.assets import checks
from crawl_pipeline.assets.rounds import OWNERS, columns, description
from crawl_pipeline.core.tables import CLUSTERS, MERGES, Table
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

if TYPE_CHECKING:
    from crawl_pipeline.duplicates import Found
    from crawl_pipeline.lake import Lake

GROUP = "duplicates"
WRITTEN = (CLUSTERS.name, MERGES.name)


def duplicates(buckets: int) -> dg.AssetsDefinition:
    """The assets for a lake of so many buckets."""

    @dg.multi_asset(name=GROUP, specs=[_spec(CLUSTERS), _spec(MERGES)])
    def duplicates(
        context: dg.AssetExecutionContext, lake: LakeResource, policy: PolicyResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Find pages that are nearly the same among what rounds have committed since."""
        from crawl_pipeline import duplicates as finding  # noqa: PLC0415 (keeps the code server small)

        opened = lake.open(buckets)
        found = finding.find(opened, policy.load(), tell=lambda one: context.log.info(finding.line(one)))
        standing = finding.standing(opened)
        yield dg.MaterializeResult(CLUSTERS.name, metadata={**_figures(found), **standing, **_tables(opened, found)})
        yield dg.MaterializeResult(MERGES.name, metadata={"dagster/row_count": opened.size(MERGES).rows})

    return duplicates


def _figures(found: "Found") -> dict[str, int | float]:
    return {
        "clustering": found.number, "clusterings": found.clusterings, "new_pages": found.pages,
        "rows_changed": found.changed, "merges": found.merged, "crowded_keys": len(found.crowds),
        "seconds": round(found.seconds, 3),
    }  # fmt: skip


def _tables(lake: "Lake", found: "Found") -> dict[str, dg.MarkdownMetadataValue]:
    from crawl_pipeline import duplicates as finding  # noqa: PLC0415

    largest = checks.markdown(finding.largest(lake))
    crowds = checks.markdown(finding.crowds(lake, found))
    return {"largest clusters": dg.MetadataValue.md(largest), "crowded keys": dg.MetadataValue.md(crowds)}


def _spec(table: Table) -> dg.AssetSpec:
    upstream = ["pages", "fetches", "orders"] if table is CLUSTERS else [CLUSTERS.name]
    return dg.AssetSpec(
        table.name, deps=upstream, description=description(table), group_name=GROUP, owners=OWNERS,
        kinds={"deltalake", "polars"}, metadata=columns(table),
    )  # fmt: skip
