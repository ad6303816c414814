"""`freshness`: what `crawl freshness` reckons, once a week, as an asset whose figures are drawn over time.

Decides nothing and writes nothing; what is reckoned, and how, is in freshness.py.
"""

from datetime import UTC, datetime

import dagster as dg

from crawl_pipeline.assets import checks, pictures
from crawl_pipeline.assets.rounds import OWNERS
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

NAME = "freshness"
_FIGURES = (
    "pages",
    "expected_freshness",
    "planned_freshness",
    "bound",
    "share_of_bound",
    "visits_per_day",
    "price",
    "brier",
)


def freshness(buckets: int) -> dg.AssetsDefinition:
    """The asset for a lake of so many buckets."""

    @dg.asset(name=NAME, deps=["frontier", "hosts", "change_frequency"], owners=OWNERS, group_name=NAME,
              kinds={"polars"})  # fmt: skip
    def freshness(lake: LakeResource, policy: PolicyResource) -> dg.MaterializeResult[None]:
        """How fresh pages are expected to be, beside the best plan for the same visits and the limits of hosts."""
        from crawl_pipeline import freshness as reckoning  # noqa: PLC0415 (keeps the code server small)

        found = reckoning.reckon(lake.open(buckets), policy.load(), datetime.now(UTC))
        figures = found.figures()
        return dg.MaterializeResult(
            metadata={name: figures[name] for name in _FIGURES if figures[name] is not None}
            | pictures.of_freshness(figures)
            | {"hosts whose politeness costs most": dg.MetadataValue.md(checks.markdown(found.hosts.head(20))),
               "calibration": dg.MetadataValue.md(checks.markdown(found.calibration))}
        )  # fmt: skip

    return freshness
