"""Check what a crawl needs before it is needed: each finding says what was looked at and what was found."""

import importlib.metadata
import platform
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.lake import Lake, LakeMismatch, LakeMissing
from crawl_pipeline.modules import loading
from crawl_pipeline.modules.loading import Ready

PACKAGES = ("deltalake", "polars", "duckdb", "dagster", "trio", "httptools", "selectolax", "ada-url")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    well: bool
    found: str


def examine(lake: str, policy: Path, now: datetime) -> list[Finding]:
    """Look at everything; a finding that is not well says what to do."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return [
        Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer is needed)"),
        Finding("packages", well=True, found=versions),
        *_policy(policy),
        *_lake(lake, now),
    ]


def _policy(path: Path) -> list[Finding]:
    try:
        policy = policies.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as trouble:  # PolicyError and bad UTF-8 among them
        return [Finding("policy", well=False, found=f"{trouble} (make one with `crawl init`, or edit it)")]
    servers = ", ".join(policy.resolver.name_servers) or "the system's"
    named = f"{path}: {policy.agent.header}, id {policy.id}"
    return [
        Finding("policy", well=True, found=named),
        Finding("name servers", well=True, found=servers),
        *_modules(policy),
    ]


def _modules(policy: Policy) -> list[Finding]:
    """Whether the modules load that the policy names; if it names none, which there are."""
    try:
        found = loading.load(policy)
        there = ", ".join(sorted(loading.registered()))
    except PolicyError as trouble:
        return [Finding("modules", well=False, found=str(trouble))]
    if not policy.modules.use:
        return [Finding("modules", well=True, found=f"none is used; there are {there}")]
    ready = [Finding(f"module {one.name}", well=True, found=_wants(one)) for one in found.ready]
    return [*ready, *(Finding(f"module {one.name}", well=False, found=one.reason) for one in found.absent)]


def _wants(one: Ready) -> str:
    return f"{one.phase} of {', '.join(one.declares.content_types)}, into the table {one.table.name}"


def _lake(root: str, now: datetime) -> list[Finding]:
    try:
        lake = Lake.open(root)
    except (LakeMissing, LakeMismatch, ValueError) as trouble:
        return [Finding("lake", well=False, found=str(trouble))]
    leases = lake.leases().filter(~pl.col("released"))
    over = leases.filter(pl.col("deadline_at") <= now).height
    held = f"{leases.height - over} held, {over} left behind by a worker that vanished (the next one takes them over)"
    files = {table: len(lake.files(table)) for table in ("links", "fetches", "pages", "frontier", "rounds")}
    many = ", ".join(f"{table} {count:,}" for table, count in files.items())
    return [
        Finding("lake", well=True, found=f"{root}: {lake.buckets} buckets"),
        Finding("leases", well=True, found=held if leases.height else "all free"),
        Finding("live files", well=True, found=many),
    ]
