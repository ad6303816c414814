"""One module per kind, each with its adapters by kind and op: functions from a case's input to a value
shaped like its `expect`.
"""

from tests.conformance.kinds import charset, dedup, http, links, recrawl, robots, sitemap, trap, url
from tests.conformance.kinds.adapter import Adapters

ADAPTERS: Adapters = {
    name: adapter
    for module in (robots, url, sitemap, charset, links, http, dedup, trap, recrawl)
    for name, adapter in module.ADAPTERS.items()
}
