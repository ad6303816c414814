"""What a plan knows of importance: the ranks in force for the leased buckets, and the cash handed on since.

Reads `ranks` once per ranking and lease, `links` since the ranking once, then only what each plan reads anyway; the
rule is core.importance's. Before the first ranking nothing is read and nothing changes. Kept warm from round to round;
12 bytes per ranked URL of the leased buckets. It holds no truth: made anew from the same versions it is the same.

Invariant: a link's cash counts if the ranking had not read it, and once.
"""

from dataclasses import dataclass, field

import polars as pl

from crawl_pipeline.core import importance, trust
from crawl_pipeline.core.orders import NOTHING, InForce
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake.ranking import Ranking
from crawl_pipeline.planning.sight import Cursors, Sight

_NONE = Ranking(0, 0, {})
CASH = ["source_bucket", "round", "url_hash", "cash"]


@dataclass(frozen=True, slots=True)
class Scores:
    """How due rows are scored in one plan; `seen`: the version of `ranks`, None before the first ranking."""

    seen: int | None = None
    ranks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.RANKS))
    cash: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.CASH))
    in_force: InForce = NOTHING

    @property
    def columns(self) -> list[str]:
        """What else a due row must tell: its seed list, if some list has a band."""
        banded = any(facts.band is not None for facts in self.in_force.tags.values())
        return ["tag"] if self.seen is not None and banded else []

    def of(self, due: pl.DataFrame, policy: Policy) -> pl.DataFrame:
        """Due rows with their scores and bands as they are now, and their mass."""
        if self.seen is None:
            return due
        return importance.scored(due, self.ranks, self.cash, self.in_force, policy)


UNRANKED = Scores()


@dataclass(slots=True)
class Ranks:
    """The ranking in force, kept warm for one lease."""

    version: int = -1
    buckets: tuple[int, ...] = ()
    ranking: Ranking = _NONE
    ranks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.RANKS))
    cash: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.CASH))

    def look(self, sight: Sight, cursors: Cursors) -> bool:
        """See whether there is another ranking than before; read it if so, with the cash of links read since."""
        version, buckets = sight.at["ranks"], tuple(sight.lease.buckets)
        if (self.version, self.buckets) == (version, buckets):
            return False
        self.version, self.buckets = version, buckets
        self.ranking = sight.lake.ranking(version) if version else _NONE
        if not self.ranking.number:
            return False
        same = self.ranking.layout == sight.lake.layout.number
        rows = sight.lake.scan("ranks", buckets=buckets if same else None, at=sight.at)
        self.ranks = rows.select(list(importance.RANKS)).collect()
        self.cash = self.cash.clear()
        self._add(self._read_before(sight, cursors))
        return True

    def scores(self, links: pl.DataFrame, in_force: InForce) -> Scores:
        """How to score due rows, once this plan's links are read. links: at least CASH."""
        if not self.ranking.number:
            return UNRANKED
        self._add(links.select(CASH))
        return Scores(self.version, self.ranks, self.cash, in_force)

    def _add(self, links: pl.DataFrame) -> None:
        seen = pl.col("source_bucket").replace_strict(dict(self.ranking.seen), default=0, return_dtype=pl.Int64)
        new = links.filter(pl.col("cash").is_not_null() & (pl.col("round") > seen))
        if new.height:
            both = pl.concat([self.cash, new.select(pl.col(name).cast(to) for name, to in importance.CASH.items())])
            self.cash = both.group_by("url_hash").agg(pl.col("cash").sum())

    def _read_before(self, sight: Sight, cursors: Cursors) -> pl.DataFrame:
        """Links that earlier plans of these buckets have read since the ranking."""
        once, since = sight.lake.once_in(self.buckets), min(self.ranking.seen.values(), default=0)
        read = pl.DataFrame(
            [(source, last) for per in cursors.links_seen.values() for source, last in enumerate(per)],
            schema={"source_bucket": pl.Int16, "until": pl.Int64}, orient="row",
        ).group_by("source_bucket").agg(pl.col("until").max())  # fmt: skip
        links = sight.lake.scan("links", buckets=once, since=since, at=sight.at, where=pl.col("cash").is_not_null())
        return (
            links.join(read.lazy(), on="source_bucket")
            .filter(pl.col("round") <= pl.col("until"))
            .select(CASH)
            .collect()
        )


def counted(hosts: pl.DataFrame, sight: Sight) -> pl.DataFrame:
    """Rows of `hosts` with the sites that link to them as the ranking has counted them, where more than are kept."""
    many = pl.col("linking_site_count") > trust.MOST
    found = sight.lake.scan("host_ranks", at=sight.at, where=many).select("host", _told="linking_site_count").collect()
    open_ = ~pl.col("seeded").any().over("site")
    rows = hosts.join(found, on="host", how="left", maintain_order="left")
    told = pl.when(open_).then(pl.coalesce("_told", "linking_site_count"))
    return rows.with_columns(linking_site_count=told).drop("_told")
