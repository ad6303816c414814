"""What understanding a page costs: CPU time over that of the bare parse of the same pages by the same parser.

From the body as it came to the columns of `pages` and `links`, with the product's own functions: charset, markup check,
parse, elements, links with their hashes, text in blocks, hashes, the host's template, fingerprints of the main text.
The whole is measured in one go, as a worker does it; the parts one by one, so that they need not add up exactly.
The bare parse is of UTF-8 by lexbor without mutation events, the quickest it can do. CPU time of the process, all its
threads, best of several runs in turns.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from bench.figures import report
from crawl_pipeline import describing
from crawl_pipeline.core import charset, elements, fingerprint, markup, references, stripping, templates, text, urls
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.page import Limits
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY
from crawl_pipeline.fetch import reading
from crawl_pipeline.fetch.bodies import Body, ReadPage
from crawl_pipeline.fetch.reading import ReadingRules
from crawl_pipeline.fetch.visits import Target, Visit

TARGET = 2.5
DEBIAN = (
    "/usr/share/doc/python3-doc/html",
    "/usr/share/doc/libboost*-doc/doc/html",
    "/usr/share/doc/libboost*-doc/libs",
)
POLICY = Policy.model_validate({"agent": {"name": "BenchBot", "contact": "https://bench.example/"}})
RULES = ReadingRules(POLICY.agent.name, 64, Limits())
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

Pages = Sequence[tuple[str, bytes]]
Step = tuple[str, Callable[[], object]]


def main() -> None:
    """Measure both corpora."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    corpora = {"debian": debian(options.pages), "generated": generated(options.pages)}
    figures: dict[str, float | None] = {"cpu_ratio_to_parse": None}
    for name, pages in corpora.items():
        if pages:
            figures |= {f"{name}_{of}": value for of, value in measured(name, pages, options.times).items()}
    main_corpus = "debian" if corpora["debian"] else "generated"
    figures["cpu_ratio_to_parse"] = figures[f"{main_corpus}_ratio"]
    report(
        "page", figures, [("cpu_ratio_to_parse", "<=", TARGET)],
        {"corpus": main_corpus, "pages": options.pages, "times": options.times}, as_json=options.json,
    )  # fmt: skip


def debian(count: int) -> Pages:
    """Pages of Debian's documentation, drawn by lot; none where it is not installed."""
    roots = [root for pattern in DEBIAN for root in sorted(Path("/").glob(pattern[1:]))]
    files = sorted({file for root in roots for file in root.rglob("*.html") if file.is_file()})
    chosen = random.Random(7).sample(files, min(count, len(files)))
    return [(f"http://{file.parts[4]}.example{file}", file.read_bytes()) for file in chosen]


def generated(count: int) -> Pages:
    """Pages as content systems make them: scripts, styles, a menu, an article, comments, a foot; some 45 KB each."""
    return [(f"http://site{n % 5}.example/{n}.html", _page(n).encode()) for n in range(count)]


def _page(number: int) -> str:
    chance = random.Random(number)
    words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "ei", "o", "u") for c in ("n", "rt", "ll", "m", "")]

    def prose(count: int) -> str:
        return " ".join(chance.choice(words) for _ in range(count))

    style = "".join(f".c{n}{{margin:{n}px;padding:0 {n}px}}" for n in range(150))
    script = "".join(f"function f{n}(a,b){{return a<b?a:b+{n}}}" for n in range(200))
    menu = "".join(f"<li class='item i{n}'><a href='/section/{n}.html'>Section {n}</a></li>" for n in range(60))
    article = "".join(
        f"<p class='text'>{prose(25)} <a href='/story/{chance.randrange(999)}.html'>{prose(3)}</a> {prose(20)} "
        f"<em>{prose(2)}</em>, {prose(15)}.</p>" for _ in range(14)
    )  # fmt: skip
    comments = "".join(
        f"<div class='comment' id='c{n}'><div class='by'><a rel='nofollow' href='/user/{chance.randrange(99)}'>"
        f"{prose(1)}</a> <time>12:{n:02}</time></div><div class='body'><p>{prose(20)}</p></div></div>"
        for n in range(12)
    )  # fmt: skip
    return f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{prose(5)}</title>
        <link rel="canonical" href="/{number}.html"><style>{style}</style><script>{script}</script></head><body>
        <header><a href="/">The site</a></header><nav><ul>{menu}</ul></nav><main><article><h1>{prose(6)}</h1>{article}
        </article><section>{comments}</section></main><aside><div class="advert">{prose(9)}</div></aside>
        <footer><p>All rights reserved</p><a href="/imprint">Imprint</a></footer><script>{script}</script></body>
        </html>"""


def measured(name: str, pages: Pages, times: int) -> dict[str, float]:
    """Ratios of the whole and of the parts to the bare parse; prints the table."""
    took = best([("bare parse", lambda: [_parsed(body) for _, body in pages]), *whole(pages), *parts(pages)], times)
    bare = took["bare parse"]
    print(f"{name}: {len(pages)} pages of {sum(len(body) for _, body in pages) / len(pages) / 1e3:.1f} KB")
    for part, seconds in took.items():
        print(f"  {part:<34}{seconds / len(pages) * 1e6:>9.0f} µs per page {seconds / bare:>7.2f} × the bare parse")
    return {
        "ratio": (took["read"] + took["describe"]) / bare,
        "read_ratio": took["read"] / bare,
        "ratio_to_default_parse": (took["read"] + took["describe"]) / took["parse with lexbor's defaults"],
        "pages_per_cpu_s": len(pages) / (took["read"] + took["describe"]),
    }


def best(steps: Sequence[Step], times: int) -> dict[str, float]:
    """The least CPU seconds of each, of several turns."""
    took = {name: float("inf") for name, _ in steps}
    for _ in range(times):
        for name, run in steps:
            began = time.process_time()
            run()
            took[name] = min(took[name], time.process_time() - began)
    return took


def whole(pages: Pages) -> list[Step]:
    """What a worker does with pages: reading in its processes, describing in its harvest."""
    visits = [_visit(url, _read(url, body)) for url, body in pages]
    return [
        ("read", lambda: _read_anew(pages)),
        ("describe", lambda: describing.describe(describing.Templates(), visits, CHANGE_FREQUENCY.empty(), POLICY)),
    ]


def parts(pages: Pages) -> list[Step]:
    """The steps of both, one by one."""
    bodies = [body for _, body in pages]
    found = [_read(url, body) for url, body in pages]
    texts = [page.text or "" for page in found]
    blocks, regions = [page.blocks for page in found], [page.regions for page in found]
    known = templates.add(templates.Counts(), [templates.distinct(of) for of in blocks], range(len(blocks)), 10, 0.01)
    mains = stripping.strip(texts, blocks, regions, [known.template()] * len(texts))["main"]
    tags = [markup.starts(body) for body in bodies]
    initials = list(map(markup.initials, bodies, tags))
    marked = list(map(text.marked, bodies, tags, initials))
    trees = [_parsed(body) for body in marked]
    links = [(url, found) for (url, _), found in zip(pages, map(_gathered, trees, bodies, initials), strict=True)]
    return [
        ("parse with lexbor's defaults", lambda: [LexborHTMLParser(body) for body in bodies]),
        ("charset", lambda: [charset.sniff(body, None) for body in bodies]),
        ("markup check", lambda: list(map(_checked, bodies))),
        ("marks of blocks", lambda: list(map(_marked, bodies, tags))),
        ("parse with marks", lambda: [_parsed(body) for body in marked]),
        ("elements", lambda: list(map(_gathered, trees, bodies, initials))),
        ("links, hashed", lambda: _linked(links)),
        ("text in blocks", lambda: [text.blocks_of(tree) for tree in trees]),
        ("hashes of body, text and blocks", lambda: [_hashed(*of) for of in zip(bodies, texts, strict=True)]),
        ("template and main text", lambda: _stripped(texts, blocks, regions)),
        ("fingerprints", lambda: fingerprint.signatures(mains)),
    ]  # fmt: skip


def _parsed(body: bytes) -> LexborHTMLParser:
    return LexborHTMLParser(body, options=LexborDocumentOptions.WO_EVENTS)


def _read(url: str, body: bytes) -> ReadPage:
    page = reading.read(Body(url, "page", body, "text/html"), RULES)
    if isinstance(page, str):
        raise ValueError(f"expected a page that can be read, found {url}: {page}")
    return page


def _read_anew(pages: Pages) -> list[ReadPage]:
    """Read pages by a process that has met none of them."""
    references.forget()
    return [_read(url, body) for url, body in pages]


def _visit(url: str, page: ReadPage) -> Visit:
    return Visit(0, Target(url, urls.url_hash(url), "link", 1, 0, None), "fetched", NOW, page=page)


def _marked(body: bytes, tags: markup.Positions) -> bytes:
    return text.marked(body, tags, markup.initials(body, tags))


def _gathered(tree: LexborHTMLParser, body: bytes, initials: markup.Pairs) -> elements.Found:
    return elements.gather(tree, body, initials, "benchbot", RULES.limits.links)


def _checked(body: bytes) -> None:
    markup.check(body, markup.starts(body))


def _linked(links: Sequence[tuple[str, elements.Found]]) -> None:
    references.forget()
    for url, found in links:
        resolve = references.resolver(url, "utf-8")
        places = [place for href in found.hrefs if (place := resolve(href))]
        count = len(places)
        reading.columns(places, ("link",) * count, (False,) * count, 64)


def _hashed(body: bytes, words: str) -> object:
    return content_hash(body), urls.hash64(words), templates.hashes(words), reading.words(words)


def _stripped(texts: Sequence[str], blocks: Sequence[bytes], regions: Sequence[bytes]) -> pl.DataFrame:
    pages = [templates.distinct(of) for of in blocks]
    counts = templates.add(templates.Counts(), pages, range(len(pages)), 10, 0.01)
    return stripping.strip(texts, blocks, regions, [counts.template()] * len(texts))


if __name__ == "__main__":
    main()
