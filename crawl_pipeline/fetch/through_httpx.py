"""Ask through a transport that somebody else brought: httpx's own, a proxy's, or one in memory for tests.

The response is read raw; httpx's decoding is never used, because it knows no limits. The target goes byte for
byte, and hosts that httpx refuses still reach transports that look at the true URL. Whatever such a transport
raises is given a failure code here, in one table. The row is written by `exchange`, as always.
"""

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping

import httpx
import trio

from crawl_pipeline.fetch.connection import place
from crawl_pipeline.fetch.turns import Turn
from crawl_pipeline.fetch.wire import Headers

# What an exception means, the first match along its chain of causes wins; anything else is a protocol error.
FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "dns_error"),
    (ssl.SSLError, "tls_error"),
    (httpx.TimeoutException, "timeout"),
    (trio.TooSlowError, "timeout"),
    (httpx.ConnectError, "connect_error"),
    (httpx.ReadError, "truncated"),
    (httpx.WriteError, "connect_error"),
    (httpx.ProxyError, "connect_error"),
    (httpx.DecodingError, "decode_error"),
    (ConnectionError, "connect_error"),
)


class HttpxAnswer:
    """An httpx response read raw: its own decoding is never used, it knows no limits."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Headers = tuple(
            (name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw
        )
        self.address: str | None = response.extensions.get("address")
        self.wire_bytes = 0
        self._response = response
        self._pieces: AsyncIterator[bytes] | None = None

    async def piece(self) -> bytes | None:
        if self._pieces is None:
            assert isinstance(self._response.stream, httpx.AsyncByteStream)
            self._pieces = aiter(self._response.stream)
        data = await anext(self._pieces, None)
        self.wire_bytes += len(data or b"")
        return data

    async def close(self) -> None:
        """Close without waiting: what a cancelled request leaves behind must not hold up the round."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
            if isinstance(self._pieces, AsyncGenerator):
                await self._pieces.aclose()
            await self._response.aclose()


async def ask(
    transport: httpx.AsyncBaseTransport,
    url: str,
    turn: Turn,
    headers: Iterable[tuple[str, str]],
    *,
    method: str,
    waits: Mapping[str, float],
) -> HttpxAnswer:
    """Send one request; `waits` are httpx's own timeouts in seconds, for transports that heed them.

    A transport that has a method `addresses` tells where a host is, so that the turn at its address can be waited for.
    """
    to = place(url)
    addresses = getattr(transport, "addresses", None)
    for address in (await addresses(to.host))[:1] if addresses else ():
        await turn(address)
    request = httpx.Request(
        method,
        _httpx_url(url),
        headers=[("Host", to.authority), *headers],
        extensions={"target": to.target.encode("ascii"), "url": url, "timeout": dict(waits)},
    )
    return HttpxAnswer(await transport.handle_async_request(request))


def failure_of(trouble: Exception) -> tuple[str, str]:
    """Name the failure of a transport that is not ours."""
    chain: list[BaseException] = [trouble]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    reason = f"{type(trouble).__name__}: {trouble}"[:300]
    for kind, failure in FAILURES:
        if any(isinstance(one, kind) for one in chain):
            return failure, reason
    return ("truncated" if "peer closed connection" in reason else "protocol_error"), reason


def _httpx_url(url: str) -> httpx.URL:
    """Give httpx a URL it takes; the true one travels in the extensions, and its target byte for byte.

    httpx refuses some hosts that exist (symbols, as xn--n3h) and very long URLs. A transport that reads
    request.extensions["url"] still serves them; one that does not, fails to resolve the reserved name (RFC
    2606 2).
    """
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return httpx.URL(scheme=place(url).origin.partition(":")[0], host="not-for-httpx.invalid", path="/")
