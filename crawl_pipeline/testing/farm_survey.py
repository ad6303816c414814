"""Which pages of a farm links lead to, found in the files themselves: no HTTP, nothing of the crawler's.

The survey does by rules what nginx does by configuration: the owner of a folder answers for it, others
redirect there.
"""

import re
from collections import deque
from dataclasses import dataclass
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from crawl_pipeline.testing.site_farm import Farm, host_name
from crawl_pipeline.testing.truth import links

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Survey:
    """The URLs that links lead to from the seeds, by what the farm answers."""

    pages: frozenset[str]  # 200, HTML
    redirected: frozenset[str]  # 301: to the owner, or to the folder with its slash
    missing: frozenset[str]  # 404, or 403 for a folder without an index
    others: frozenset[str]  # 200, but not HTML


def reachable(farm: Farm) -> set[str]:
    """The pages reachable by links from the seeds."""
    return set(survey(farm).pages)


def survey(farm: Farm) -> Survey:
    """Follow a[href], area[href], frame[src] and iframe[src] through the files; the copies are alike."""
    found: dict[str, set[str]] = {"pages": set(), "redirected": set(), "missing": set(), "others": set()}
    for family in farm.trees:
        for kind, urls in _walk(farm, family).items():
            for copy in range(farm.copies):
                found[kind] |= {f"http://{_copied(farm, url, copy)}" for url in urls}
    return Survey(**{kind: frozenset(urls) for kind, urls in found.items()})


def _copied(farm: Farm, url: str, copy: int) -> str:
    label, _, rest = url.removeprefix("http://").partition(".test")
    return host_name(label, copy) + rest


def _walk(farm: Farm, family: str) -> dict[str, set[str]]:
    start = farm.url(family, 0, "/")
    seen, queue = {start}, deque([start])
    found: dict[str, set[str]] = {"pages": set(), "redirected": set(), "missing": set(), "others": set()}
    ours = {f"{label}.test" for label in farm.labels}
    while queue:
        url = queue.popleft()
        kind, leads = _look(farm, family, url)
        found[kind].add(url)
        for target in dict.fromkeys(_join(url, href) for href in dict.fromkeys(leads)):
            if target not in seen and _host(target) in ours:
                seen.add(target)
                queue.append(target)
    return found


def _look(farm: Farm, family: str, url: str) -> tuple[str, list[str]]:
    """What the farm answers to a URL, and where that leads."""
    split = urlsplit(url)
    path = unquote(split.path)
    owner, query = farm.owner(family, path), f"?{split.query}" if split.query else ""
    if f"{owner}.test" != split.hostname:
        return "redirected", [farm.url(owner, 0, split.path + query)]
    file = farm.trees[family] / path.lstrip("/")
    if file.is_dir() and not path.endswith("/"):
        return "redirected", [split.path + "/" + query]
    file = file / "index.html" if path.endswith("/") else file
    if not file.is_file():
        return "missing", []
    if file.suffix not in (".html", ".htm"):  # "/.html" has none, for nginx too
        return "others", []
    return "pages", links(file.read_bytes())


def _join(base: str, href: str) -> str:
    """An absolute URL in one spelling; the empty text for what is none."""
    try:
        split = urlsplit(urldefrag(urljoin(base, href.strip())).url)
    except ValueError:
        return ""
    if _STRAY_PERCENT.search(split.path):
        return ""  # sent as it stands (WHATWG URL keeps it), and nginx answers 400
    path = quote(unquote(split.path or "/"), safe="/:@!$&'()*+,;=~-._")
    return split._replace(path=path).geturl()


def _host(url: str) -> str:
    split = urlsplit(url)
    return (split.hostname or "") if split.scheme == "http" else ""
