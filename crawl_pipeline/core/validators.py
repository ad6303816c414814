"""Which validators of an answer may be sent back when its page is visited again, and whose are not believed.

What is not fit to be sent is not kept, so a stored validator can be sent as it stands: one line of a header field,
within MOST characters. A share of the visits is drawn to go without, so that a host whose validators stay while its
text changes is found out. An answer that would have been a 304 then is a check; if its text differs, the validators
have lied. They are held back from a host while it is almost certain that more than LIES of its 304s are false; then
every visit is a check, and honest ones lift that.

Invariant: who sends no validator that lied is never held back from.
"""

import re
from datetime import datetime, timedelta
from math import comb

import polars as pl

from crawl_pipeline.core import selection
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.retry_after import http_date

LIES = 0.05
"""The share of false 304s that is put up with, and the doubt: 5 %, one-sided."""
REMEMBERED = 40
"""Checks of a host after which both counts are halved, so that new ways are noticed."""
_STREAM = 0x56414C  # other numbers than those that selection draws of the same hashes and seed
_FRESH = timedelta(seconds=60)  # RFC 7232 2.2.2: a date so near to the answer is a weak validator

MOST = 1_000
"""Characters of an entity tag: it is kept per page and sent with every request, and nothing says how long it may be."""

# RFC 9110 8.8.3 asks for quotes; many a server leaves them out and compares what it gets with what it gave. It allows
# bytes beyond ASCII, which not every program on the way passes on: a page asked for without condition is the safe side.
_ETAG = re.compile(rf"[\x21-\x7e](?:[\x20-\x7e]{{0,{MOST - 2}}}[\x21-\x7e])?")


def sendable(etag: str | None, last_modified: str | None, now: datetime) -> tuple[str | None, str | None]:
    """Give the entity tag and the date if they can be sent as If-None-Match and If-Modified-Since.

    A tag is printable ASCII (a control character could end the field); a date is one of RFC 9110 5.6.7 that lay more
    than a minute back when the answer ended, at `now`.
    """
    tag = etag if etag and _ETAG.fullmatch(etag) else None
    said = http_date(last_modified, now) if last_modified else None
    # Many a server says of every page that it was modified just now: that is the time of the answer, no validator.
    # To a date yet to come some servers always say 304 (nothing was modified since).
    return tag, last_modified if said and said < now - _FRESH else None


def held_back(listed: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, seed: int) -> pl.Series:
    """Say why the known validators of each URL are not sent: `caught`, `sample`, or null where they are.

    listed: url_hash, host, etag, last_modified; hosts: host, validators_checked, validators_lied.
    """
    counts = hosts.select("host", pl.col("validators_checked", "validators_lied").fill_null(0)).iter_rows()
    liars = [host for host, checked, lied in counts if is_caught(checked, lied)]
    draw = pl.Series("draw", selection.uniform(listed["url_hash"].to_numpy(), seed ^ _STREAM))
    has_any = pl.any_horizontal(pl.col("etag", "last_modified").is_not_null())
    why = pl.when(pl.col("host").is_in(liars)).then(pl.lit("caught")).when(draw <= policy.fetch.unconditional).then(
        pl.lit("sample")
    )  # fmt: skip
    return listed.select(held_back=pl.when(has_any & policy.fetch.conditional).then(why)).to_series()


def is_caught(checked: int, lied: int) -> bool:
    """Whether the 5 % lower bound of the share of lies is above LIES.

    With an even prior the posterior is Beta(lied + 1, checked - lied + 1), whose tail is a binomial one: of
    checked + 1 draws more than `lied` succeed.
    """
    draws = checked + 1
    tail = sum(comb(draws, k) * LIES**k * (1 - LIES) ** (draws - k) for k in range(lied + 1, draws + 1))
    return lied > 0 and tail <= 0.05


def same(after: str = "", before: str = "_before") -> pl.Expr:
    """Whether an answer would have been a 304: the tag decides, the date where there is none (RFC 9110 13.2.2)."""
    tag, date = (pl.col(f"{name}{after}").eq_missing(pl.col(f"{name}{before}")) for name in ("etag", "last_modified"))
    has_tag, has_date = (pl.col(f"{name}{before}").is_not_null() for name in ("etag", "last_modified"))
    return pl.when(has_tag).then(tag).otherwise(has_date & date)


def checks(visits: pl.DataFrame, before: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Count per host the checks among visits, and the lies among those.

    visits: url_hash, host, outcome, held_back, text_hash, alike, etag, last_modified;
    before: rows of `change_frequency`.
    """
    was = before.select("url_hash", pl.col("text_hash", "etag", "last_modified").name.suffix("_before"))
    asked = visits.filter((pl.col("outcome") == "fetched") & pl.col("held_back").is_not_null())
    checked = asked.join(was, on="url_hash").filter(same())
    lied = ((pl.col("text_hash") != pl.col("text_hash_before")) & ~pl.col("alike").fill_null(value=False)).sum()
    counts = checked.group_by("host").agg(checked=pl.len().cast(pl.Int64), lied=lied.cast(pl.Int64))
    return {host: (checked, lied) for host, checked, lied in counts.iter_rows()}


def counted(checked: int, lied: int, more: tuple[int, int]) -> tuple[int, int]:
    """The counts of a host after more checks."""
    checked, lied = checked + more[0], lied + more[1]
    return (checked, lied) if checked < REMEMBERED else (checked // 2, lied // 2)
