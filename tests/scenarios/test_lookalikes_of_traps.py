"""Good sites that look like traps lose no page to what is done about traps; nor does what a person asks for."""

import polars as pl
from crawls import Crawl, policy

from crawl_pipeline import ordering
from crawl_pipeline.core import traps
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.shapes import calendar
from crawl_pipeline.testing.sites import Answer, Request, below, not_found, prose, robots, tree
from crawl_pipeline.testing.trap_web import html as page
from tests.effort import long

DAYS, NUMBERS, LISTS, VERSIONS = 28, 28, 28, 3
NAMES = [f"{a}{b}-part" for a in ("alpha", "beta") for b in ("one", "two", "three", "four", "five", "six")]
COLOURS, SIZES, BRANDS = ("red", "green", "blue"), ("s", "m"), ("acme", "bolt")


def archive() -> dict[str, Answer]:
    """A day after the other, with a text of its own beside what all days share, the way an endless calendar leads."""
    shared = prose("archive of days", 80)
    days = [f"/{2019 + n // 12}/{1 + n % 12:02}/{1 + n % 28:02}/" for n in range(DAYS)]
    found = {"/": page("Archive", [days[0]], prose("archive"))}
    for n, day in enumerate(days):
        around = [days[at] for at in (n - 1, n + 1) if 0 <= at < DAYS]
        found[day] = page("Day", around, f"{shared} {prose(day, 45)}")
    return found


def numbered() -> dict[str, Answer]:
    """Documents that are known by numbers, each of which leads to the next."""
    found = {"/": page("Documents", ["/doc/1"], prose("documents"))}
    return found | {
        f"/doc/{n}": page(f"Document {n}", [f"/doc/{n + 1}"] if n < NUMBERS else [], prose(f"document {n}", 70))
        for n in range(1, NUMBERS + 1)
    }


def paged() -> dict[str, Answer]:
    """A list over very many pages, of which each shares most of its text with all others."""
    shared = prose("list", 100)
    found = {"/": page("List", ["/list?page=1"], prose("front"))}
    return found | {
        f"/list?page={n}": page("List", [f"/list?page={n + 1}"] if n < LISTS else [], f"{shared} {prose(f'l{n}', 45)}")
        for n in range(1, LISTS + 1)
    }


def versions() -> dict[str, Answer]:
    """A manual once per version; two pages in three say the same in all of them."""
    found = {"/": page("Manual", [f"/v1.{v}/" for v in range(VERSIONS)], prose("manual"))}
    for v in range(VERSIONS):
        names = [f"/v1.{v}/api/{name}.html" for name in NAMES]
        found[f"/v1.{v}/"] = page(f"Version 1.{v}", names, prose(f"version {v}", 40))
        for n, name in enumerate(names):
            own = prose(f"{NAMES[n]} {v if n % 3 == 0 else 0}", 80)
            found[name] = page(NAMES[n], [f"/v1.{v}/", *names[n + 1 : n + 3]], own)
    return found


def shop() -> dict[str, Answer]:
    """Goods, and lists of them by every choice of three facets, each another list; the last ones hold one thing."""
    goods = [(c, s, b) for c in COLOURS for s in SIZES for b in BRANDS]
    found = {f"/goods/{'-'.join(one)}": page("-".join(one), ["/list"], prose("-".join(one), 60)) for one in goods}
    for c in ("", *COLOURS):
        for s in ("", *SIZES):
            for b in ("", *BRANDS):
                fits = [
                    one for one in goods if all(want in ("", has) for want, has in zip((c, s, b), one, strict=True))
                ]
                told = " ".join(prose(f"{'-'.join(one)} teaser", 12) for one in fits)
                more = [_list(c, s, x) for x in BRANDS] if not b else []
                more += [_list(c, x, b) for x in SIZES] if not s else []
                more += [_list(x, s, b) for x in COLOURS] if not c else []
                found[_list(c, s, b)] = page("Goods", [f"/goods/{'-'.join(one)}" for one in fits] + more, told)
    found["/"] = page("Shop", ["/list"], prose("shop"))
    return found


def _list(colour: str, size: str, brand: str) -> str:
    chosen = [f"{k}={v}" for k, v in (("colour", colour), ("size", size), ("brand", brand)) if v]
    return f"/list?{'&'.join(chosen)}" if chosen else "/list"


SITES = {"archive": archive(), "numbered": numbered(), "paged": paged(), "versions": versions(), "shop": shop()}


def _host(name: str, pages: dict[str, Answer]) -> Host:
    def answer(request: Request) -> Answer:
        return pages.get(request.target) or not_found(request)

    return Host(f"{name}.test", robots(answer, ""))


@long
def test_good_sites_that_look_like_traps_are_crawled_whole_and_what_people_ask_for_too(tmp_path):
    trap = Host("cal.test", robots(below("/cal", calendar("/cal"), tree(3, {"/": ["/cal"]})), ""))
    crawl = Crawl(tmp_path, trap, *(_host(*site) for site in SITES.items()), rules=policy(scope={"depth": 200}))
    crawl.seed("http://cal.test/", *(f"http://{name}.test/" for name in SITES)).work(seconds=1_500)

    for name, pages in SITES.items():
        assert set(pages) - set(crawl.asked(f"{name}.test")) == set(), name
    acted = crawl.rows("patterns").filter(pl.col("action").is_in([traps.BLOCKED, "dropped"]))
    assert set(acted["host"]) == {"cal.test"}

    # What a person seeds is asked for, wherever it lies; what it leads to is not.
    ordering.seed(crawl.lake, ["http://cal.test/cal/3000/7"], tag=None, now=crawl.run(_now(crawl)))
    crawl.work(seconds=200)

    asked = crawl.asked("cal.test")
    assert "/cal/3000/7" in asked
    assert len(asked) <= 55
    crawl.check()


def _now(crawl: Crawl):
    async def now():
        return crawl.now

    return now
