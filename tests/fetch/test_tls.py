"""https: which certificates prove a host, what is said of those that do not, and whom else to trust."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trustme

from crawl_pipeline import worker
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.fetch.connection import trust
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from tests.fetch.loopback import Loopback
from tests.fetch.test_transport import LOOPBACK, OK, asker

AUTHORITY = trustme.CA()
NAME = "h.example"


def certified(*names, by=AUTHORITY, **terms):
    """A server's side of TLS, with a certificate for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    by.issue_cert(*names, **terms).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def ca_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


def policy(ca_file):
    return Policy.model_validate({
        "agent": {"name": "ExampleBot", "contact": "https://example.org/"}, "fetch": {"ca_file": ca_file},
        "addresses": {"allow": ["127.0.0.0/8"]}, "resolver": {"hosts": {NAME: ["127.0.0.1"]}},
    })  # fmt: skip


def ask(context, transport, times=1, name=NAME):
    """Ask a real server so many times; give the exchanges and the server."""

    async def main():
        server = Loopback({"/": [[{"send": OK}]]}, context)
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            got = [await asker(transport)(f"https://{name}:{server.port}/") for _ in range(times)]
            await transport.aclose()
            nursery.cancel_scope.cancel()
        return got, server

    return trio.run(main)


def transport(ca_file):
    return WireTransport(Resolver(hosts={NAME: ["127.0.0.1"]}), LOOPBACK, tls=trust(ca_file))


@pytest.mark.parametrize("name", ["nowhere.pem", "a\0b"])
def test_a_file_of_authorities_that_cannot_be_read_is_told_in_words(name):
    with pytest.raises(PolicyError, match="expected a readable file of certificates"):
        worker.trusted(name)


def test_the_name_in_the_url_is_sent_as_sni_and_the_connection_is_kept(ca_file):
    asked, context = [], certified(NAME)
    context.sni_callback = lambda _, name, __: asked.append(name)

    got, server = ask(context, transport(ca_file), times=3)

    assert [one.body for one in got] == [b"ok"] * 3
    assert (asked, server.connections) == ([NAME], 1)


@pytest.mark.parametrize("after_s", [0.0, 0.05], ids=["with the answer", "later"])
def test_an_answer_that_nobody_asked_for_is_not_taken_for_that_of_the_next_request(ca_file, after_s):
    steps = [{"send": OK}, {"sleep_s": after_s}, {"send": OK.replace("ok", "no")}]

    async def main():
        server = Loopback({"/": [steps]}, certified(NAME))
        async with trio.open_nursery() as nursery:
            await server.start(nursery)
            ask, got = asker(own := transport(ca_file)), []
            for _ in range(3):
                got.append(await ask(f"https://{NAME}:{server.port}/"))
                await trio.sleep(after_s + 0.05)
            await own.aclose()
            nursery.cancel_scope.cancel()
        return got, server

    got, server = trio.run(main)
    assert [one.body for one in got] == [b"ok"] * 3
    assert server.connections == 3


def test_an_address_in_a_url_is_proved_by_a_certificate_for_the_address(ca_file):
    got, _ = ask(certified("127.0.0.1"), transport(ca_file), name="127.0.0.1")

    assert got[0].body == b"ok"


LONG_AGO = datetime.now(UTC) - timedelta(days=30)


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (certified(NAME, not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)), "certificate has expired"),
        (certified("other.example"), f"Hostname mismatch, certificate is not valid for '{NAME}'."),
        (certified(NAME, by=trustme.CA()), "unable to get local issuer certificate"),
    ],
)
def test_a_certificate_that_proves_nothing_is_a_tls_error_in_words_and_nothing_is_sent(ca_file, context, reason):
    got, server = ask(context, transport(ca_file))

    assert (got[0].failure, got[0].reason, got[0].status) == ("tls_error", reason, None)
    assert server.heads == []


def test_an_authority_of_the_policy_is_trusted_by_the_workers_transport(ca_file):
    got, _ = ask(certified(NAME), worker.wire(policy(ca_file)))
    without, _ = ask(certified(NAME), worker.wire(policy("")))

    assert got[0].body == b"ok"
    assert without[0].failure == "tls_error"


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_authorities_stops_the_worker_before_it_begins(tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)

    with pytest.raises(PolicyError, match=r"fetch\.ca_file: expected a readable file"):
        worker.wire(policy(str(path)))
