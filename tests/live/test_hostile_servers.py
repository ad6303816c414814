"""Hostile and broken servers beside healthy ones, and one real worker: each has its outcome, nobody else pays.

One crawl with `crawl run` over real sockets, then a second short one for what needs a second visit; the tests look at
what they left. What each host does and what must come of it is the table CASES.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import psutil
import pytest
import trustme

from crawl_pipeline import auditing, ordering, reports, server_log
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.fetch.transport import BROKE_WHILE_KEPT
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host, Web, loopback_web, site
from crawl_pipeline.testing.sites import robots, tree, validated
from crawl_pipeline.testing.truth import truth
from tests.live.hostile_web import CASES, INSIDE, TLS_WORDS, Hostile, serving

SECONDS, AGAIN_S = 15, 4
HEALTHY = tuple(Host(f"good{n}.test", robots(validated(tree(8)), "")) for n in range(6))
CROWD = tuple(site(f"crowd{n}.test", pages=1) for n in range(100))
"""A hundred hosts on one address."""

POLICY = """
[agent]
name = "ToughBot"
contact = "http://bot.test/"
[round]
seconds = 2.0
shortest_s = 0.5
lease_s = 20.0
body_mb = 16.0
[fetch]
unconditional = 0.0
total_s = 3.0
connect_s = 1.0
read_s = 1.5
header_kb = 16
wire_mb = 0.5
body_mb = 1.0
ca_file = {ca_file}
[parse]
processes = 1
body_mb = 0.2
[politeness]
delay_s = 0.3
download_factor = 0.0
address_gap_s = 0.02
backoff_first_s = 1.0
[retry]
attempts = 2
first_s = 1.0
[scope]
follow = "everywhere"
hops = 3
[addresses]
allow = ["127.0.0.0/8"]
[resolver]
name_servers = ["127.0.0.1"]
timeout_s = 1.0
[resolver.hosts]
{hosts}
"""

MOST_MB = 700
"""What interpreter, libraries and one reading process take (about 400 MB as RSS), the bodies of a round, and a body on
the wire and unpacked for each of eighty hosts at once. One bomb that is unpacked whole is 64 MB."""


@dataclass(frozen=True, slots=True)
class Crawled:
    """What a crawl of all cases left behind."""

    lake: Lake
    log: Path
    hostile: Hostile
    web: Web
    took_s: float
    peak_mb: float
    proxied: int
    codes: tuple[int, ...]
    tables: Mapping[str, pl.DataFrame]

    def rows(self, table: str) -> pl.DataFrame:
        return self.tables[table]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder, authority = tmp_path_factory.mktemp("hostile"), trustme.CA()
    web = Web(hosts=(*HEALTHY, *CROWD), entries=tuple((host.name, "/") for host in (*HEALTHY, *CROWD)))
    with (
        loopback_web.serving(web, log=folder / "healthy.log") as healthy,
        serving(authority, folder / "hostile.log") as hostile,
        socket.create_server(("127.0.0.1", 0)) as proxy,
    ):
        root = prepared(folder, healthy, hostile, authority)
        environment = proxies(f"http://127.0.0.1:{proxy.getsockname()[1]}")
        code, took_s, peak_mb = worked(root, SECONDS, environment)
        order_again(root, healthy.url("good0.test"))
        again, _, peak_again_mb = worked(root, AGAIN_S, environment)
        proxy.setblocking(False)
        log = folder / "both.log"
        log.write_text((folder / "healthy.log").read_text() + (folder / "hostile.log").read_text())
        lake = Lake.open(str(root))
        tables = {name: lake.scan(name).collect() for name in ("fetches", "frontier", "pages", "rounds")}
        peak_mb = max(peak_mb, peak_again_mb)
        yield Crawled(lake, log, hostile, healthy.web, took_s, peak_mb, accepted(proxy), (code, again), tables)


def prepared(folder: Path, healthy: loopback_web.Served, hostile: Hostile, authority: trustme.CA) -> Path:
    """A lake with every host as a seed, and names that lead to their addresses."""
    root, ca_file = folder / "lake", folder / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    shared = healthy.hosts[CROWD[0].name]
    names = (
        {host.name: healthy.hosts[host.name] for host in HEALTHY}
        | {host.name: shared for host in CROWD}
        | {f"{case}.test": hostile.addresses[f"{case}.test"] for case, terms in CASES.items() if terms.named}
        | {INSIDE: ["10.9.9.9"]}
    )
    lines = "\n".join(f'"{name}" = {json.dumps(addresses)}' for name, addresses in names.items())
    lake = Lake.create(str(root), 4)
    (root / "policy.toml").write_text(POLICY.format(ca_file=json.dumps(str(ca_file)), hosts=lines))
    ordering.seed(lake, [*healthy.web.seeds, *map(hostile.url, CASES)], tag=None, now=datetime.now(UTC))
    return root


def proxies(url: str) -> dict[str, str]:
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    return os.environ | dict.fromkeys(names, url)


def worked(root: Path, seconds: float, environment: dict[str, str]) -> tuple[int, float, float]:
    """Let `crawl run` work; give its exit code, how long it took, and the most memory of it and its processes [MB]."""
    began, peak = time.monotonic(), 0
    command = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root), "run", "--minutes", str(seconds / 60)]
    with (root.parent / "worker.out").open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        while process.poll() is None:
            peak = max(peak, resident_bytes(process.pid))
            time.sleep(0.2)
            if time.monotonic() - began > seconds + 60:
                process.kill()
    return process.returncode, time.monotonic() - began, peak / 1e6


def resident_bytes(pid: int) -> int:
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def order_again(root: Path, url: str) -> None:
    ordering.recrawl(Lake.open(str(root)), hrefs=[url], now=datetime.now(UTC))


def accepted(listener: socket.socket) -> int:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return 0
    return 1


def test_the_worker_ends_in_time(crawled: Crawled) -> None:
    assert crawled.codes == (0, 0)
    assert crawled.took_s < SECONDS + 20  # to start, to end the last request and to commit, on a busy machine


def test_every_healthy_page_is_fetched_and_read(crawled: Crawled) -> None:
    stored = crawled.rows("pages").filter(pl.col("host").str.contains("^(good|crowd)"))

    assert set(stored["url"]) == truth(crawled.web).pages
    assert stored["word_count"].min() > 0


def test_peak_memory_stays_within_what_the_policy_allows(crawled: Crawled) -> None:
    assert 0 < crawled.peak_mb < MOST_MB


@pytest.mark.parametrize("case", CASES)
def test_every_hostile_page_has_the_outcome_of_the_taxonomy(crawled: Crawled, case: str) -> None:
    told, requests = CASES[case], crawled.rows("fetches").filter(host=f"{case}.test")
    url = crawled.hostile.url(case)
    found = crawled.rows("frontier").filter(url=url).row(0, named=True)
    came = set(requests["outcome"])

    assert found["outcome"] == told.outcome, (found["reason"], came)
    if told.request is not None and told.request != "address_refused":
        assert told.request in came
    if told.outcome not in ("disallowed", "robots_unreachable"):
        # What broke on a kept connection is on record, and says nothing of the page.
        own = requests.filter(pl.col("url") == url, pl.col("reason").ne_missing(BROKE_WHILE_KEPT))
        assert set(own["outcome"]) == {told.outcome}
    if case in TLS_WORDS:
        assert all(TLS_WORDS[case] in reason for reason in requests["reason"])


def test_addresses_that_are_not_public_are_refused_wherever_a_redirect_names_them(crawled: Crawled) -> None:
    refused = crawled.rows("fetches").filter(outcome="address_refused")

    assert set(refused["host"]) == {"10.0.0.1", "169.254.169.254", INSIDE}
    assert refused["http_status"].is_null().all()


def test_redirects_end_at_the_loop_and_at_the_hops_of_the_policy(crawled: Crawled) -> None:
    asked = defaultdict(set)
    for host, url in crawled.rows("fetches").filter(cause="page").select("host", "url").iter_rows():
        asked[host].add(url.rpartition("/")[2])

    assert asked["loop.test"] == {"", "b", "c"}
    assert asked["chain.test"] == {"", "1", "2", "3"}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_produced_by_real_servers(crawled: Crawled, outcome: str) -> None:
    """not_modified needs an order, dns_error a name server (that is not there), carried a round that ends too soon."""
    tallies = crawled.rows("rounds").select(pl.col("outcomes").explode().struct.field("name"))["name"]

    assert outcome in {*crawled.rows("fetches")["outcome"], *tallies.drop_nulls()}


def test_the_audit_finds_nothing_in_the_log_of_the_crawl(crawled: Crawled) -> None:
    assert broken(auditing.audit(crawled.lake)) == []
    assert [result.name for result in reports.run_tests(crawled.lake) if not result.holds] == []


def test_the_audit_finds_nothing_in_the_logs_of_the_servers(crawled: Crawled) -> None:
    log = server_log.read(crawled.log)
    both = server_log.known_to_both(crawled.lake, log)

    found = auditing.audit_server(server_log.as_lake(crawled.lake, log), both, log.height)

    assert broken(found) == []
    assert found.requests == log.height > 300


def broken(found: auditing.Audit) -> list[object]:
    return [(result.name, result.offending.to_dicts()) for finding in found.findings for result in finding.results
            if not result.holds]  # fmt: skip


def test_proxies_of_the_environment_are_not_asked(crawled: Crawled) -> None:
    assert crawled.proxied == 0
