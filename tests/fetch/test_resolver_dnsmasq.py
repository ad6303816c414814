"""Against a real name server, which counts: exactly the look-ups that its TTLs ask for, and no more.

The questions go over real sockets; only the cache's clock is the test's, so that a TTL ends when the test says so.
"""

from dataclasses import dataclass, replace

import dns.rcode
import pytest
import trio
from dnsmasq import dnsmasq

from crawl_pipeline.fetch.resolver import Resolver, Times
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.fetch.wire import WireError
from tests.fetch.name_server import NameServer

TIMES = Times(ttl_floor_s=10, ttl_ceiling_s=3_600, negative_ttl_s=600, failure_ttl_s=30, stale_s=1_000, timeout_s=2)
CHAIN = (
    "cname=a.h.test,b.h.test,900",
    "cname=b.h.test,c.h.test,40",
    "host-record=c.h.test,192.0.2.3,600",
)
ZONE = (
    "auth-server=ns.zone.test,127.0.0.1",
    "auth-zone=zone.test",
    "auth-soa=1,admin.zone.test",
    "auth-ttl=70",
    "host-record=h.zone.test,192.0.2.1",
)


@dataclass
class Time:
    """The cache's clock."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def answer(resolver, host):
    """Addresses, or the reason why there are none."""
    try:
        return await resolver.resolve(host)
    except WireError as trouble:
        return str(trouble)


def look_ups(server, host, moments, times=TIMES):
    """How often the server had been asked for the host's addresses, after it was resolved at each of these moments."""

    async def main():
        time, counts = Time(), []
        resolver = Resolver(name_servers=["127.0.0.1"], times=times, port=server.port, now=time)
        for time.now in moments:
            await answer(resolver, host)
            counts.append((server.asked[host, "A"], server.asked[host, "AAAA"]))
        return counts

    return trio.run(main)


def resolved(server, host):
    async def main():
        return await answer(Resolver(name_servers=["127.0.0.1"], times=TIMES, port=server.port), host)

    return trio.run(main)


ONCE, TWICE = (1, 1), (2, 2)


@pytest.mark.parametrize(
    ("record", "kept_s"),
    [
        ("host-record=h.test,192.0.2.1,120", 120),
        ("host-record=h.test,192.0.2.1,2001:db8::1,120", 120),
        ("host-record=h.test,192.0.2.1,1", 10),
        ("host-record=h.test,192.0.2.1,200000", 3_600),
    ],
)
def test_a_name_is_asked_for_again_when_its_ttl_within_floor_and_ceiling_is_over(tmp_path, record, kept_s):
    with dnsmasq(tmp_path, record) as server:
        assert look_ups(server, "h.test", [0, 1, kept_s - 1, kept_s + 1, 2 * kept_s]) == [
            ONCE,
            ONCE,
            ONCE,
            TWICE,
            TWICE,
        ]


def test_a_chain_of_cnames_is_followed_and_lives_as_long_as_its_shortest_link(tmp_path):
    with dnsmasq(tmp_path, *CHAIN) as server:
        assert resolved(server, "a.h.test") == ("192.0.2.3",)
    with dnsmasq(tmp_path, *CHAIN) as server:
        before = server.asked["a.h.test", "A"]
        counts = look_ups(server, "a.h.test", [0, 39, 41])

        assert [a - before for a, _ in counts] == [1, 1, 2]
        assert server.asked["c.h.test", "A"] == 0


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("none.zone.test", "dns_error: none.zone.test: the name does not exist"),
        ("ns.h.zone.test", "dns_error: ns.h.zone.test: the name does not exist"),
    ],
)
def test_a_denial_is_believed_for_the_minimum_of_its_zone(tmp_path, host, reason):
    with dnsmasq(tmp_path, *ZONE) as server:
        assert resolved(server, host) == reason
        before = server.asked[host, "A"]

        assert [a - before for a, _ in look_ups(server, host, [0, 69, 71])] == [1, 1, 2]


@pytest.mark.parametrize(("most_s", "kept_s"), [(20, 20), (600, 70)])
def test_a_denial_is_believed_no_longer_than_the_policy_says(tmp_path, most_s, kept_s):
    with dnsmasq(tmp_path, *ZONE) as server:
        counts = look_ups(server, "none.zone.test", [0, kept_s - 1, kept_s + 1], replace(TIMES, negative_ttl_s=most_s))

    assert counts == [ONCE, ONCE, TWICE]


def test_servers_that_refuse_are_asked_again_soon(tmp_path):
    with dnsmasq(tmp_path, *ZONE) as server:
        assert resolved(server, "elsewhere.test") == "dns_error: elsewhere.test: the name servers refuse or fail"
        before = server.asked["elsewhere.test", "A"]

        assert [a - before for a, _ in look_ups(server, "elsewhere.test", [0, 29, 31])] == [1, 1, 2]


def test_a_servfail_from_behind_the_server_is_asked_again_soon(tmp_path):
    """dnsmasq makes no SERVFAIL of its own: it hands on that of the server it asks."""

    async def main():
        broken = NameServer(dict.fromkeys([("x.test", "A"), ("x.test", "AAAA")], dns.rcode.SERVFAIL))
        time, counts = Time(), []
        async with trio.open_nursery() as nursery:
            await broken.start(nursery)
            with dnsmasq(tmp_path, f"server=127.0.0.1#{broken.port}") as server:
                resolver = Resolver(name_servers=["127.0.0.1"], times=TIMES, port=server.port, now=time)
                for time.now in (0, 29, 31):
                    assert await answer(resolver, "x.test") == "dns_error: x.test: the name servers refuse or fail"
                    counts.append(server.asked["x.test", "A"])
            nursery.cancel_scope.cancel()
        return counts

    assert trio.run(main) == [1, 1, 2]


def test_while_the_server_is_silent_the_last_answer_is_used_and_then_given_up(tmp_path):
    async def main(server):
        time, times = Time(), replace(TIMES, timeout_s=0.2)
        resolver = Resolver(name_servers=["127.0.0.1"], times=times, port=server.port, now=time)
        got = [await answer(resolver, "h.test")]
        server.falls_silent()
        for time.now in (130.0, 135.0, 1_119.0, 1_150.0):
            began = trio.current_time()
            got.append((await answer(resolver, "h.test"), trio.current_time() - began > 0.1))
        server.speaks_again()
        time.now = 1_200.0
        return [*got, await answer(resolver, "h.test")]

    with dnsmasq(tmp_path, "host-record=h.test,192.0.2.1,120") as server:
        got = trio.run(main, server)

    gone = "dns_error: h.test: no answer within 0.2 s"
    # Asked, and used though it has run out; not asked again at once; asked again; too old in the end.
    stale = [(("192.0.2.1",), True), (("192.0.2.1",), False), (("192.0.2.1",), True), (gone, True)]
    assert got == [("192.0.2.1",), *stale, ("192.0.2.1",)]


def test_a_name_that_no_longer_exists_is_not_kept_alive(tmp_path):
    async def main():
        time = Time()
        with dnsmasq(tmp_path, "host-record=h.test,192.0.2.1,120") as server:
            resolver = Resolver(name_servers=["127.0.0.1"], times=TIMES, port=server.port, now=time)
            assert await answer(resolver, "h.test") == ("192.0.2.1",)
        with dnsmasq(tmp_path, "local=/test/", port=server.port):
            time.now = 121
            return await answer(resolver, "h.test")

    assert trio.run(main) == "dns_error: h.test: the name does not exist"


def test_names_of_hosts_next_in_line_are_each_asked_for_once(tmp_path):
    names = [f"h{n}.test" for n in range(40)]

    async def main(server):
        resolver = Resolver(name_servers=["127.0.0.1"], times=TIMES, port=server.port)
        await WireTransport(resolver).prefetch([*names, *names, "none.test"], 4)
        ahead = server.asked.total()
        for name in [*names, "none.test"]:
            await answer(resolver, name)
        return ahead, server.asked

    with dnsmasq(tmp_path, "local=/test/", *(f"host-record={name},192.0.2.1,120" for name in names)) as server:
        ahead, asked = trio.run(main, server)

    assert ahead == asked.total() == 2 * 41
    assert set(asked.values()) == {1}
