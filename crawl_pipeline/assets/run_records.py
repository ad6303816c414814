"""Old run records: those of runs that ended long ago are deleted, so that Dagster's database does not grow for ever.

Dagster deletes a run's materialisations with it. So a run stays, however old, while it holds the newest one of any
asset or partition: no bucket looks as if it had never been crawled. What older runs said of themselves is in the
lake's `rounds`.
"""

from collections.abc import Iterator
from datetime import datetime

import dagster as dg

ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
PAGE = 500
MOST = 5_000
"""Runs that one call deletes at most: each is some statements in Dagster's database."""


def prune(instance: dg.DagsterInstance, before: datetime, most: int = MOST) -> int:
    """Delete the records of runs that ended before then, but for those that are still shown; give how many."""
    shown = {run for key in instance.get_asset_keys() for run in _newest(instance, key, before)}
    doomed = _ended(instance, before, shown, most)
    for run in doomed:
        instance.delete_run(run)
    return len(doomed)


def _ended(instance: dg.DagsterInstance, before: datetime, shown: set[str], most: int) -> list[str]:
    found: list[str] = []
    cursor = None
    wanted = dg.RunsFilter(statuses=ENDED, updated_before=before)
    while page := instance.get_run_records(wanted, limit=PAGE, cursor=cursor):
        cursor = page[-1].dagster_run.run_id
        found += [record.dagster_run.run_id for record in page]
    return [run for run in reversed(found) if run not in shown][:most]  # oldest first


def _newest(instance: dg.DagsterInstance, key: dg.AssetKey, before: datetime) -> Iterator[str]:
    """Runs from before then that hold the newest materialisation of the asset or of one of its partitions."""
    seen = set[str | None]()
    for record in _materialised(instance, dg.AssetRecordsFilter(key, before_timestamp=before.timestamp())):
        if record.partition_key in seen:
            continue
        seen.add(record.partition_key)
        only = [record.partition_key] if record.partition_key else None
        later = dg.AssetRecordsFilter(key, asset_partitions=only, after_timestamp=before.timestamp())
        if not instance.fetch_materializations(later, limit=1).records:
            yield record.run_id


def _materialised(instance: dg.DagsterInstance, wanted: dg.AssetRecordsFilter) -> Iterator[dg.EventLogRecord]:
    """All materialisations, newest first."""
    cursor = None
    while True:
        page = instance.fetch_materializations(wanted, limit=PAGE, cursor=cursor)
        yield from page.records
        if not page.has_more:
            return
        cursor = page.cursor
