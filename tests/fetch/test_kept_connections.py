"""Connections between requests: who has one, and what comes of one that breaks."""

import resource
from itertools import pairwise

import pytest
import trio

from crawl_pipeline import worker
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.connection import dial_tcp
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import BROKE_WHILE_KEPT, WireTransport
from tests.fetch.lane_runs import lanes_over, policy, queue
from tests.fetch.loopback import Loopback, read_head
from tests.fetch.test_transport import LOOPBACK, OK

HOSTS = [f"h{n}.test" for n in range(200)]


class Counting:
    """A server that gives every host the same robots.txt and pages, and counts its open connections."""

    def __init__(self, robots: str) -> None:
        self.robots, self.open, self.asked, self.port = robots, 0, 0, 0

    async def start(self, nursery: trio.Nursery) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
        self.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, self._serve, listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            while True:
                head = await read_head(stream)
                self.asked += 1
                body = self.robots if b"/robots.txt" in head else "<p>page"
                await stream.send_all(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        except (EOFError, trio.BrokenResourceError):
            pass
        finally:
            self.open -= 1


def rules(**fetch: float) -> Policy:
    return policy(politeness={"delay_s": 0.001}, fetch=fetch)


def run(robots: str, rules: Policy, requests: int) -> int:
    """Ask all hosts for three pages each until the server has seen so many requests; count its open connections."""

    async def main() -> int:
        server = Counting(robots)

        async def dial(address: str, port: int) -> trio.abc.Stream:
            return await dial_tcp(address, server.port)

        resolver = Resolver(hosts={"*.test": ["127.0.0.1"]})
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            transport = WireTransport(resolver, LOOPBACK, dial=dial)
            async with lanes_over(transport, rules) as lanes:
                lanes.load([queue(host, "/1", "/2", "/3") for host in HOSTS])
                with trio.fail_after(30):
                    while server.asked < requests:
                        await trio.sleep(0.01)
                await trio.sleep(0.2)
                still_open = server.open
            nursery.cancel_scope.cancel()
        assert server.asked == requests
        return still_open

    return trio.run(main)


@pytest.mark.parametrize(("keep_alive_s", "left"), [(4.0, 0), (600.0, len(HOSTS))])
def test_a_host_that_waits_long_for_its_turn_has_no_connection(keep_alive_s, left):
    robots = "User-agent: *\nCrawl-delay: 300\n"

    assert run(robots, rules(keep_alive_s=keep_alive_s), requests=len(HOSTS)) == left


def test_hosts_that_have_been_asked_for_all_have_no_connection():
    assert run("", rules(), requests=4 * len(HOSTS)) == 0


def test_a_worker_may_open_more_files_than_the_usual_limit():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    try:
        worker.allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], worker.OPEN_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_breaks_on_a_kept_connection_is_on_record_and_asked_again_after_the_gap():
    rules = policy(politeness={"delay_s": 0.05, "backoff_first_s": 0.1})

    async def main():
        server = Loopback({"/1": [[{"close": True}], [{"send": OK}]], "/2": [[{"send": OK}]]})

        async def dial(address, port):
            return await dial_tcp(address, server.port)

        transport = WireTransport(Resolver(hosts={"*.test": ["127.0.0.1"]}), LOOPBACK, dial=dial)
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            async with lanes_over(transport, rules) as lanes:
                lanes.load([queue("a.test", "/1", "/2")])
                while not lanes.idle:
                    await trio.sleep(0.01)
                cut = lanes.cut()
            nursery.cancel_scope.cancel()
        return server, cut

    server, cut = trio.run(main)

    rows = [request.exchange for request in cut.requests]
    rows.sort(key=lambda row: row.started_at)
    gaps = [(later.started_at - earlier.ended_at).total_seconds() for earlier, later in pairwise(rows)]
    assert server.targets == ["/robots.txt", "/1", "/1", "/2"]
    assert [row.reason for row in rows] == [None, BROKE_WHILE_KEPT, None, None]
    assert (min(gaps) >= 0.05 - 1e-3, gaps[1] >= 0.15 - 1e-3) == (True, True)
    assert [visit.outcome for visit in cut.visits] == ["fetched", "fetched"]
