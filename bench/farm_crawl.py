"""A crawl of Debian's documentation, served by nginx on many loopback hosts: what the crawl benches share."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from crawl_pipeline import ordering
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import site_farm

POLICY = """
[agent]
name = "BenchCrawler"
contact = "http://bench.test/"
[round]
urls = 50000
[politeness]
delay_s = {delay_s}
download_factor = 0.0
[scope]
follow = "everywhere"
include = ["http://*.test:{port}/*"]
depth = 100
[budget]
path_depth = 30
skip_extensions = ["png", "jpg", "gif", "svg", "css", "js", "ico", "zip", "gz", "pdf", "hpp", "cpp"]
[parse]
seconds = 20.0
[addresses]
allow = ["127.0.0.0/8"]
[resolver]
name_servers = ["127.0.0.1"]
timeout_s = 0.5
[resolver.hosts]
{hosts}
"""


class Served(Protocol):
    """What a crawl must know of a farm."""

    @property
    def hosts(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def seeds(self) -> Sequence[str]: ...
    @property
    def port(self) -> int: ...


@contextmanager
def served(hosts: int) -> Iterator[tuple[site_farm.Farm, Path]]:
    """Serve the farm while the block runs; also give a folder for the crawl."""
    with tempfile.TemporaryDirectory(prefix="crawl-bench-") as folder:
        farm = site_farm.farm(Path(folder) / "farm", hosts=hosts)
        with site_farm.serving(farm):
            yield farm, Path(folder)


def prepared(farm: Served, folder: Path, *, delay_s: float, buckets: int = 16) -> Path:
    """Make a lake with the farm's seeds and a policy; return its folder."""
    root = folder / "lake"
    lake = Lake.create(str(root), buckets)
    hosts = "\n".join(f'"{name}" = ["{addresses[0]}"]' for name, addresses in farm.hosts.items())
    (root / "policy.toml").write_text(POLICY.format(delay_s=delay_s, hosts=hosts, port=farm.port))
    ordering.seed(lake, farm.seeds, tag="farm", by="bench", now=datetime.now(UTC))
    return root
