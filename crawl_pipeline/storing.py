"""What is kept of the pages of a round: a row of `pages` for each, and a row of `contents` for each new body.

Files are no pages: their bodies are contents too, where a module that told something of them keeps bodies.

Pure: visits and what is known of their contents in, frames out.

Invariant: a page whose content is kept names the round that stored it, which is this round, where the row is among
those given back, or a committed one. A page that asks not to be kept names none, though others may have its content.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from crawl_pipeline.contents import Stored
from crawl_pipeline.core import fingerprint, urls, usage
from crawl_pipeline.core.contents import Key
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CONTENTS, PAGES
from crawl_pipeline.fetch.bodies import ReadPage
from crawl_pipeline.fetch.visits import Request, Visit, first

_Read = tuple[Visit, ReadPage, Request]


def pages(
    visits: Sequence[Visit], described: pl.DataFrame, stored: Stored, round_: int, policy: Policy
) -> pl.DataFrame:
    """Rows of `pages`: all that was read, but for body and text; described: what core says of the texts, by URL."""
    read = [one for one in _read(visits) if not one[1].is_file]
    kept = [_kept(page, request, policy) for _, page, request in read]
    rounds = [stored.get(key(page), round_) if keep else None for (_, page, _), keep in zip(read, kept, strict=True)]
    rows = [_page(*one) | {"content_round": number} for one, number in zip(read, rounds, strict=True)]
    known = PAGES.frame(rows).select(pl.exclude(set(described.columns) - {"url_hash"}))
    found = known.join(described, on="url_hash", how="left", maintain_order="left")
    # Of a text that may not be kept there are no fingerprints either.
    marks = pl.when(pl.Series(kept, dtype=pl.Boolean)).then(pl.col(list(fingerprint.SCHEMA)))
    return PAGES.frame(found.with_columns(marks))


def contents(visits: Sequence[Visit], stored: Stored, policy: Policy, keepers: frozenset[str]) -> pl.DataFrame:
    """Rows of `contents`: bodies that are new, each once; those of a host together, since they are alike.

    keepers: modules that keep the bodies of files.
    """
    new = {
        key(page): (visit, page, request)
        for visit, page, request in sorted(_read(visits), key=lambda read: (urls.host(read[0].target.url),
                                                                            read[0].target.url), reverse=True)
        if _kept(page, request, policy) and key(page) not in stored and (not page.is_file or _wanted(page, keepers))
    }  # fmt: skip
    return CONTENTS.frame([_content(*read) for read in reversed(new.values())])


def _read(visits: Sequence[Visit]) -> Iterator[_Read]:
    """Visits that read a page; a sitemap is read for its links and has no body hash."""
    for visit in visits:
        if visit.page is not None and visit.page.body_hash is not None:
            assert visit.request is not None
            yield visit, visit.page, visit.request


def key(page: ReadPage) -> Key:
    """What names a page's content, or a file's."""
    return page.body_hash or b"", page.charset or ""


def _wanted(page: ReadPage, keepers: frozenset[str]) -> bool:
    return any(told.module in keepers and told.rows is not None and told.rows.height for told in page.told)


def _kept(page: ReadPage, request: Request, policy: Policy) -> bool:
    training = policy.scope.no_training == "record" or not usage.forbids_training(request.usage)
    return training and not (page.noindex and policy.scope.noindex)


def _page(visit: Visit, page: ReadPage, request: Request) -> dict[str, object]:
    return {
        "bucket": visit.bucket, "month": _month(visit), "url": visit.target.url, "url_hash": visit.target.url_hash,
        "host": urls.host(visit.target.url), "fetched_at": visit.ended_at,
        "content_type": first(request.exchange, "content-type"), "charset": page.charset, "title": page.title,
        "lang": page.lang, "word_count": page.word_count, "text_hash": page.text_hash, "body_hash": page.body_hash,
        "body_bytes": len(request.exchange.body), "link_count": len(page.links.urls),
        "canonical_url": page.canonical_url, "noindex": page.noindex, "nofollow": page.nofollow,
        "robots_directives": page.robots_directives, "usage": request.usage, "tag": visit.target.tag,
    }  # fmt: skip


def _content(visit: Visit, page: ReadPage, request: Request) -> dict[str, object]:
    return {
        "bucket": visit.bucket, "month": _month(visit), "body_hash": page.body_hash, "charset": page.charset,
        "body_bytes": len(request.exchange.body), "body": request.exchange.body, "text": page.text,
    }  # fmt: skip


def _month(visit: Visit) -> str:
    return visit.ended_at.strftime("%Y-%m")
