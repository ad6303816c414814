"""Conformance of fetching: the real transport against a scripted server on loopback.

Each case runs one fetch with its redirects through `follow` and `exchange`, as robots.txt and sitemaps are
fetched, and reports what came of it in the words of the cases.
"""

import base64
import datetime
import ssl
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network
from typing import Any

import trio
import trustme

from crawl_pipeline.fetch.connection import dial_tcp
from crawl_pipeline.fetch.exchange import Clock, Exchange, Limits, ListLog, exchange
from crawl_pipeline.fetch.follow import Followed, follow
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.fetch.wire import WireError
from tests.conformance.kinds.adapter import Adapters
from tests.fetch.loopback import Loopback

AGENT = "ExampleBot/1.0 (+https://bot.example)"
RETRIED = frozenset(("timeout", "connect_error", "dns_error", "truncated", "protocol_error", "decode_error"))


def fetch(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one `fetch` case and say what came of it."""
    return trio.run(_fetch, case)


async def _fetch(case: Mapping[str, Any]) -> dict[str, Any]:
    server_tls, client_tls = _tls(case.get("tls"))
    server = Loopback(case["routes"], server_tls)
    async with trio.open_nursery() as nursery:
        await server.start(nursery)
        guarded = case.get("allow_private_test_origin", False)
        transport = WireTransport(
            Resolver(hosts={"*.example": []}),
            (ip_network("127.0.0.1/32" if guarded else "127.0.0.0/8"),),
            tls=client_tls,
            dial=_only(server) if guarded else None,
        )
        got = await _follow(transport, server.origin + case["start"], case.get("limits", {}))
        await transport.aclose()
        nursery.cancel_scope.cancel()
    return _report(got, server)


def _only(server: Loopback) -> Callable[[str, int], Any]:
    """Dial nothing but the server under test: other ports of its address are not exempt."""

    async def dial(address: str, port: int) -> trio.abc.Stream:
        if (address, port) != ("127.0.0.1", server.port):
            raise WireError("address_refused", f"{address}:{port} is not the test origin")
        return await dial_tcp(address, port)

    return dial


async def _follow(transport: WireTransport, url: str, said: Mapping[str, Any]) -> Followed:
    end = trio.current_time() + said.get("total_timeout_s", 10)
    size = said.get("max_body_bytes", 1_000_000)
    clock, log = Clock.start(datetime.datetime.now(datetime.UTC)), ListLog()

    async def ask(target: str) -> Exchange:
        limits = Limits(
            total_s=max(0.0, end - trio.current_time()),
            read_s=said.get("read_timeout_s", 5),
            wire_bytes=size,
            body_bytes=size,
        )
        headers = {"User-Agent": AGENT}
        return await exchange(transport, target, cause="page", headers=headers, limits=limits, clock=clock, log=log)

    return await follow(ask, url, said.get("max_redirects", 5))


def _report(got: Followed, server: Loopback) -> dict[str, Any]:
    last = got.last
    outcome = _outcome(got)
    path = "/" + got.chain[-1].split("://", 1)[1].partition("/")[2]
    fields: dict[str, str] = {}
    for head in server.heads:
        fields |= _fields(head)
    return {
        "outcome": outcome,
        "status": last.status,
        "body": last.body.decode("utf-8", "replace"),
        "body_if_ok": last.body.decode("utf-8", "replace"),
        "body_b64": base64.b64encode(last.body).decode(),
        "final_path": path,
        "paths": server.targets,
        "requests": len(server.targets),
        "retry": outcome in RETRIED or last.status == 429 or (last.status or 0) // 100 == 5,
        "retry_after_s": last.retry_after_s,
        "request_header": fields,
    }


def _outcome(got: Followed) -> str:
    """Name what came of it in the words of the cases; an error status stands whatever became of its body."""
    status = got.last.status
    if got.failure == "address_refused":
        return "blocked"
    if status is not None and status >= 400:
        return "http_error"
    if got.failure is not None:
        return got.failure
    return "not_modified" if status == 304 else "ok" if status and status < 300 else "redirect_error"


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}


def _tls(flaw: str | None) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Make a server with a flawed certificate and a client that would trust it without the flaw."""
    if flaw is None:
        return None, None
    authority = trustme.CA()
    long_ago = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    certificate = authority.issue_cert(
        "other.example" if flaw == "wrong_host" else "127.0.0.1",
        not_before=long_ago if flaw == "expired" else None,
        not_after=long_ago + datetime.timedelta(days=1) if flaw == "expired" else None,
    )
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate.configure_cert(server)
    if flaw != "self_signed":
        authority.configure_trust(client)
    return server, client


def rebinding(case: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a host whose name changes its mind, and say which addresses were connected to."""
    return trio.run(_rebinding, case)


async def _rebinding(case: Mapping[str, Any]) -> dict[str, Any]:
    answers = [tuple(answer) for answer in case["dns_sequence"]]
    connected: list[str] = []

    class Fickle:
        async def resolve(self, host: str) -> tuple[str, ...]:
            return answers.pop(0) if len(answers) > 1 else answers[0]

        async def prefetch(self, hosts: Iterable[str], at_once: int) -> None:
            """Look nothing up ahead of time."""

    async def dial(address: str, port: int) -> trio.abc.Stream:
        connected.append(address)
        raise OSError("nobody is connected to here")

    transport = WireTransport(Fickle(), dial=dial)
    for _ in range(len(answers) + 1):
        await _follow(transport, case["url"], {})
    return {"connected_to": connected}


ADAPTERS: Adapters = {
    ("http", "fetch"): fetch,
    ("http", "rebinding"): rebinding,
}
