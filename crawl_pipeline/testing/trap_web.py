"""A web with labels: good sites of eight kinds and fifteen kinds of trap beside them, to judge a crawl by.

Everything is a function of names and numbers, so two webs of one size are alike. Good sites are those that look most
like traps: archives of pages that share most of their text, variants of products that differ in a word, stubs of a
few words, calendars with events, mirrors in other languages. Each trap says by a pattern which URLs are its own.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from itertools import permutations

from crawl_pipeline.testing.sites import Answer, Host, Request, Site, not_found, plain, prose, redirect, robots


@dataclass(frozen=True, slots=True)
class Labelled:
    """A trap: its name, which URLs are its own, and what ends it: `repeats` (its pages are copies), or else."""

    name: str
    pattern: str
    ends_by: str

    def holds(self, url: str) -> bool:
        """Whether a URL is of this trap."""
        return re.match(self.pattern, url) is not None


@dataclass(frozen=True, slots=True)
class LabelledWeb:
    """Hosts, seeds, the URLs of good pages, and the traps."""

    hosts: tuple[Host, ...]
    seeds: tuple[str, ...]
    good: frozenset[str]
    traps: tuple[Labelled, ...]


def web(sites: int = 40, pages: int = 100, *, traps: bool = True, name: str = "good") -> LabelledWeb:
    """So many good sites of about so many pages each; with the traps, or without them. All texts follow from `name`."""
    names = [f"www.{name}{n}.test" for n in range(sites)]
    good = {name: _GOOD[n % len(_GOOD)](name, pages) for n, name in enumerate(names)}
    beside = dict(zip(names, _BESIDE.items(), strict=False)) if traps else {}
    hosts = [_host(name, site, beside.get(name), alone=_ALONE if name == names[0] and traps else {})
             for name, site in good.items()]  # fmt: skip
    urls = frozenset(f"http://{name}{target}" for name, site in good.items() for target in site)
    labels = [_label(kind, host=name) for name, (kind, _) in beside.items()]
    strangers = _strangers() if traps else ([], [])
    return LabelledWeb(
        (*hosts, *strangers[0]), tuple(f"http://{name}/" for name in names), urls, (*labels, *strangers[1])
    )


Pages = Mapping[str, Answer]
"""A good site: its pages by target."""


def _host(name: str, site: Pages, beside: "tuple[str, Site] | None", alone: Mapping[str, str]) -> Host:
    """A good site, with a way from its front page into a trap under its own name, and to strangers."""
    more = [f"/{beside[0]}/"] if beside else []
    more += list(alone.values())

    def answer(request: Request) -> Answer:
        if beside and request.path.lower().startswith(f"/{beside[0]}/"):
            return beside[1](request)
        found = site.get(request.target)
        if found is None:
            return not_found(request)
        return _with_links(found, more) if request.target == "/" else found

    return Host(name, robots(answer, ""))


def _with_links(page: Answer, hrefs: list[str]) -> Answer:
    links = "".join(f'<a href="{href}">more</a> ' for href in hrefs).encode()
    return replace(page, body=page.body.replace(b"</body>", links + b"</body>"))


def html(title: str, hrefs: list[str], text: str) -> Answer:
    """A page whose links say nothing, so that no text differs by its links alone."""
    links = "".join(f'<a href="{escape(href)}">more</a> ' for href in hrefs)
    page = (
        f"<!DOCTYPE html><html><title>{escape(title)}</title><body><h1>{title}</h1><p>{text}</p>{links}</body></html>"
    )
    return plain(page, content_type="text/html; charset=utf-8")


# Good sites.


def _text(*parts: tuple[str, int]) -> str:
    return " ".join(prose(seed, words) for seed, words in parts)


def _blog(name: str, pages: int) -> Pages:
    """Posts, and an archive whose pages share three quarters of their text."""
    posts = [f"/post/{_slug(name, n)}" for n in range(pages * 4 // 5)]
    archive = [f"/archive/{n}" for n in range(1, 2 + (len(posts) - 1) // 4)]
    shared = _text((f"{name} archive", 150))
    found = {"/": html("Blog", ["/archive/1", *posts[:10]], _text((name, 60)))}
    found |= {post: html(post, ["/", "/archive/1"], _text((name + post, 140))) for post in posts}
    for n, page in enumerate(archive):
        listed = posts[4 * n : 4 * n + 4]
        teasers = _text(*((f"{name}{post} teaser", 15) for post in listed))
        found[page] = html("Archive", [*listed, *archive[n + 1 : n + 2]], f"{shared} {teasers}")
    return found


def _shop(name: str, pages: int) -> Pages:
    """Products in three colours each: a word of the text tells them apart."""
    colours, products = ("red", "blue", "green"), range(pages // 4)
    found = {"/": html("Shop", [f"/range/{n}" for n in range(0, len(products), 10)], _text((name, 40)))}
    for n in range(0, len(products), 10):
        hrefs = [f"/item/{i}?colour={c}" for i in products[n : n + 10] for c in colours]
        found[f"/range/{n}"] = html("Range", hrefs, _text((f"{name} range {n}", 60)))
    for i in products:
        found[f"/item/{i}"] = html("Item", ["/"], _text((f"{name} item {i}", 90)))
        for colour in colours:
            found[f"/item/{i}?colour={colour}"] = html(
                "Item", ["/", f"/item/{i}"], f"{_text((f'{name} item {i} in colours', 120))} {colour}"
            )
    return found


def _reference(name: str, pages: int) -> Pages:
    """Stubs of some dozen words under a common head."""
    head = _text((f"{name} head", 12))
    stubs = [f"/api/{_slug(name, n)}.html" for n in range(pages - 1)]
    found = {"/": html("Reference", stubs, _text((name, 30)))}
    return found | {
        stub: html(f"{_slug(name, n)}", ["/"], f"{head} {_text((name + stub, 14 + n % 30))}")
        for n, stub in enumerate(stubs)
    }


def _mirrors(name: str, pages: int) -> Pages:
    """Three languages; of two one page in six is not translated yet."""
    found = {"/": html("Languages", ["/en/", "/de/", "/fr/"], _text((name, 30)))}
    per = pages // 3 - 1
    for lang in ("en", "de", "fr"):
        paths = [f"/{lang}/{_slug(name, n)}" for n in range(per)]
        found[f"/{lang}/"] = html("Home", paths, _text((name + lang, 50)))
        for n, path in enumerate(paths):
            spoken = "en" if n % 6 == 0 else lang
            found[path] = html("Page", [f"/{lang}/"], _text((f"{name} {spoken} {n}", 120)))
    return found


def _events(name: str, pages: int) -> Pages:
    """A calendar that ends, with events in most of its months, and a page for each event."""
    months = [f"/events/{2000 + n // 12}/{n % 12 + 1}" for n in range(pages // 2)]
    found = {"/": html("Events", [months[len(months) // 2]], _text((name, 40)))}
    for n, month in enumerate(months):
        around = [months[i] for i in (n - 1, n + 1) if 0 <= i < len(months)]
        day = [f"{month}/{1 + n % 28}"] if n % 5 else []
        told = _text((f"{name}{month}", 60)) if n % 5 else "There are no events in this month"
        found[month] = html(f"Month {n % 12 + 1}", [*around, *day], told)
        found |= {to: html("Event", [month], _text((name + to, 90))) for to in day}
    return found


def _forum(name: str, pages: int) -> Pages:
    """Threads of two pages each, and short pages of people."""
    threads = range(pages // 3)
    found = {"/": html("Forum", [f"/thread/{n}" for n in threads], _text((name, 30)))}
    for n in threads:
        found[f"/thread/{n}"] = html(
            "Thread", [f"/thread/{n}?page=2", f"/user/{_slug(name, n)}"], _text((f"{name} thread {n}", 160))
        )
        found[f"/thread/{n}?page=2"] = html("Thread", [f"/thread/{n}"], _text((f"{name} thread {n} 2", 110)))
        found[f"/user/{_slug(name, n)}"] = html("User", ["/"], _text((f"{name} user {n}", 25)))
    return found


def _news(name: str, pages: int) -> Pages:
    """Stories by date, and days that list them under a text that all days share."""
    days = [f"/2026/{1 + n // 28}/{1 + n % 28}" for n in range(pages // 4)]
    shared = _text((f"{name} days", 120))
    found = {"/": html("News", days, _text((name, 50)))}
    for n, day in enumerate(days):
        stories = [f"{day}/{_slug(name, 3 * n + i)}" for i in range(3)]
        found[day] = html("Day", [*stories, "/"], f"{shared} {_text(*((f'{name}{s} lead', 14) for s in stories))}")
        found |= {story: html("Story", [day], _text((name + story, 180))) for story in stories}
    return found


def _wiki(name: str, pages: int) -> Pages:
    """Pages that link to each other, with a table of numbers that differ in nothing but them."""
    titles = [f"/wiki/{_slug(name, n)}" for n in range(pages * 3 // 4)]
    tables = [f"/population/{n}" for n in range(pages // 4)]
    found = {"/": html("Wiki", [*titles[:5], *tables], _text((name, 50)))}
    for n, title in enumerate(titles):
        hrefs = [titles[i] for i in (2 * n + 1, 2 * n + 2, n // 2) if i < len(titles)]
        found[title] = html(title, hrefs, _text((name + title, 150)))
    for n, table in enumerate(tables):
        numbers = " ".join(str(random.Random(f"{name}{n}").randrange(10**6)) for _ in range(30))
        found[table] = html("Population", ["/"], f"{_text((f'{name} population', 20))} {numbers}")
    return found


_GOOD: tuple[Callable[[str, int], Pages], ...] = (
    _blog, _shop, _reference, _mirrors, _events, _forum, _news, _wiki,
)  # fmt: skip


def _slug(name: str, n: int) -> str:
    """A name of three words, of its own for each number."""
    last = "abcdefghij"[n % 10] + "klmnopqrst"[n // 10 % 10] + "uvwxyz"[n // 100 % 6] * (1 + n // 600)
    return "-".join([*prose(f"{name} slug {n}", 2).split(), last])


# Traps under the name of a good site: each answers below /NAME/.

SAID = {name: prose(name, 70) for name in ("facets", "missing", "counter", "case", "order", "now")}


def _calendar(request: Request) -> Answer:
    found = re.fullmatch(r"/calendar/(\d+)/(\d+)/", request.path)
    month = int(found[1]) * 12 + int(found[2]) - 1 if found else 2026 * 12
    hrefs = [f"/calendar/{m // 12}/{m % 12 + 1}/" for m in (month - 1, month + 1)]
    return html(f"{month // 12}-{month % 12 + 1:02}", hrefs, f"No events. {' '.join(map(str, range(1, 31)))}")


def _facets(request: Request) -> Answer:
    """The same things to buy, whatever is chosen, in the order of the clicks."""
    chosen = [pair for pair in request.query.split("&") if pair]
    names = ("colour", "size", "brand", "sort")
    hrefs = ["/facets/list?" + "&".join([*chosen, f"{name}={value}"]) for name in names for value in range(4)]
    return html("Shop", hrefs[: 16 if len(chosen) < 8 else 0], SAID["facets"])


def _session(request: Request) -> Answer:
    """A dozen pages, each under any session."""
    number = re.search(r"/p(\d+)", request.path)
    page = int(number[1]) if number else 0
    session = random.Random(request.target).randrange(16**12)
    hrefs = [f"/session/p{n}?sid={session + n:012x}" for n in range(12)]
    return html("Page", hrefs, _text((f"{request.host} session {page}", 90)))


def _tandem(request: Request) -> Answer:
    return html("Deeper", ["sub/dir/", "sub/"], _text((request.target, 60)))


def _missing(request: Request) -> Answer:
    chance = random.Random(request.target)
    hrefs = [f"/missing/{''.join(chance.choices('abcdefghijklmnopqrstuvwxyz', k=9))}" for _ in range(5)]
    return html("Sorry", hrefs, SAID["missing"])


def _counter(request: Request) -> Answer:
    number = int(request.path.rsplit("/", 1)[1] or 0)
    return html(f"Page {number}", [f"/counter/{number + 1}", f"/counter/{number + 7}"], SAID["counter"])


def _redirects(request: Request) -> Answer:
    number = int(request.path.rsplit("/", 1)[1] or 0)
    return (
        html("Way", [f"/redirects/{n}" for n in range(1, 9)], "")
        if not number
        else redirect(f"/redirects/{number + 10}")
    )


def _drip(request: Request) -> Answer:
    number = int(request.path.rsplit("/", 1)[1] or 0)
    if not number:
        return html("Slow", [f"/drip/{n}" for n in range(1, 30)], "")
    return replace(html("Drip", [f"/drip/{number + 30}"], "drop " * 40), drip_s=20.0, piece_bytes=40)


def _huge(request: Request) -> Answer:
    number = int(request.path.rsplit("/", 1)[1] or 0)
    if not number:
        return html("Huge", [f"/huge/{n}" for n in range(1, 30)], "")
    return html("Huge", [f"/huge/{number + 30}"], "huge " * 100_000)


def _case(request: Request) -> Answer:
    """One page, whatever letters of its name are written large."""
    chance = random.Random(request.target)
    name = "averylongnameofapage"
    hrefs = ["/case/" + "".join(chance.choice((c, c.upper(), f"%{ord(c) - 32:X}")) for c in name) for _ in range(6)]
    return html("Page", hrefs, SAID["case"])


def _order(request: Request) -> Answer:
    """One list, in whatever order its parameters come."""
    chance, every = random.Random(request.target), list(permutations("abcdef"))
    hrefs = ["/order/list?" + "&".join(f"{name}=1" for name in chance.choice(every)) for _ in range(6)]
    return html("List", hrefs, SAID["order"])


def _now(request: Request) -> Answer:
    at = 1_700_000_000 + random.Random(request.target).randrange(10**8)
    return html("Now", [f"/now/?t={at}", f"/now/?t={at + 1}"], f"{SAID['now']} {at}")


_BESIDE: Mapping[str, Site] = {
    "calendar": _calendar, "facets": _facets, "session": _session, "tandem": _tandem, "missing": _missing,
    "counter": _counter, "redirects": _redirects, "drip": _drip, "huge": _huge, "case": _case, "order": _order,
    "now": _now,
}  # fmt: skip
_ENDS = {"tandem": "admission", "redirects": "hops", "drip": "limits", "huge": "limits"}


def _label(kind: str, host: str) -> Labelled:
    return Labelled(kind, rf"(?i)http://{re.escape(host)}/{kind}/", _ENDS.get(kind, "repeats"))


# Traps under names of their own, which nobody vouches for.

FARM, WILD = 400, 1_500
_ALONE = {
    "maze": "http://www.maze.test/",
    "farm": "http://h0.farm.test/",
    "wildcard": "http://x0.wild.test/",
}


def _strangers() -> tuple[list[Host], list[Labelled]]:
    farm = [Host(f"h{n}.farm.test", robots(_farm, "")) for n in range(FARM)]
    wild = [Host(f"x{n}.wild.test", robots(_wild, "")) for n in range(WILD)]
    labels = [
        Labelled("maze", r"http://www\.maze\.test/", "budget"),
        Labelled("farm", r"http://h\d+\.farm\.test/", "budget"),
        Labelled("wildcard", r"http://x\d+\.wild\.test/", "budget"),
    ]
    return [Host("www.maze.test", robots(_maze, "")), *farm, *wild], labels


def _maze(request: Request) -> Answer:
    """Random text and random names: whatever is looked at, it says something new."""
    chance = random.Random(request.target)
    hrefs = ["/" + "/".join(prose(str(chance.random()), 2).split()) + f"/{chance.randrange(10**9):x}" for _ in range(8)]
    return html(prose(request.target, 4), hrefs, _text((f"maze {request.target}", 150)))


def _farm(request: Request) -> Answer:
    number = int(request.host.partition(".")[0][1:])
    hosts = [f"http://h{(number * 7 + n) % FARM}.farm.test/" for n in range(1, 9)]
    return html("Farm", [*hosts, "/about"], _text(("farm", 80)))


def _wild(request: Request) -> Answer:
    chance = random.Random(request.host)
    return html("Wild", [f"http://x{chance.randrange(WILD)}.wild.test/" for _ in range(8)], _text(("wild", 80)))
