"""No proxy is used unless a policy could say so, which none can: what the environment says is not read."""

import pytest
import trio

from crawl_pipeline import worker
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.exchange import Limits
from tests.fetch.loopback import Loopback
from tests.fetch.test_transport import OK, asker

POLICY = Policy.model_validate({
    "agent": {"name": "ExampleBot", "contact": "https://example.org/"}, "addresses": {"allow": ["127.0.0.0/8"]},
    "resolver": {"hosts": {"h.example": ["127.0.0.1"]}},
})  # fmt: skip


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_proxies_of_the_environment_are_never_asked(monkeypatch, case):
    async def main():
        host, proxy = Loopback({"/": [[{"send": OK}]]}), Loopback({})
        async with trio.open_nursery() as nursery:
            await host.start(nursery)
            await proxy.start(nursery)
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(case(name), proxy.origin)
            transport = worker.wire(POLICY)
            got = await asker(transport)(f"http://h.example:{host.port}/")
            secure = await asker(transport)(f"https://h.example:{host.port}/", Limits(connect_s=0.2))
            await transport.aclose()
            nursery.cancel_scope.cancel()
        return got, secure, host, proxy

    got, secure, host, proxy = trio.run(main)

    assert (got.body, host.targets, host.connections, proxy.connections) == (b"ok", ["/"], 2, 0)
    assert secure.status is None
