"""What is kept and handed out, in Dagster: `erase_job` and `warc_job`, each a button and a form.

The same functions as behind `crawl erase` and `crawl warc`. An erasure that is not proved fails its run and says where
something is left.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from pydantic import Field

from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource


class EraseConfig(dg.Config):
    """How long to wait for workers, and what to erase."""

    wait_s: float = Field(default=900.0, ge=0, description="Seconds to wait until workers have given back buckets.")
    again: bool = Field(default=False, description="Carry out orders too that were carried out before.")


class WarcConfig(dg.Config):
    """What is exported, and whereto."""

    folder: str = Field(default="", description="Folder for the files; empty: `warc` beside the lake.")
    months: list[str] = Field(default=[], description="Only these months, such as 2026-03; none: all.")
    buckets: list[int] = Field(default=[], description="Only these buckets; none: all.")
    since: str = Field(default="", description="Only what was fetched since, such as 2026-03-01T12:00 (UTC).")


def load(count: int) -> dg.Definitions:
    """Both jobs, for a lake of so many buckets."""

    @dg.op(description="Erase what was ordered to be forgotten from every file of the lake, and prove it.")
    def erase(context: dg.OpExecutionContext, config: EraseConfig, lake: LakeResource, policy: PolicyResource) -> None:
        from crawl_pipeline import erasing  # noqa: PLC0415 (keeps the code server small)

        done = erasing.erase(lake.open(count), policy.load(), again=config.again, wait_s=config.wait_s,
                             tell=context.log.info)  # fmt: skip
        figures = done.figures()
        context.add_output_metadata({name: value for name, value in figures.items() if isinstance(value, int)})
        if done.proof is not None and not done.proof.holds:
            raise _not_proved(done.proof.found, done.proof.advice)
        context.log.info(f"proved: {figures['searched_files']} files searched" if done.tables else "nothing to erase")

    @dg.op(description="Export pages as web archives (WARC/1.1 and CDXJ): what the folder lacks.")
    def warc(context: dg.OpExecutionContext, config: WarcConfig, lake: LakeResource) -> None:
        from crawl_pipeline import exporting  # noqa: PLC0415

        opened, since = lake.open(count), _moment(config.since)
        folder = _folder(config.folder, opened.root)
        done = exporting.export(opened, folder, months=config.months, buckets=config.buckets, since=since,
                                tell=context.log.info)  # fmt: skip
        context.add_output_metadata({"folder": dg.MetadataValue.path(str(folder)), "files": len(done.files),
                                     "responses": done.responses, "revisits": done.revisits, "bytes": done.bytes,
                                     "there_before": done.there})  # fmt: skip

    return dg.Definitions(jobs=[_job(op) for op in (erase, warc)])


def _job(op: dg.OpDefinition) -> dg.JobDefinition:
    graph = dg.GraphDefinition(f"{op.name}_job", node_defs=[op], description=op.description)
    return graph.to_job(tags={"crawl/job": op.name}, description=op.description)


def _not_proved(found: Sequence[str], advice: Sequence[str]) -> dg.Failure:
    return dg.Failure(
        f"expected nothing forgotten to be left, found some in {len(found)} places: {'; '.join(advice)}",
        metadata={"found": dg.MetadataValue.md("\n".join(f"* {place}" for place in found[:50]))}, allow_retries=False,
    )  # fmt: skip


def _folder(given: str, root: str) -> Path:
    if not given and "://" in root:
        raise dg.Failure("expected a folder for the files, found none: name one in the config of the run",
                         allow_retries=False)  # fmt: skip
    return Path(given) if given else Path(root).parent / "warc"


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError as wrong:
        raise dg.Failure(f"expected a time such as 2026-03-01T12:00, found {text!r}: correct `since`",
                         allow_retries=False) from wrong  # fmt: skip
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment
