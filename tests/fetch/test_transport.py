"""The connection under a request: which address, how often it is used, how it ends."""

import contextlib
import gc
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import httpx
import pytest
import trio
import trio.testing
import trustme

from crawl_pipeline.core.addresses import Networks
from crawl_pipeline.fetch.connection import Place, place
from crawl_pipeline.fetch.exchange import CANCELLED, Clock, Limits, ListLog, exchange
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import BROKE_WHILE_KEPT, WireTransport
from tests.fetch.loopback import Loopback

LOOPBACK = (ip_network("127.0.0.0/8"),)
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PUBLIC = "93.184.215.14"


def play(routes, script, *, hosts=None, allow=LOOPBACK, block=(), server_tls=None, client_tls=None):
    """Run `script(ask, server, transport)` against a real server; give what it gives."""

    async def main():
        server = Loopback(routes, server_tls)
        transport = WireTransport(Resolver(hosts=hosts), allow, block=Networks(block), tls=client_tls)
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            result = await script(asker(transport), server, transport)
            await transport.aclose()
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


def asker(transport, log=None):
    log, clock = log or ListLog(), Clock.start(NOON)

    async def ask(url, limits=None, **options):
        return await exchange(
            transport, url, cause="page", headers={}, limits=limits or Limits(), clock=clock, log=log, **options
        )

    return ask


def scripted(steps, *, refuses=(), silent=(), limits=None, addresses=(PUBLIC,), times=1, seconds=99, scheme="http"):
    """Ask over streams in memory, on a clock that jumps; each connection plays `steps`: bytes, pauses, a close (0).

    Give (exchanges, addresses dialled, rows).
    """
    dialled, log, got = [], ListLog(), []

    async def main():
        async with trio.open_nursery() as nursery:

            async def dial(address, port):
                dialled.append(address)
                if address in refuses:
                    raise ConnectionRefusedError(111, "refused")
                if address in silent:
                    await trio.sleep_forever()
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(serve, theirs)
                return ours

            async def serve(stream):
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while await stream.receive_some(10_000):
                        await play_steps(stream)

            async def play_steps(stream):
                for step in steps:
                    if isinstance(step, bytes):
                        await stream.send_all(step)
                    elif step:
                        await trio.sleep(step)
                    else:
                        await stream.aclose()

            ask = asker(WireTransport(Resolver(hosts={"h.example": list(addresses)}), dial=dial), log)
            with trio.move_on_after(seconds):
                for _ in range(times):
                    got.append(await ask(f"{scheme}://h.example/", limits))  # noqa: PERF401
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return got, dialled, log.rows


@pytest.mark.parametrize(
    ("url", "cut"),
    [
        ("http://h.example/", Place("http://h.example", False, "h.example", 80, "h.example", "/")),
        ("https://h.example/a?b/c@d:1", Place("https://h.example", True, "h.example", 443, "h.example", "/a?b/c@d:1")),
        ("http://h.example:8080/a", Place("http://h.example:8080", False, "h.example", 8080, "h.example:8080", "/a")),
        ("http://[::1]/", Place("http://[::1]", False, "[::1]", 80, "[::1]", "/")),
        ("http://[::1]:81/", Place("http://[::1]:81", False, "[::1]", 81, "[::1]:81", "/")),
        ("http://u:p@h.example/", Place("http://h.example", False, "h.example", 80, "h.example", "/")),
        ("http://h.example?q", Place("http://h.example", False, "h.example", 80, "h.example", "/?q")),
    ],
)
def test_a_url_is_cut_into_what_a_connection_needs(url, cut):
    assert place(url) == cut


def test_the_target_is_sent_byte_for_byte_and_the_address_is_told():
    async def script(ask, server, _):
        got = await ask(server.origin + "/a%2fb?c=[d]|e'%7e")
        return got, server

    got, server = play({"/a%2fb": [[{"send": OK}]]}, script)

    assert (got.body, got.address) == (b"ok", "127.0.0.1")
    assert server.targets == ["/a%2fb?c=[d]|e'%7e"]
    assert server.heads[0].split(b"\r\n")[1] == b"Host: " + server.authority.encode()


def test_a_host_that_httpx_refuses_is_asked():
    async def script(ask, server, _):
        return await ask(f"http://xn--n3h.example:{server.port}/")

    assert play({"/": [[{"send": OK}]]}, script, hosts={"xn--n3h.example": ["127.0.0.1"]}).body == b"ok"


def test_requests_of_one_origin_share_a_connection():
    async def script(ask, server, _):
        return [(await ask(server.origin + "/")).body for _ in range(3)], server.connections

    assert play({"/": [[{"send": OK}]]}, script) == ([b"ok"] * 3, 1)


def test_a_kept_connection_that_was_closed_is_replaced_unseen():
    async def script(ask, server, _):
        bodies = [(await ask(server.origin + "/")).body]
        await trio.testing.wait_all_tasks_blocked(0.01)
        bodies.append((await ask(server.origin + "/")).body)
        return bodies, server.connections, len(server.targets)

    assert play({"/": [[{"send": OK}, {"close": True}]]}, script) == ([b"ok"] * 2, 2, 2)


def test_a_kept_connection_that_breaks_under_the_request_is_not_replaced_unseen():
    got, dialled, rows = scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0], times=3)

    assert [(one.body, one.failure) for one in got] == [(b"ok", None), (b"", "connect_error"), (b"ok", None)]
    assert got[1].reason == BROKE_WHILE_KEPT
    assert (len(dialled), len(rows)) == (2, 3)


def test_a_new_connection_that_breaks_is_not_tried_again():
    got, dialled, _ = scripted([0])

    assert (got[0].failure, got[0].reason, len(dialled)) == ("protocol_error", "closed without an answer", 1)


def test_a_closed_host_keeps_no_connection():
    async def script(ask, server, transport):
        await ask(server.origin + "/")
        await transport.close_host("127.0.0.1")
        await ask(server.origin + "/")
        return server.connections

    assert play({"/": [[{"send": OK}]]}, script) == 2


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ],
)
def test_a_connection_that_is_not_clean_is_not_kept(answer):
    async def script(ask, server, _):
        return [(await ask(server.origin + "/")).body for _ in range(2)], server.connections

    assert play({"/": [[{"send": answer}]]}, script) == ([b"ok"] * 2, 2)


def test_an_unwanted_body_that_is_still_to_come_costs_its_connection():
    async def script(ask, server, _):
        got = await ask(server.origin + "/", wanted=lambda status, headers: False)
        await ask(server.origin + "/page")
        return got.body, server.connections

    large = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n..."

    assert play({"/": [[{"send": large}]], "/page": [[{"send": OK}]]}, script) == (b"", 2)


def test_an_answer_to_head_leaves_the_connection_usable():
    async def script(ask, server, _):
        first = await ask(server.origin + "/", method="HEAD")
        second = await ask(server.origin + "/page")
        return first.status, second.body, server.connections

    head = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"

    assert play({"/": [[{"send": head}]], "/page": [[{"send": OK}]]}, script) == (200, b"ok", 1)


def test_a_reset_inside_the_body_is_a_cut_answer():
    async def script(ask, server, _):
        return (await ask(server.origin + "/")).failure

    cut = [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok"}, {"reset": True}]

    assert play({"/": [cut]}, script) == "truncated"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "localhost"])
def test_an_address_that_is_not_public_is_never_dialled(host):
    async def script(ask, server, _):
        return (await ask(f"http://{host}:{server.port}/")).failure, server.connections

    assert play({}, script, allow=()) == ("address_refused", 0)


def test_a_blocked_network_is_never_dialled_though_it_is_allowed():
    async def script(ask, server, _):
        got = await ask(f"http://h.example:{server.port}/")
        return got.failure, got.reason, server.connections

    found = play({}, script, hosts={"h.example": ["127.0.0.1"]}, block=["127.0.0.0/30"])

    assert found == ("address_refused", "blocked by block.networks: h.example leads to 127.0.0.1", 0)


def test_one_refused_address_refuses_the_host():
    got, dialled, _ = scripted([0], addresses=[PUBLIC, "127.0.0.1"])

    assert (got[0].failure, dialled) == ("address_refused", [])
    assert "127.0.0.1" in got[0].reason


def test_the_next_address_is_tried_when_one_refuses():
    got, dialled, _ = scripted([OK.encode()], addresses=["1.1.1.1", PUBLIC], refuses=["1.1.1.1"])

    assert (got[0].body, got[0].address, dialled) == (b"ok", PUBLIC, ["1.1.1.1", PUBLIC])


def test_the_next_address_is_tried_when_one_is_silent():
    got, dialled, _ = scripted([OK.encode()], addresses=["1.1.1.1", PUBLIC], silent=["1.1.1.1"])

    assert (got[0].body, dialled) == (b"ok", ["1.1.1.1", PUBLIC])
    # The request is that to the second: what an address is owed is counted from there.
    assert (got[0].started_at, got[0].first_byte_s) == (NOON + timedelta(seconds=Limits().connect_s), 0)


def test_a_host_that_refuses_at_every_address_is_a_connect_error():
    got, _, _ = scripted([0], addresses=["1.1.1.1", PUBLIC], refuses=["1.1.1.1", PUBLIC])

    assert (got[0].failure, got[0].reason) == ("connect_error", f"{PUBLIC}: refused")


def test_a_host_without_addresses_is_a_dns_error():
    got, dialled, _ = scripted([0], addresses=[])

    assert (got[0].failure, dialled) == ("dns_error", [])


@pytest.mark.parametrize(
    ("steps", "failure", "reason", "after_s"),
    [
        ([1e9], "timeout", "silent for 10 s", 10),
        ([b"HTTP/1.1 200 OK\r\n", 8.0] * 99, "timeout", "over 30 s in all", 30),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 8.0, b"a", 1e9], "timeout", "silent for 10 s", 18),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *[b"a", 3.0] * 99], "timeout", "over 30 s in all", 30),
    ],
)
def test_silence_and_trickles_end_in_time(steps, failure, reason, after_s):
    got, _, _ = scripted(steps, limits=Limits(total_s=30, read_s=10, connect_s=5))

    assert (got[0].failure, got[0].reason, got[0].address) == (failure, reason, PUBLIC)
    assert (got[0].ended_at - got[0].started_at).total_seconds() == after_s


def test_the_end_of_the_round_inside_a_request_leaves_a_row():
    got, _, rows = scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na", 1e9], seconds=5)

    assert got == []
    assert [(row.failure, row.reason, row.status) for row in rows] == [("timeout", CANCELLED, 200)]


def test_what_frames_a_body_counts_on_the_wire_too():
    chunk = b"1;" + b"x" * 900 + b"\r\na\r\n"
    steps = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[chunk] * 1_000]

    got, _, _ = scripted(steps, limits=Limits(wire_bytes=20_000, header_bytes=2_000))

    assert (got[0].failure, got[0].reason) == ("too_large", "over 20000 bytes on the wire")
    assert got[0].wire_bytes < 100_000


def contexts(name, *, trusted=True):
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert(name).configure_cert(server)
    if trusted:
        authority.configure_trust(client)
    return {"server_tls": server, "client_tls": client}


def test_tls_proves_the_name_in_the_url_not_the_address():
    async def script(ask, server, _):
        url = f"https://h.example:{server.port}/"
        return [(await ask(url)).body for _ in range(2)], server.connections

    hosts = {"h.example": ["127.0.0.1"]}

    assert play({"/": [[{"send": OK}]]}, script, hosts=hosts, **contexts("h.example")) == ([b"ok"] * 2, 1)


@pytest.mark.parametrize(("name", "trusted"), [("other.example", True), ("h.example", False)])
def test_a_certificate_that_proves_nothing_is_a_tls_error(name, trusted):
    async def script(ask, server, _):
        got = await ask(f"https://h.example:{server.port}/")
        return got.failure, bool(got.reason), server.targets

    hosts = {"h.example": ["127.0.0.1"]}

    assert play({}, script, hosts=hosts, **contexts(name, trusted=trusted)) == ("tls_error", True, [])


def test_plain_http_on_a_tls_port_is_a_tls_error():
    got, _, _ = scripted([b"HTTP/1.1 400 Bad Request\r\n\r\n"], scheme="https")

    assert (got[0].failure, got[0].reason) == ("tls_error", "no TLS handshake: wrong version number")


def test_a_silent_tls_handshake_ends_in_time():
    got, _, _ = scripted([1e9], scheme="https")

    assert (got[0].failure, got[0].reason) == ("timeout", f"{PUBLIC}: no connection within 10 s")


def test_httpx_can_use_the_transport():
    async def script(_, server, transport):
        client = httpx.AsyncClient(transport=transport, timeout=5)
        response = await client.get(server.origin + "/a?b=c")
        return response.text, response.extensions["address"], server.targets

    assert play({"/a": [[{"send": OK}]]}, script) == ("ok", "127.0.0.1", ["/a?b=c"])


def test_a_finished_request_leaves_nothing_for_the_collector():
    async def script(ask, server, _):
        await ask(server.origin + "/")
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await ask(server.origin + "/")
            return gc.collect()
        finally:
            gc.enable()

    assert play({"/": [[{"send": OK}]]}, script) == 0
