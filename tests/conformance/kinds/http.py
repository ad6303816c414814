"""HTTP: the rules that need no connection."""

from crawl_pipeline.core.addresses import all_allowed, allowed
from crawl_pipeline.core.retry_after import retry_after_s
from crawl_pipeline.core.urls import NotCrawlable, canonical, host
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, moment


def _host_check(given: Input) -> dict[str, Json]:
    try:
        return {"allowed": all_allowed(host(canonical(given["url"])), given["dns"])}
    except NotCrawlable:
        return {"allowed": False}


ADAPTERS: Adapters = {
    ("http", "retry_after"): lambda given: {"delay_s": retry_after_s(given["value"], moment(given["now"]))},
    ("http", "address"): lambda given: {"allowed": allowed(given["ip"])},
    ("http", "host_check"): _host_check,
}
