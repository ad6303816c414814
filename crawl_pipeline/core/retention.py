"""What has been kept long enough: which rows of a table go by their age, and which pages lose their body.

Pure: times and what is current in, expressions out. Whole months go, each when it has been over for the days that the
policy says, so that files are rewritten once a month and not every day.

Invariant: what a page is now stays while the page is visited, however old its bytes are: a visit that is answered
"not modified" finds it so, and would never bring the body again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core.erasure import keys_of
from crawl_pipeline.core.policy import Retention
from crawl_pipeline.core.tables import CONTENTS, FETCHES, LINKS, MODULE_FAILURES, PAGES, ROBOTS, TABLES, Table

OVERLAP = timedelta(days=3)
"""An answer of robots.txt holds for a day: it stays longer than the requests that it judges."""


def month_before(now: datetime, days: int) -> datetime:
    """The beginning of the month that was under way so many days ago: what is older has been kept long enough."""
    then = now - timedelta(days=days)
    return then.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class Ages:
    """Up to when what goes was last found so; for bodies by class too."""

    bodies: datetime
    pages: datetime
    modules: datetime
    requests: datetime
    links: datetime
    bodies_of: Mapping[str, datetime]

    @classmethod
    def at(cls, now: datetime, policy: Retention) -> "Ages":
        """What has been kept long enough by now."""
        names = ("bodies", "pages", "modules", "requests", "links")
        ages = {name: month_before(now, getattr(policy, f"{name}_days")) for name in names}
        return cls(**ages, bodies_of={name: month_before(now, days) for name, days in policy.bodies_of.items()})

    @property
    def latest(self) -> datetime:
        """Nothing younger than this goes."""
        return max(self.bodies, self.pages, self.modules, self.requests, self.links, *self.bodies_of.values())


@dataclass(frozen=True, slots=True)
class Expired:
    """What goes, as a cut: `current` are versions (url_hash, round) of pages, with the last visit that found them so
    (`seen_at`); `last_round` the last of those whose links go; `topics` the topic of each tag; `orphans` the contents
    (content_round, body_hash, charset) that no page names any more."""

    ages: Ages
    current: pl.DataFrame
    last_round: int
    topics: Mapping[str, str | None]
    orphans: pl.DataFrame

    def gone(self, table: Table) -> pl.Expr:
        """Rows of a table that vanish."""
        by_table = {
            PAGES.name: self._before(self.ages.pages), FETCHES.name: pl.col("started_at") < self.ages.requests,
            ROBOTS.name: pl.col("fetched_at") < self.ages.requests - OVERLAP,
            LINKS.name: pl.col("round") <= self.last_round, CONTENTS.name: self._orphaned(),
            MODULE_FAILURES.name: pl.col("fetched_at") < self.ages.modules,
        }  # fmt: skip
        rest = pl.lit(value=False) if table.name in TABLES else self._before(self.ages.modules)
        return by_table.get(table.name, rest)

    def _orphaned(self) -> pl.Expr:
        named = pl.struct(content_round="round", body_hash="body_hash", charset=pl.col("charset").fill_null(""))
        return named.is_in(self.orphans.to_struct().implode()) if self.orphans.height else pl.lit(value=False)

    def touched(self, table: Table) -> pl.Expr:
        """Rows of a table that vanish or lose their body."""
        lost = self._bodiless() & pl.col("content_round").is_not_null() if table is PAGES else pl.lit(value=False)
        return (self.gone(table) | lost).fill_null(value=False)

    def left(self, rows: pl.DataFrame, table: Table) -> pl.DataFrame:
        """The rows as they are afterwards."""
        kept = rows.filter(~self.gone(table).fill_null(value=False))
        if table is not PAGES:
            return kept
        return kept.with_columns(content_round=pl.when(~self._bodiless().fill_null(value=False)).then("content_round"))

    def _before(self, at: datetime) -> pl.Expr:
        """Versions that no visit has found so since."""
        spared = self.current.filter(pl.col("seen_at") >= at).select("url_hash", "round")
        old = pl.col("fetched_at") < at
        return old & ~pl.struct("url_hash", "round").is_in(spared.to_struct().implode()) if spared.height else old

    def _bodiless(self) -> pl.Expr:
        of_class = [self._of_class(name) & self._before(at) for name, at in self.ages.bodies_of.items()]
        return pl.any_horizontal(self._before(self.ages.bodies), *of_class)

    def _of_class(self, name: str) -> pl.Expr:
        kind, _, value = name.partition(" ")
        if kind == "tag":
            return pl.col("tag") == value
        if kind == "topic":
            return pl.col("tag").is_in([tag for tag, topic in self.topics.items() if topic == value])
        return pl.col("content_type").str.split(";").list.first().str.strip_chars().str.to_lowercase() == value.lower()


def orphans(contents: pl.LazyFrame, named: list[pl.LazyFrame], before: int) -> pl.DataFrame:
    """Contents of rounds up to `before` that no row names; `named`: rows with `content_round`."""
    old = contents.filter(pl.col("round") <= before).rename({"round": "content_round"})
    return keys_of(old).join(pl.concat([keys_of(rows) for rows in named]), on=["content_round", "body_hash", "charset"],
                             how="anti").unique().collect(engine="streaming")  # fmt: skip
