"""One module per kind, each with its adapters by kind and op: functions from a case's input to a value
shaped like its `expect`.
"""

from tests.conformance.kinds import (
    charset,
    dedup,
    dedup_seen,
    dedup_store,
    http,
    http_fetch,
    links,
    recrawl,
    recrawl_asking,
    robots,
    sitemap,
    trap,
    trap_site,
    url,
)
from tests.conformance.kinds.adapter import Adapters

ADAPTERS: Adapters = {
    name: adapter
    for module in (
        robots,
        url,
        sitemap,
        charset,
        links,
        http,
        http_fetch,
        dedup,
        dedup_seen,
        dedup_store,
        trap,
        trap_site,
        recrawl,
        recrawl_asking,
    )
    for name, adapter in module.ADAPTERS.items()
}
