"""HTTP: the rules that need no connection."""

from ipaddress import ip_address

from crawl_pipeline.core.addresses import allowed
from crawl_pipeline.core.retry_after import retry_after_s
from crawl_pipeline.core.urls import NotCrawlable, canonical, host
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, moment


def _host_check(given: Input) -> dict[str, Json]:
    """Judge the host as the transport does: by itself if it is an address, else by every answer of the resolver."""
    try:
        addresses = _addresses(host(canonical(given["url"])).strip("[]"), given["dns"])
    except NotCrawlable:
        return {"allowed": False}
    return {"allowed": bool(addresses) and all(allowed(address) for address in addresses)}


def _addresses(name: str, answers: list[str]) -> list[str]:
    try:
        return [str(ip_address(name))]
    except ValueError:
        return answers


ADAPTERS: Adapters = {
    ("http", "retry_after"): lambda given: {"delay_s": retry_after_s(given["value"], moment(given["now"]))},
    ("http", "address"): lambda given: {"allowed": allowed(given["ip"])},
    ("http", "host_check"): _host_check,
}
