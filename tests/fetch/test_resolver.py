"""From a host name to its addresses, against a real name server on loopback."""

import contextlib

import dns.rcode
import pytest
import trio
import trio.testing

from crawl_pipeline.fetch.resolver import Resolver, Times
from crawl_pipeline.fetch.wire import WireError
from tests.fetch.name_server import NameServer

TIMES = Times(ttl_floor_s=60, ttl_ceiling_s=3_600, negative_ttl_s=300, timeout_s=5)


def a(name, *values, ttl=300):
    return {(name, "A"): (ttl, values), (name, "AAAA"): (ttl, ())}


def play(records, script, *, hosts=None, clock=None, times=TIMES, most_names=100):
    """Run `script(resolver, server, clock)` beside a name server with these records."""
    clock = clock or trio.testing.MockClock()

    async def main():
        server = NameServer(records)
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            resolver = Resolver(hosts, ["127.0.0.1"], times, port=server.port, most_names=most_names)
            result = await script(resolver, server, clock)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main, clock=clock)


def asked(records, host, **options):
    """Resolve one host; give its addresses or the reason of the failure, and what the server was asked."""

    async def script(resolver, server, _):
        try:
            return await resolver.resolve(host), dict(server.asked)
        except WireError as trouble:
            return str(trouble), dict(server.asked)

    return play(records, script, **options)


def test_both_families_are_asked_and_ipv4_comes_first():
    records = {("h.example", "A"): (60, ["192.0.2.1", "192.0.2.2"]), ("h.example", "AAAA"): (60, ["2001:db8::1"])}
    addresses, questions = asked(records, "h.example")

    assert (set(addresses[:2]), addresses[2:]) == ({"192.0.2.1", "192.0.2.2"}, ("2001:db8::1",))
    assert questions == {("h.example", "A"): 1, ("h.example", "AAAA"): 1}


@pytest.mark.parametrize("trouble", [dns.rcode.SERVFAIL, dns.rcode.NXDOMAIN])
def test_one_family_that_fails_does_not_spoil_the_other(trouble):
    records = {("h.example", "A"): trouble, ("h.example", "AAAA"): (60, ["2001:db8::1"])}

    assert asked(records, "h.example")[0] == ("2001:db8::1",)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ({}, "dns_error: h.example: the name does not exist"),
        (a("h.example"), "dns_error: h.example: the name has no address"),
        (
            dict.fromkeys([("h.example", "A"), ("h.example", "AAAA")], dns.rcode.REFUSED),
            "dns_error: h.example: the name servers refuse or fail",
        ),
    ],
)
def test_a_name_without_addresses_is_a_dns_error_with_a_reason(records, reason):
    assert asked(records, "h.example")[0] == reason


def test_a_silent_name_server_is_given_up_in_time():
    records = dict.fromkeys([("h.example", "A"), ("h.example", "AAAA")])

    async def script(resolver, server, clock):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jump, server, clock)
            with pytest.raises(WireError, match="no answer within 5 s"):
                await resolver.resolve("h.example")
        return trio.current_time()

    async def jump(server, clock):
        while len(server.asked) < 2:
            await trio.testing.wait_all_tasks_blocked(0.001)
        clock.jump(5)

    assert play(records, script) >= 5


@pytest.mark.parametrize("host", ["..", "a..b", "a" * 64 + ".example", "\u2603.example\udc80"])
def test_a_name_that_cannot_be_asked_is_a_dns_error(host):
    assert asked({}, host)[0].startswith("dns_error")


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("192.0.2.7", ("192.0.2.7",)),
        ("2001:db8::7", ("2001:db8::7",)),
        ("[2001:db8::7]", ("2001:db8::7",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("a.localhost", ("127.0.0.1", "::1")),
    ],
)
def test_literals_and_localhost_need_no_name_server(host, addresses):
    assert asked({}, host) == (addresses, {})


def test_a_name_that_ends_in_a_digit_is_asked_for():
    assert asked(a("h.h2", "192.0.2.1"), "h.h2")[0] == ("192.0.2.1",)


HOSTS = {
    "h.example": ["192.0.2.1"],
    "*.h.example": ["192.0.2.2"],
    "*.deep.h.example": ["192.0.2.3"],
    "10.0.0.1": ["192.0.2.4"],
}


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("h.example", "192.0.2.1"),
        ("H.EXAMPLE.", "192.0.2.1"),
        ("a.h.example", "192.0.2.2"),
        ("a.b.h.example", "192.0.2.2"),
        ("a.deep.h.example", "192.0.2.3"),
        ("10.0.0.1", "192.0.2.4"),
    ],
)
def test_fixed_entries_come_first_and_the_longest_suffix_wins(host, address):
    assert asked({}, host, hosts=HOSTS) == ((address,), {})


def test_names_beside_a_fixed_suffix_are_asked_for():
    assert asked(a("nh.example", "192.0.2.9"), "nh.example", hosts=HOSTS)[0] == ("192.0.2.9",)


@pytest.mark.parametrize(("ttl", "kept_s"), [(300, 300), (0, 60), (999_999, 3_600)])
def test_an_answer_is_kept_for_its_ttl_within_floor_and_ceiling(ttl, kept_s):
    async def script(resolver, server, clock):
        counts = []
        for wait_s in (0, kept_s - 1, 2):
            clock.jump(wait_s)
            await resolver.resolve("h.example")
            counts.append(server.asked["h.example", "A"])
        return counts

    assert play(a("h.example", "192.0.2.1", ttl=ttl), script) == [1, 1, 2]


def test_a_failure_is_kept_for_a_time_of_its_own():
    async def script(resolver, server, clock):
        counts = []
        for wait_s in (0, 299, 2):
            clock.jump(wait_s)
            with contextlib.suppress(WireError):
                await resolver.resolve("h.example")
            counts.append(server.asked["h.example", "A"])
        return counts

    assert play({}, script) == [1, 1, 2]


def test_a_name_is_looked_up_once_however_many_ask():
    async def script(resolver, server, _):
        got = []

        async def one():
            got.append(await resolver.resolve("h.example"))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)
        return got, dict(server.asked)

    got, questions = play(a("h.example", "192.0.2.1"), script)

    assert got == [("192.0.2.1",)] * 20
    assert set(questions.values()) == {1}


def test_when_the_first_asker_is_cancelled_the_others_still_get_an_answer():
    async def script(resolver, server, _):
        got = []

        async def one(scope):
            with scope:
                got.append(await resolver.resolve("h.example"))

        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in range(3)]
            for scope in scopes:
                nursery.start_soon(one, scope)
                await trio.lowlevel.checkpoint()
            scopes[0].cancel()
        return got

    assert len(play(a("h.example", "192.0.2.1"), script)) >= 2


def test_prefetched_names_are_known_and_failures_among_them_do_no_harm():
    async def script(resolver, server, _):
        await resolver.prefetch(["h.example", "none.example"], 1)
        before = server.asked.total()
        return await resolver.resolve("h.example"), server.asked.total() - before

    assert play(a("h.example", "192.0.2.1"), script) == (("192.0.2.1",), 0)


def test_the_oldest_names_are_forgotten_when_too_many_are_known():
    names = [f"h{n}.example" for n in range(4)]
    records = {key: value for name in names for key, value in a(name, "192.0.2.1").items()}

    async def script(resolver, server, _):
        for name in [*names, names[3], names[0]]:
            await resolver.resolve(name)
        return [server.asked[name, "A"] for name in names]

    assert play(records, script, most_names=2) == [2, 1, 1, 1]
