"""A farm of plain pages for benches that ask how fast and how steadily: nginx, many loopback hosts, files on disk.

Every host has the same files: a front page that links to all others, and pages of two sizes in turn, so that the size
of a page is known from its number. Each host has an address and a site of its own. The pages are generated from their
numbers; nothing of them is random.
"""

import grp
import itertools
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crawl_pipeline.testing import site_farm
from crawl_pipeline.testing.loopback import addresses, free_port

NETWORK = 3  # 127.3.x.y; the farm of documents has 127.2.x.y
SMALL, LARGE = 2_000, 48_000
"""Bytes of even and of odd pages."""

CONF = """# Written by bench.static_farm; changes are lost.
user {user} {group};
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 8192; }}
http {{
  types {{ text/html html; text/plain txt; }}
  charset utf-8;
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  log_format row escape=json '{{"host":"$host","path":"$request_uri","ended":$msec,"took":$request_time,'
    '"status":$status,"bytes":$body_bytes_sent,"user_agent":"$http_user_agent",'
    '"client":"$remote_addr:$remote_port","server":"$server_addr:$server_port"}}';
  access_log {folder}/access.log row;
  sendfile on; tcp_nopush on; keepalive_requests 1000000; keepalive_timeout 300s; open_file_cache max=20000;
  server {{
{listens}
    root {folder}/pages;
    index index.html;
  }}
}}
"""
WORDS = ("crawl", "polite", "round", "lane", "host", "page", "link", "table", "lake", "frontier", "sieve", "lease")


@dataclass(frozen=True, slots=True)
class StaticFarm:
    """Hosts with pages 1 to `pages`, and where they are served."""

    folder: Path
    hosts: dict[str, list[str]]
    pages: int
    port: int

    @property
    def seeds(self) -> list[str]:
        """Every host's front page."""
        return [f"{self.origin(host)}/" for host in self.hosts]

    @property
    def log(self) -> Path:
        return self.folder / "access.log"

    def origin(self, host: str) -> str:
        return f"http://{host}:{self.port}"

    def paths(self, size: int, count: int) -> list[str]:
        """The paths of the first pages of one size."""
        numbers = [n for n in range(1, self.pages + 1) if size_of(n) == size]
        return [path(n) for n in numbers[:count]]


def path(number: int) -> str:
    return f"/page/{number}.html"


def size_of(number: int) -> int:
    """How many bytes a page has."""
    return LARGE if number % 2 else SMALL


@contextmanager
def served(folder: Path, *, hosts: int, pages: int) -> Iterator[StaticFarm]:
    """Write the pages and serve them while the block runs."""
    names = addresses([f"s{n:04}.test" for n in range(hosts)], NETWORK)
    farm = StaticFarm(folder.resolve(), names, pages, free_port(names, 0))
    (farm.folder / "pages" / "page").mkdir(parents=True)
    (farm.folder / "pages" / "robots.txt").write_text("User-agent: *\nDisallow:\n")
    (farm.folder / "pages" / "index.html").write_text(_html("front", range(1, pages + 1), 0))
    for number in range(1, pages + 1):
        (farm.folder / "pages" / path(number)[1:]).write_text(page(number, pages))
    listens = "\n".join(f"    listen {address}:{farm.port};" for (address,) in names.values())
    # As who wrote the pages: started by root, nginx would read them as nobody.
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    conf = CONF.format(folder=farm.folder, listens=listens, user=user, group=group)
    with site_farm.nginx(farm.folder, conf, farm.port):
        yield farm


def page(number: int, pages: int) -> str:
    """A page of exactly its size: a link to a neighbour for every kilobyte of it, and text."""
    size = size_of(number)
    return _html(str(number), [(number + n) % pages + 1 for n in range(size // 1_000)], size)


def _html(title: str, leads: "range | list[int]", size: int) -> str:
    links = "\n".join(f'<li><a href="{path(n)}">page {n}</a></li>' for n in leads)
    start = (
        f"<!doctype html><html lang=en><head><title>{title}</title></head><body><h1>{title}</h1><ul>\n{links}\n</ul>\n"
    )
    end = "</body></html>\n"
    room = size - len(start) - len(end)
    words = itertools.cycle(WORDS[len(title) :] + WORDS)
    lines = [f"<p>{' '.join(itertools.islice(words, 12))}.</p>\n" for _ in range(max(0, room) // 50)]
    return start + "".join(lines)[: max(0, room - 8)].ljust(max(0, room)) + end
