"""Webs to crawl without the internet: in memory for tests, on loopback for the demo, real for benches.

`sites` says what a site is; `shapes` has the hostile ones; `memory_web` and `loopback_web` serve any of
them; `pydoc_web` is the demo's web of real pages; `site_farm` serves Debian's documentation with nginx;
`truth` says what a crawl must fetch.
"""

from crawl_pipeline.testing.memory_web import FakeWeb
from crawl_pipeline.testing.sites import Answer, Host, Request, Site, Trap, Web, site

__all__ = ["Answer", "FakeWeb", "Host", "Request", "Site", "Trap", "Web", "site"]
