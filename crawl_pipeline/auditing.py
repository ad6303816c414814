"""Audit a crawl: which of its promises to hosts hold, how many rows were judged, how much room was left.

A promise is one or more sentences of dbt_like_reports/tests; here they are put together and asked of the crawl's own
log, or of the log of a server that was asked (`server_log`): the same SQL over rows of the same columns. Nothing here
decides what a promise is worth, and nothing reads what the scheduler thought: numbers come from the policy's kept text,
rules from the kept robots.txt, read by a second reader.

Invariant: what could not be judged is counted, never passed over in silence.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import polars as pl

from crawl_pipeline import corpus, reports
from crawl_pipeline.reports import Result
from crawl_pipeline.table_views import Files


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: its sentences, those of them that the crawl's own log alone can be asked, and what is judged."""

    id: str
    says: str
    tests: tuple[str, ...]
    judged: str
    own_tests: tuple[str, ...] = ()


_KNOWN = "fetches join terms using (host, policy_id)"
PROMISES = (
    Promise("P1", "one request at a time to a host", ("a_host_is_never_asked_twice_at_once",),
            "select count(*) from fetches", ("one_worker_at_a_time_asks_a_host",)),
    Promise("P2", "a rest after each request", ("a_host_rests_as_long_as_it_is_owed",),
            "select count(owed_s) from rests"),
    Promise("P3", "an address is asked in turn, whatever hosts share it", ("an_address_is_asked_in_turn",),
            f"select count(address) from {_KNOWN}"),
    Promise("P4", "Retry-After is obeyed", ("a_host_is_left_alone_as_long_as_it_asks",),
            f"select count(*) from {_KNOWN}"),
    Promise("P5", "robots.txt is obeyed",
            ("robots_come_first", "robots_allow_what_is_asked", "nothing_is_asked_while_robots_forbid_everything"),
            f"select count(*) from {_KNOWN} where cause <> 'robots'"),
    Promise("P6", "no more in a day than allowed, nothing while paused", ("no_host_is_asked_beyond_its_day",),
            f"select count(*) from {_KNOWN} where cause <> 'robots'",
            ("a_paused_host_is_not_asked", "no_site_is_asked_beyond_its_day")),
    Promise("P7", "every request says who asks", ("every_request_says_who_asks",),
            f"select count(user_agent) from (select fetches.user_agent from {_KNOWN})"),
    Promise("P8", "every request is on record", (), "select coalesce(sum(request_count), 0)::bigint from rounds",
            ("a_round_counts_its_requests_and_pages",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one promise."""

    promise: Promise
    judged: int
    results: tuple[Result, ...]

    @property
    def violations(self) -> int:
        """How many rows break it."""
        return sum(result.offending.height for result in self.results)


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings, how long hosts rested as a share of what they were owed, and what could not be judged."""

    findings: tuple[Finding, ...]
    margins: pl.DataFrame
    requests: int
    unjudged: int

    @property
    def holds(self) -> bool:
        """Tell whether every promise was kept."""
        return not any(finding.violations for finding in self.findings)

    def figures(self) -> dict[str, object]:
        """The audit as plain values."""
        return {
            "holds": self.holds, "requests": self.requests, "not judged": self.unjudged,
            "promises": [
                {"id": finding.promise.id, "says": finding.promise.says, "judged": finding.judged,
                 "violations": finding.violations,
                 "broken": [{"name": result.name, "sentence": result.sentence, "rows": result.offending.to_dicts()}
                            for result in finding.results if not result.holds]}
                for finding in self.findings
            ],
            "margins": self.margins.to_dicts(),
        }  # fmt: skip


def audit(lake: Files, promises: Iterable[Promise] = PROMISES) -> Audit:
    """Judge a crawl by its own log."""
    return _audit(lake, promises, own=True)


def audit_server(lake: Files, known_to_both: Result, judged: int) -> Audit:
    """Judge a crawl by a server's log, given as `server_log.as_lake` gives it, and by what both logs know."""
    found = _audit(lake, [promise for promise in PROMISES if promise.tests], own=False)
    both = Promise("P8", "server and lake know the same requests", (), "")
    return Audit((*found.findings, Finding(both, judged, (known_to_both,))), found.margins, found.requests,
                 found.unjudged)  # fmt: skip


def _audit(lake: Files, promises: Iterable[Promise], *, own: bool) -> Audit:
    tests = {test.name: test for test in reports.tests()}
    with corpus.connect(lake) as connection:
        findings = tuple(
            Finding(promise, _number(connection, promise.judged),
                    tuple(reports.ask(connection, tests[name])
                          for name in promise.tests + (promise.own_tests if own else ())))
            for promise in promises
        )  # fmt: skip
        requests = _number(connection, "select count(*) from fetches")
        known = _number(connection, f"select count(*) from {_KNOWN}")
        [margins] = (model for model in reports.models() if model.name == "politeness_margins")
        return Audit(findings, corpus.read(connection, margins.sql), requests, requests - known)


def _number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(corpus.read(connection, sql).item())
