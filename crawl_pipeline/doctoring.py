"""Check what a crawl needs before it is needed: each finding says what was looked at and what was found."""

import importlib.metadata
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import trio

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.fetch.name_query import NameQuery
from crawl_pipeline.lake import Lake, LakeMismatch, LakeMissing
from crawl_pipeline.modules import loading
from crawl_pipeline.modules.loading import Ready

WAIT_S = 3.0
"""How long a name server is waited for."""
SKEW_S = 5.0
"""How far clocks may be apart before leases suffer."""
PACKAGES = ("deltalake", "polars", "duckdb", "dagster", "trio", "httptools", "selectolax", "ada-url")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    well: bool
    found: str


def examine(lake: str, policy: Path, now: datetime, tell: Callable[[str], None] = lambda step: None) -> list[Finding]:
    """Look at everything; a finding that is not well says what to do. `tell` hears of each step before it is done."""
    tell("policy and name servers")
    of_policy = _policy(policy)
    tell("lake")
    return [
        Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer is needed)"),
        _packages(),
        *of_policy,
        *_lake(lake, now),
    ]


def _packages() -> Finding:
    """Every package that ours asks for is there; of the ones that matter most, which version."""
    asked = [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in importlib.metadata.requires("crawl-pipeline") or ()
             if "extra ==" not in one]  # fmt: skip
    absent = [name for name in asked if not _version(name)]
    if absent:
        return Finding("packages", well=False, found=f"absent: {', '.join(absent)} (make env installs them)")
    return Finding("packages", well=True, found=", ".join(f"{name} {_version(name)}" for name in PACKAGES))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _policy(path: Path) -> list[Finding]:
    try:
        policy = policies.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as trouble:  # PolicyError and bad UTF-8 among them
        return [Finding("policy", well=False, found=f"{trouble} (make one with `crawl init`, or edit it)")]
    named = f"{path}: {policy.agent.header}, id {policy.id}"
    return [Finding("policy", well=True, found=named), name_servers(policy), *_modules(policy)]


def name_servers(policy: Policy, port: int = 53) -> Finding:
    """Whether the name servers answer when they are asked for the host of our contact, be it that there is none."""
    servers = ", ".join(policy.resolver.name_servers) or "the system's"
    host = urlsplit(policy.agent.contact).hostname or policy.agent.contact.rpartition("@")[2]
    said = trio.run(NameQuery(policy.resolver.name_servers, port, WAIT_S).ask, host, "A")
    if not said.failed:
        found = f"{servers}; {host}: {', '.join(said.addresses) or said.reason}"
        return Finding("name servers", well=True, found=found)
    if policy.resolver.hosts:
        found = f"{servers}: no answer ({said.reason}); {len(policy.resolver.hosts)} names are in [resolver.hosts]"
        return Finding("name servers", well=True, found=found)
    what = "name others in resolver.name_servers, or see to the network"
    return Finding("name servers", well=False, found=f"{servers}: asked for {host}, no answer ({said.reason}): {what}")


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
        _store(lake),
        _clock(lake, now),
        Finding("leases", well=True, found=held if leases.height else "all free"),
        Finding("live files", well=True, found=many),
    ]


def _store(lake: Lake) -> Finding:
    found = lake.probe()
    if found.trouble:
        return Finding("store", well=False, found=found.trouble)
    return Finding("store", well=True, found=f"of two writers one is refused; a commit takes {found.commit_s:.3f} s")


def _clock(lake: Lake, now: datetime) -> Finding:
    """Whether this clock agrees with those that wrote the lake: leases and dates go by it."""
    last = lake.scan("rounds").select(pl.col("ended_at").max()).collect().item()
    if last is not None and last > now + timedelta(seconds=SKEW_S):
        ahead = f"the last round ended {(last - now).total_seconds():,.0f} s later"
        what = "set this clock (NTP), or that of the machine which wrote it"
        return Finding("clock", well=False, found=f"{now:%F %T} UTC, but {ahead}: {what}")
    return Finding("clock", well=True, found=f"{now:%F %T} UTC, not before the last round")
