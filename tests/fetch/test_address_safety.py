"""A name may lead anywhere; the crawler connects to no address that is not public, whoever sends it there and when."""

from ipaddress import ip_network

import httpx
import pytest
import trio
from dnsmasq import dnsmasq
from lane_runs import lanes_over, policy, queue, target

from crawl_pipeline.fetch.connection import dial_tcp
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from tests.fetch.loopback import Loopback

PUBLIC = "127.9.0.1"
"""Stands for a public address: the one network that is allowed."""
EVERYTHING = [[{"send": "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"}]]


def answered(status, *fields):
    lines = [f"HTTP/1.1 {status} X", *fields, "Content-Length: 0", "", ""]
    return [[{"send": "\r\n".join(lines)}]]


class Reached:
    """A transport that really resolves and checks, and remembers what it connects to; all of it is one server."""

    def __init__(self, name_server, now=trio.current_time):
        self.server, self.dialled = None, []
        resolver = Resolver(name_servers=["127.0.0.1"], port=name_server.port, now=now)
        self.transport = WireTransport(resolver, (ip_network("127.9.0.0/16"),), dial=self._dial)

    async def _dial(self, address, port):
        self.dialled.append(address)
        return await dial_tcp("127.0.0.1", self.server.port)


def crawl(reached, routes, *targets):
    """Ask for these URLs of one host through lanes; give outcome by URL, and the outcome of every request."""
    rules = policy(politeness={"delay_s": 0.01, "backoff_first_s": 0.01})

    async def main():
        async with trio.open_nursery() as nursery:
            reached.server = Loopback(routes)
            await reached.server.start(nursery)
            async with lanes_over(reached.transport, rules) as lanes:
                host = httpx.URL(targets[0]).host
                lanes.load([queue(host, *(target(url) for url in targets))], queue)
                while not lanes.idle:
                    await trio.sleep(0.01)
                cut = lanes.cut()
            nursery.cancel_scope.cancel()
        visits = {visit.target.url: visit.outcome for visit in cut.visits}
        return visits, [(r.exchange.cause, r.exchange.failure, r.location) for r in cut.requests]

    return trio.run(main)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "224.0.0.1", "::1", "fe80::1", "fd00:ec2::254", "::ffff:10.0.0.1",
     "64:ff9b::a00:1", "2002:a00:1::1"],
)  # fmt: skip
def test_a_name_that_leads_to_an_address_that_is_not_public_is_never_connected_to(tmp_path, address):
    with dnsmasq(tmp_path, f"host-record=h.test,{address},60") as name_server:
        reached = Reached(name_server)
        _, requests = crawl(reached, {}, "http://h.test/")

    assert requests == [("robots", "address_refused", None)]
    assert reached.dialled == []


def test_a_public_address_beside_a_private_one_does_not_help(tmp_path):
    with dnsmasq(tmp_path, f"host-record=h.test,{PUBLIC},fd00::1,60") as name_server:
        reached = Reached(name_server)
        _, requests = crawl(reached, {}, "http://h.test/")

    assert (requests, reached.dialled) == ([("robots", "address_refused", None)], [])


def test_a_robots_txt_that_redirects_to_a_private_address_is_not_followed_there(tmp_path):
    names = (f"host-record=h.test,{PUBLIC},60", "host-record=inside.test,10.0.0.1,60")
    routes = {"/robots.txt": answered(302, "Location: http://inside.test/robots.txt"), "/": EVERYTHING}
    with dnsmasq(tmp_path, *names) as name_server:
        reached = Reached(name_server)
        visits, requests = crawl(reached, routes, "http://h.test/")

    assert [failure for _, failure, _ in requests] == [None, "address_refused"]
    assert visits == {"http://h.test/": "robots_unreachable"}
    assert reached.dialled == [PUBLIC]


def test_a_page_that_redirects_to_a_private_address_leads_to_a_link_that_is_not_connected_to(tmp_path):
    names = (f"host-record=h.test,{PUBLIC},60", "host-record=inside.test,10.0.0.1,60")
    with dnsmasq(tmp_path, *names) as name_server:
        reached = Reached(name_server)
        _, requests = crawl(reached, {"/": answered(302, "Location: http://inside.test/")}, "http://h.test/")
        assert requests[-1] == ("page", None, "http://inside.test/")

        _, requests = crawl(reached, {}, requests[-1][2])

    assert requests == [("robots", "address_refused", None)]
    assert reached.dialled == [PUBLIC]


def test_a_name_that_turns_private_once_it_is_trusted_is_refused_at_the_next_look_up(tmp_path):
    moment = [0.0]
    with dnsmasq(tmp_path, f"host-record=h.test,{PUBLIC},60") as name_server:
        reached = Reached(name_server, now=lambda: moment[0])
        visits, _ = crawl(reached, {"/": EVERYTHING}, "http://h.test/")
        assert visits == {"http://h.test/": "gone"}
    with dnsmasq(tmp_path, "host-record=h.test,127.0.0.1,60", port=name_server.port):
        # Within the TTL the address that was checked still counts; afterwards the new one is checked like any other.
        visits, _ = crawl(reached, {"/": EVERYTHING}, "http://h.test/")
        assert visits == {"http://h.test/": "gone"}
        moment[0] = 61.0
        _, requests = crawl(reached, {"/": EVERYTHING}, "http://h.test/")

    assert requests == [("robots", "address_refused", None)]
    assert set(reached.dialled) == {PUBLIC}
