"""A farm of real documents that nobody here wrote: Debian's documentation, served by nginx.

Each library's folder is a host of its own with a loopback address of its own; a link that leaves the
folder is redirected to the host that owns it. More hosts are made by serving the same files again under
other names. The files are read where Debian installed them and are never changed. `farm_survey` says
which pages a crawl must reach.

    python -m crawl_pipeline.testing.site_farm --hosts 50 --port 0 --folder DIR --ready FILE
"""

import argparse
import json
import math
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawl_pipeline.testing.access_log import Row
from crawl_pipeline.testing.loopback import addresses, announce, free_port

DOCS = {  # family -> where Debian keeps its documentation; the first that is there
    "boost": ("/usr/share/doc/libboost*-doc/doc/html", "/usr/share/doc/libboost*-doc/HTML/doc/html"),
    "python": ("/usr/share/doc/python3-doc/html",),
}
NGINX = ("nginx", "/usr/sbin/nginx")
NETWORK = 2  # 127.2.x.y; the loopback web has 127.1.x.y
INSTALL = "run bench/corpus.sh (it installs Debian's python3-doc, libboost-doc and nginx-light)"


class FarmMissing(RuntimeError):
    """nginx or the documents are not installed, or nginx does not start; says what to run."""


@dataclass(frozen=True, slots=True)
class Farm:
    """Hosts over document trees, and where they are served."""

    trees: Mapping[str, Path]  # family -> root of its documents
    owners: Mapping[str, Mapping[str, str]]  # family -> folder name -> label of the host that owns it
    copies: int
    port: int
    folder: Path  # nginx's own files

    @property
    def labels(self) -> list[str]:
        """Host names without the copy's number and without .test, a family's own name first."""
        return [label for family, own in self.owners.items() for label in dict.fromkeys([family, *own.values()])]

    @property
    def names(self) -> list[str]:
        return [host_name(label, copy) for copy in range(self.copies) for label in self.labels]

    @property
    def hosts(self) -> dict[str, list[str]]:
        return addresses(self.names, NETWORK)

    @property
    def seeds(self) -> list[str]:
        """The front page of every family's every copy: all else is found by links."""
        return [self.url(family, copy, "/") for copy in range(self.copies) for family in self.trees]

    @property
    def log(self) -> Path:
        return self.folder / "access.log"

    def url(self, label: str, copy: int, path: str) -> str:
        return f"http://{host_name(label, copy)}{'' if self.port == 80 else f':{self.port}'}{path}"

    def owner(self, family: str, path: str) -> str:
        """The label of the host that owns a path."""
        folder = re.match(r"/(?:boost/)?([^/]+)/", path) or re.match(r"/([^/]+)/", path)
        return self.owners[family].get(folder[1], family) if folder else family

    def ready(self) -> dict[str, Any]:
        """What a crawler needs to know, as JSON."""
        return {"port": self.port, "seeds": self.seeds, "hosts": self.hosts, "log": str(self.log)}


def host_name(label: str, copy: int) -> str:
    """boost-units.test, and boost-units-2.test for the first copy beside the original."""
    return f"{label}-{copy + 1}.test" if copy else f"{label}.test"


def farm(folder: Path, *, hosts: int = 50, port: int = 0, docs: Mapping[str, tuple[str, ...]] = DOCS) -> Farm:
    """Plan a farm of at least so many hosts: whole copies of all documents."""
    trees = {family: _tree(family, patterns) for family, patterns in docs.items()}
    owners = {family: _owners(family, tree) for family, tree in trees.items()}
    one = Farm(trees, owners, 1, 0, folder)
    copies = max(1, math.ceil(hosts / len(one.names)))
    names = Farm(trees, owners, copies, 0, folder).names
    return Farm(trees, owners, copies, free_port(addresses(names, NETWORK), port), folder.resolve())


def _tree(family: str, patterns: tuple[str, ...]) -> Path:
    for pattern in patterns:
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            return found.resolve()
    places = " or ".join(patterns)
    raise FarmMissing(f"expected the {family} documentation in {places}, found nothing; {INSTALL}")


def _owners(family: str, tree: Path) -> dict[str, str]:
    """Folder name -> label; Boost keeps a library's guide in one folder and its reference in another."""
    folders = [tree, *([tree / "boost"] if family == "boost" else [])]
    found = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir()]
    with_pages = [path.name for path in found if path != tree / "boost" and any(path.rglob("*.html"))]
    return {name: f"{family}-{_label(name)}" for name in with_pages}


def _label(folder: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.lower().removeprefix("boost_")).strip("-")


# nginx.

CONF = """# Written by crawl_pipeline.testing.site_farm; changes are lost.
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  types {{ text/html html htm; text/css css; text/plain txt py; application/javascript js; image/png png; }}
  default_type application/octet-stream;
  charset utf-8;
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  log_format row escape=json '{{"host":"$host","path":"$request_uri","ended":$msec,"took":$request_time,'
    '"status":$status,"bytes":$body_bytes_sent,"user_agent":"$http_user_agent",'
    '"client":"$remote_addr:$remote_port","server":"$server_addr:$server_port"}}';
  access_log {folder}/access.log row;
  sendfile on; tcp_nopush on; keepalive_requests 100000; open_file_cache max=20000;
  absolute_redirect off; map_hash_bucket_size 256; map_hash_max_size 8192;
  # Copy 2 of boost-units.test is boost-units-2.test.
  map $host $copy {{ default ""; "~(?<number>-[0-9]+)\\.test$" $number; }}
  map $host $family {{ default python; "~^boost" boost; }}
  map $family $tree {{ {trees} }}
  map $uri $first {{ default ""; "~^/(?:boost/)?(?<inner>[^/]+)/" $inner; }}
  map "$family $first" $owner {{
    default $family;
{owners}
  }}
  server {{
{listens}
    root $tree;
    index index.html;
    location = /robots.txt {{ default_type text/plain; return 200 "User-agent: *\\nDisallow:\\n"; }}
    location / {{
      if ($host != $owner$copy.test) {{ return 301 http://$owner$copy.test:{port}$request_uri; }}
    }}
  }}
}}
"""


def conf(farm: Farm) -> str:
    """nginx's configuration for a farm."""
    pairs = [(family, folder, label) for family, own in farm.owners.items() for folder, label in own.items()]
    return CONF.format(
        folder=farm.folder,
        port=farm.port,
        trees=" ".join(f"{family} {tree};" for family, tree in farm.trees.items()),
        owners="\n".join(f'    "{family} {folder}" {label};' for family, folder, label in pairs),
        listens="\n".join(f"    listen {address}:{farm.port};" for (address,) in farm.hosts.values()),
    )


@contextmanager
def serving(farm: Farm) -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx as a child of this process for as long as the block runs."""
    with nginx(farm.folder, conf(farm), farm.port) as process:
        yield process


@contextmanager
def nginx(folder: Path, text: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx by this configuration, which puts its pid and its logs into the folder."""
    program = next((found for name in NGINX if (found := shutil.which(name))), None)
    if program is None:
        raise FarmMissing(f"expected the program nginx, found none; {INSTALL}")
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    (folder / "nginx.pid").unlink(missing_ok=True)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    if setpriv := shutil.which("setpriv"):  # nginx ends with this process, even when this one is killed
        command = [setpriv, "--pdeathsig", "TERM", *command]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _wait(folder, port, process)
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait(folder: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    """nginx writes its pid once it listens everywhere."""
    for _ in range(200):
        if process.poll() is not None:
            break
        if (folder / "nginx.pid").exists():
            return
        time.sleep(0.05)
    errors = (folder / "error.log").read_text(encoding="utf-8", errors="replace")[-1000:]
    raise FarmMissing(f"expected nginx to serve port {port}, found that it does not: {errors}; try another --port")


def rows(log: Path) -> list[Row]:
    """nginx's access log in the terms of the loopback web's; its clock has milliseconds."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [_row(i, json.loads(line)) for i, line in enumerate(lines, start=1)]


def _row(number: int, line: dict[str, Any]) -> Row:
    ended, took = round(line.pop("ended") * 1e6), round(line.pop("took") * 1e6)
    return Row(id=number, started_at=ended - took, ended_at=ended, **line)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve Debian's documentation with nginx on many loopback hosts.")
    parser.add_argument("--hosts", type=int, default=50, help="at least so many hosts (default 50)")
    parser.add_argument("--port", type=int, default=0, help="port of every host; 0 takes a free one (default)")
    parser.add_argument("--folder", type=Path, required=True, help="folder for nginx's configuration and logs")
    parser.add_argument(
        "--ready", type=Path, help="file for {port, seeds, hosts, log} once all hosts answer; else stdout"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        planned = farm(options.folder, hosts=options.hosts, port=options.port)
        with serving(planned) as process:
            announce(planned.ready(), options.ready)
            process.wait()
    except FarmMissing as trouble:
        raise SystemExit(f"site_farm: {trouble}") from None
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
