"""`maintenance`: what `crawl maintain` does, as an asset whose figures are drawn over time; and old run records.

Decides nothing; what is done to the lake is in maintenance.py.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from crawl_pipeline.assets import checks, run_records
from crawl_pipeline.assets.rounds import OWNERS, WRITTEN
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource

if TYPE_CHECKING:
    from crawl_pipeline.maintenance import Maintained

NAME = "maintenance"


class UpkeepConfig(dg.Config):
    """What a maintenance keeps."""

    vacuum_hours: int = 168
    run_days: int = 90
    orphans: bool = True


def maintenance(buckets: int) -> dg.AssetsDefinition:
    """The asset for a lake of so many buckets."""

    @dg.asset(name=NAME, deps=[*WRITTEN, "orders"], group_name="upkeep", owners=OWNERS, kinds={"deltalake"})
    def maintenance(
        context: dg.AssetExecutionContext, config: UpkeepConfig, lake: LakeResource, policy: PolicyResource
    ) -> dg.MaterializeResult[None]:
        """Fold, join small files, sweep, delete files and logs that are no longer used, and old run records."""
        from crawl_pipeline import maintenance as upkeep  # noqa: PLC0415 (keeps the code server small)

        rules = policy.load() if Path(policy.path).exists() else None
        done = upkeep.maintain(lake.open(buckets), rules, hours=config.vacuum_hours, orphans=config.orphans,
                               tell=context.log.info)  # fmt: skip
        since = datetime.now(UTC) - timedelta(days=config.run_days)
        pruned = run_records.prune(context.instance, since)
        return dg.MaterializeResult(metadata={"run_records_pruned": pruned, **_metadata(done)})

    return maintenance


def _metadata(done: "Maintained") -> dict[str, int | dg.MarkdownMetadataValue]:
    rows = [
        {"table": kept.table, "files before": kept.before.files, "files after": kept.after.files,
         "bytes before": kept.before.bytes, "bytes after": kept.after.bytes, "rows swept": kept.swept,
         "buckets folded": kept.folded, "small files joined": kept.tidied, "old files deleted": kept.deleted}
        for kept in done.tables
    ]  # fmt: skip
    passed_over = pl.DataFrame([{"bucket": p.bucket, "worker": p.worker, "until": str(p.deadline_at)}
                                for p in done.passed_over])  # fmt: skip
    return {
        **done.figures()["total"],
        "orphans": done.orphans,
        "linked_again": done.linked_again,
        "doubles": done.doubles,
        "orders_erased": len(done.erased.orders),
        "erased_but_found": 0 if done.erased.proof is None else len(done.erased.proof.found),
        "deleted_by_age": sum(one.gone for one in done.retained.tables.values()),
        "buckets": len(done.buckets),
        "buckets_passed_over": len(done.passed_over),
        "tables": dg.MetadataValue.md(checks.markdown(pl.DataFrame(rows), most=len(rows))),
        "passed over": dg.MetadataValue.md(checks.markdown(passed_over, most=passed_over.height)),
    }
