"""Pages of documentation as `pydoc` renders it: which modules, on which host, and the process that
renders them.

The list of pages is read from the file system without importing anything, so a web of them starts at
once. Rendering imports the modules, so it happens in a process of its own, started by the web's server
and by nobody else, which writes one file per page and stops when its parent has gone. One Python with one
set of packages gives the same bytes every time.

    python -m crawl_pipeline.testing.pydoc_pages FOLDER
"""

import hashlib
import importlib
import importlib.util
import inspect
import io
import os
import pydoc
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import distributions
from pathlib import Path

# Host -> the modules it documents, each with everything below it. A subdomain is a host of the same site.
HOSTS: dict[str, tuple[str, ...]] = {
    "asyncio.test": ("asyncio", "selectors", "select", "asyncore"),
    "email.test": ("email", "mailbox", "smtplib", "poplib", "imaplib", "quopri", "mimetypes"),
    "xml.test": ("xml.etree", "xml.dom", "xml.parsers", "xml"),
    "sax.xml.test": ("xml.sax", "html", "xmlrpc"),
    "json.test": ("json", "csv", "configparser", "tomllib", "plistlib", "netrc"),
    "unittest.test": (
        "unittest",
        "doctest",
        "pdb",
        "bdb",
        "trace",
        "timeit",
        "profile",
        "pstats",
        "cProfile",
    ),
    "importlib.test": ("importlib", "pkgutil", "runpy", "zipimport", "modulefinder", "site", "sysconfig"),
    "multiprocessing.test": ("multiprocessing", "subprocess", "signal"),
    "threads.test": ("concurrent", "threading", "queue", "sched", "contextvars", "_thread", "contextlib"),
    "http.test": ("http", "urllib", "socketserver", "wsgiref", "webbrowser", "ftplib", "cgi"),
    "sockets.test": ("socket", "ssl", "ipaddress", "uuid", "nntplib", "telnetlib"),
    "text.test": (
        "string",
        "re",
        "difflib",
        "textwrap",
        "unicodedata",
        "stringprep",
        "locale",
        "gettext",
        "codecs",
    ),
    "encodings.test": ("encodings",),
    "numbers.test": ("math", "cmath", "decimal", "fractions", "random", "statistics", "numbers"),
    "collections.test": (
        "collections",
        "heapq",
        "bisect",
        "array",
        "weakref",
        "types",
        "copy",
        "enum",
        "graphlib",
    ),
    "functions.test": (
        "functools",
        "itertools",
        "operator",
        "abc",
        "dataclasses",
        "typing",
        "inspect",
        "builtins",
    ),
    "files.test": (
        "pathlib",
        "os",
        "shutil",
        "tempfile",
        "glob",
        "fnmatch",
        "stat",
        "fileinput",
        "filecmp",
        "io",
    ),
    "archives.test": ("zlib", "gzip", "bz2", "lzma", "zipfile", "tarfile", "zstandard", "brotli"),
    "storage.test": ("sqlite3", "dbm", "pickle", "shelve", "marshal", "copyreg", "pickletools"),
    "calendar.test": ("datetime", "calendar", "time", "zoneinfo"),
    "secrets.test": ("hashlib", "hmac", "secrets", "base64", "binascii", "struct", "zlib"),
    "language.test": (
        "ast",
        "dis",
        "tokenize",
        "token",
        "symtable",
        "keyword",
        "opcode",
        "compileall",
        "py_compile",
    ),
    "system.test": (
        "sys",
        "platform",
        "errno",
        "faulthandler",
        "gc",
        "atexit",
        "traceback",
        "warnings",
        "logging",
    ),
    "shell.test": (
        "argparse",
        "optparse",
        "getopt",
        "cmd",
        "shlex",
        "readline",
        "getpass",
        "curses",
        "pty",
        "tty",
    ),
    "ctypes.test": ("ctypes", "mmap", "resource", "fcntl"),
    "lib2to3.test": ("lib2to3", "distutils"),
    "trio.test": ("trio", "outcome", "sniffio"),
    "rich.test": ("rich",),
    "click.test": ("click", "tomlkit"),
    "httpx.test": ("httpx", "httpcore", "h11"),
    "anyio.test": ("anyio",),
    "dns.test": ("dns",),
    "jinja2.test": ("jinja2", "markupsafe"),
    "requests.test": ("requests", "urllib3", "idna", "certifi"),
    "yaml.test": ("yaml",),
    "starlette.test": ("starlette",),
    "uvicorn.test": ("uvicorn",),
    "markdown.test": ("markdown_it", "mdurl"),
    "pygments.test": ("pygments",),
    "selectolax.test": ("selectolax", "protego", "webencodings", "publicsuffixlist"),
}
MAX_PAGES = 32  # of one host, so that none takes much longer than the others at the same crawl delay
SKIP = re.compile(r"(^|\.)(tests?|testing|__main__|__pyinstaller|conftest|vendored|pip|idlelib|antigravity|this)(\.|$)")
MAX_BYTES = 600_000  # a longer page is no page of this web
RFC_HOST = "rfc-editor.test"  # what docstrings cite; this host does not resolve
PORT = "@PORT@"  # stands in a stored page for the port with its colon, or nothing


def modules() -> dict[str, str]:
    """Module name -> the host that documents it, in the order of the hosts."""
    owner: dict[str, str] = {}
    for host, prefixes in HOSTS.items():
        own = dict.fromkeys(name for prefix in prefixes for name in _below(prefix) if name not in owner)
        owner |= dict.fromkeys(list(own)[:MAX_PAGES], host)
    return owner


def _below(name: str) -> Iterator[str]:
    """A module and all below it, found on disk; a package that is not there has none."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return
    folders = [Path(place, *rest) for place in spec.submodule_search_locations or ()]
    yield name
    for folder in folders:
        yield from sorted(f"{name}.{inner}" for inner in _inside(folder) if not SKIP.search(f"{name}.{inner}"))


def _inside(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = inspect.getmodulename(path.name) if path.is_file() else path.name
        if not name or not name.isidentifier() or name == "__init__":
            continue
        if path.is_dir() and not (path / "__init__.py").exists():
            continue
        yield name
        yield from (f"{name}.{inner}" for inner in (_inside(path) if path.is_dir() else ()))


class Renderer(pydoc.HTMLDoc):
    """pydoc's pages without what differs from machine to machine."""

    def filelink(self, url: str, path: str) -> str:
        return self.escape(os.path.basename(path))

    def getdocloc(self, object: object, basedir: str | None = None) -> None:
        return None  # a link to the internet

    def docother(self, object: object, name: str | None = None, mod: str | None = None, *rest: object) -> str:
        """Show plain values only: others hold addresses, paths and the environment."""
        plain = isinstance(object, str | int | float | bool | None) and len(str(object)) < 80
        shown = self.repr(object) if plain and "/" not in str(object) else f"<i>{type(object).__name__}</i>"
        return (f"<strong>{name}</strong> = " if name else "") + shown


HREF = re.compile(r'href="([^"]*)"')


def render(name: str, owner: dict[str, str]) -> bytes:
    """The page of one module; raises whatever importing it raises."""
    module = importlib.import_module(name)
    renderer = Renderer()
    page = renderer.page(pydoc.describe(module), renderer.document(module, name))
    return HREF.sub(lambda found: _link(found[1], owner[name], owner), page).encode("utf-8", "replace")


def _link(href: str, host: str, owner: dict[str, str]) -> str:
    """Point a link of pydoc's to where this web has the page; a link to anywhere else is none."""
    if href.startswith("#") or href == ".":
        return f'href="{href}"'
    if rfc := re.search(r"rfc(\d+)", href):
        return f'href="http://{RFC_HOST}{PORT}/rfc/rfc{rfc[1]}.txt"'
    page, _, fragment = href.partition("#")
    place = owner.get(page.removesuffix(".html"))
    if place is None:
        return ""
    start = "" if place == host else f"http://{place}{PORT}/"
    return f'href="{start}{page}{"#" + fragment if fragment else ""}"'


def digest() -> str:
    """A name for what the pages depend on: this file, the Python and the installed packages."""
    packages = sorted({f"{found.name}=={found.version}" for found in distributions()})
    text = "\n".join([sys.version, Path(__file__).read_text(encoding="utf-8"), *packages])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> None:
    """Render every page that is not there yet, those that somebody waits for (NAME.wanted) first.

    The outcome is NAME.html, or NAME.missing with the reason.
    """
    folder, parent, started = Path(sys.argv[1]), os.getppid(), time.perf_counter()
    warnings.simplefilter("ignore")
    owner = modules()
    left = {name: None for name in _round_robin(owner) if not _there(folder, name)}
    while left and os.getppid() == parent:
        wanted = [path.stem for path in folder.glob("*.wanted") if path.stem in left]
        name = wanted[0] if wanted else next(iter(left))
        _write(folder, name, owner)
        (folder / f"{name}.wanted").unlink(missing_ok=True)
        del left[name]
    print(f"{len(owner)} pages in {time.perf_counter() - started:.1f} s")


def _there(folder: Path, name: str) -> bool:
    return any((folder / f"{name}.{ending}").exists() for ending in ("html", "missing"))


def _round_robin(owner: dict[str, str]) -> list[str]:
    """The first page of every host, then the second: the order a crawl of all hosts wants them in."""
    place: dict[str, int] = {}
    turns = []
    for name, host in owner.items():
        place[host] = place.get(host, -1) + 1
        turns.append((place[host], name))
    return [name for _, name in sorted(turns)]


def _write(folder: Path, name: str, owner: dict[str, str]) -> None:
    ending, body = "html", b""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            body = render(name, owner)
        if len(body) > MAX_BYTES:
            ending, body = "missing", b"too long"
    except BaseException as trouble:  # importing runs anybody's code: SystemExit has been seen
        if isinstance(trouble, KeyboardInterrupt):
            raise
        ending, body = "missing", repr(trouble).encode()
    draft = folder / f"{name}.draft"
    draft.write_bytes(body)
    draft.replace(folder / f"{name}.{ending}")


if __name__ == "__main__":
    main()
