"""The web on loopback says what the web in memory says, over real sockets, and logs every request at once."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import trio

from crawl_pipeline.testing import FakeWeb, Host, Web, site
from crawl_pipeline.testing.access_log import Row, rows
from crawl_pipeline.testing.loopback_web import Served, serving
from crawl_pipeline.testing.shapes import calendar
from crawl_pipeline.testing.sites import always, at_first, chunked, failing, html, redirect, throttled, tree

WEB = Web(
    hosts=(
        site("a.test", pages=7, crawl_delay_s=2, links={"/": ["http://b.test/"]}),
        site("gone.test", status=410),
        Host("b.test", chunked(tree(3))),
        Host("busy.test", at_first(tree(3), throttled(7), requests=1)),
        Host("cal.test", calendar()),
        Host("old.test", always(redirect("/new", 302))),
        Host("long.test", always(html("Long", text="x" * 300_000))),
    ),
    entries=(("a.test", "/"),),
)
TARGETS = [
    *[("a.test", target) for target in ("/robots.txt", "/", "/1", "/6", "/7", "/?a=1")],
    *[
        ("gone.test", "/"),
        ("b.test", "/"),
        ("busy.test", "/"),
        ("busy.test", "/"),
        ("cal.test", "/cal/2030/12"),
    ],
    *[("old.test", "/"), ("long.test", "/")],
]

Told = tuple[int, list[tuple[str, str]], bytes]


def by_sockets(served: Served, host: str, target: str, connection: http.client.HTTPConnection | None = None) -> Told:
    line = connection or http.client.HTTPConnection(served.hosts[host][0], served.port, timeout=10)
    line.request("GET", target, headers={"Host": f"{host}:{served.port}", "User-Agent": "plain"})
    answer = line.getresponse()
    body = answer.read()
    if connection is None:
        line.close()
    return answer.status, own(answer.getheaders()), body


def by_memory(targets: list[tuple[str, str]], port: int) -> list[Told]:
    web = FakeWeb(*WEB.hosts)

    async def main() -> list[Told]:
        told = []
        for host, target in targets:
            request = httpx.Request("GET", f"http://{host}:{port}{target}")
            answer = await web.handle_async_request(request)
            told.append((answer.status_code, own(list(answer.headers.items())), await answer.aread()))
        return told

    return trio.run(main)


def own(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that the site gave, without those that frame the body."""
    pairs = [(name.lower(), value) for name, value in headers]
    return [pair for pair in pairs if pair[0] not in ("content-length", "transfer-encoding")]


def test_memory_and_loopback_give_the_same_answers_for_the_same_sites(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        told = [by_sockets(served, host, target) for host, target in TARGETS]
    assert told == by_memory(TARGETS, served.port)


def test_the_log_has_one_row_for_every_request_with_what_was_sent(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        told = [by_sockets(served, host, target) for host, target in TARGETS]
        logged = served.rows()
    assert [(row.host, row.path) for row in logged] == TARGETS
    assert [(row.status, row.bytes) for row in logged] == [(status, len(body)) for status, _, body in told]
    assert [row.id for row in logged] == list(range(1, len(TARGETS) + 1))
    assert all(row.started_at <= row.ended_at and row.user_agent == "plain" for row in logged)


def test_every_host_answers_on_the_address_that_the_log_names(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        by_sockets(served, "b.test", "/")
        (row,) = served.rows()
    assert row.server == f"{served.hosts['b.test'][0]}:{served.port}"


def test_a_connection_is_kept_for_the_next_request(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        line = http.client.HTTPConnection(served.hosts["a.test"][0], served.port, timeout=10)
        for target in ("/", "/1", "/2"):
            by_sockets(served, "a.test", target, line)
        line.close()
        assert len({row.client for row in served.rows()}) == 1


def test_a_failure_resets_the_connection_and_is_logged_without_a_status(tmp_path: Path):
    web = Web(hosts=(site("a.test", pages={"/": failing()}),))
    with serving(web, log=tmp_path / "log") as served:
        with pytest.raises(ConnectionError):
            by_sockets(served, "a.test", "/")
        (row,) = served.rows()
    assert row.status is None


@pytest.mark.parametrize("line", [b"GET /a b HTTP/1.1", b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test"])
def test_a_request_that_is_not_http_is_refused_and_logged(tmp_path: Path, line: bytes):
    with serving(WEB, log=tmp_path / "log") as served:
        with socket.create_connection((served.hosts["a.test"][0], served.port), timeout=10) as raw:
            raw.sendall(line + b"\r\n\r\n")
            answer = raw.recv(100)
        (row,) = served.rows()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert row.status == 400


def test_a_host_that_is_not_served_here_is_misdirected(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        line = http.client.HTTPConnection(served.hosts["a.test"][0], served.port, timeout=10)
        line.request("GET", "/", headers={"Host": "nobody.test"})
        assert line.getresponse().status == 421
        line.close()


def test_the_port_stands_in_the_seeds(tmp_path: Path):
    with serving(WEB, log=tmp_path / "log") as served:
        assert served.ready()["seeds"] == [f"http://a.test:{served.port}/"]


def test_the_process_answers_logs_and_leaves_its_log_when_killed(tmp_path: Path):
    log, read_end = tmp_path / "log", subprocess.PIPE
    command = [sys.executable, "-m", "crawl_pipeline.testing.loopback_web"]
    command += ["--web", "crawl_pipeline.testing.loopback_web:EXAMPLE", "--log", str(log)]
    with subprocess.Popen(command, stdout=read_end, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        served = Served(Web(hosts=()), told["port"], told["hosts"], log)
        status, _, _ = by_sockets(served, "example.test", "/")
        os.kill(process.pid, signal.SIGKILL)
    assert status == 200
    assert [(row.host, row.status) for row in rows(log)] == [("example.test", 200)]
    assert isinstance(rows(log)[0], Row)
