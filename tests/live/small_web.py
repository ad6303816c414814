"""A small web on loopback, a lake with short leases to crawl it into, and the judge of its log."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path

from crawl_pipeline import ordering
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host, Web, access_log, loopback_web, site
from crawl_pipeline.testing.sites import html, prose

DELAY_S = 0.05
LEASE_S = 2.0
HOSTS = [f"h{n}.test" for n in range(8)]

POLICY = """
[agent]
name = "KilledBot"
contact = "http://bot.test/"
[round]
seconds = 0.5
shortest_s = 0.1
lease_s = {lease_s}
[fetch]
total_s = 0.5
[parse]
processes = 1
[politeness]
delay_s = {delay_s}
[scope]
follow = "everywhere"
[addresses]
allow = ["127.0.0.0/8"]
[resolver.hosts]
{hosts}
"""


def host(name: str, following: str) -> Host:
    """Forty pages in a chain of indexes; the first one links to the next host, so that links cross buckets."""
    paths = ["/", *(f"/{n}" for n in range(1, 40))]
    pages = {path: html(path, paths[n + 1 : n + 8], prose(f"{name}{path}")) for n, path in enumerate(paths)}
    pages["/"] = lambda request: html("index", [*paths[1:8], request.link(following, "/")], prose(name))
    return site(name, pages=pages)


@contextmanager
def serving(folder: Path) -> Iterator[loopback_web.Served]:
    """Serve eight hosts of forty pages, of which only the first is a seed; the access log is in the folder."""
    hosts = tuple(host(name, following) for name, following in zip(HOSTS, [*HOSTS[1:], HOSTS[0]], strict=True))
    with loopback_web.serving(Web(hosts=hosts, entries=((HOSTS[0], "/"),)), log=folder / "access.log") as served:
        yield served


def prepared(web: loopback_web.Served, folder: Path) -> Path:
    """A lake with the web's seeds and a policy of short leases."""
    root = folder / "lake"
    lake = Lake.create(str(root), 4)
    (root / "policy.toml").write_text(policy(web))
    ordering.seed(lake, web.web.seeds, tag=None, now=datetime.now(UTC))
    return root


def policy(web: loopback_web.Served) -> str:
    """A policy of short leases, which knows where the web's hosts are."""
    hosts = "\n".join(f'"{name}" = ["{addresses[0]}"]' for name, addresses in web.hosts.items())
    return POLICY.format(lease_s=LEASE_S, delay_s=DELAY_S, hosts=hosts)


def assert_polite(rows: list[access_log.Row]) -> None:
    """By the server's clock no host was asked too soon after an answer, nor while it answered."""
    by_host = sorted(rows, key=lambda row: (row.host, row.started_at))
    for host, of_host in groupby(by_host, key=lambda row: row.host):
        waits = [(after.started_at - before.ended_at) / 1e6 for before, after in pairwise(of_host)]
        assert min(waits, default=DELAY_S) >= DELAY_S - 0.002, host
