"""What a round teaches of URL patterns: rows of `patterns`, made from a plan, a cut and the rows made of them.

Reads the lake: rows of `patterns` of the hosts that the round is about, and through `earlier` the fingerprints of their
pages. core.url_patterns says which URLs are alike, core.repeats which pages are worthless, core.traps what follows.

Invariant: a page is judged once, at its first visit, and a link counts once, with the round that read it. The rows are
written with the round, so that a round that never came to be taught nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from crawl_pipeline.core import repeats, traps, url_patterns
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import PATTERNS
from crawl_pipeline.core.traps import News
from crawl_pipeline.fetch.visits import Cut
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning import Plan
from crawl_pipeline.planning.earlier import EarlierPages
from crawl_pipeline.planning.marking import words

_SAMPLED = 300
"""Pages of a round whose links are looked at: what links say is a prior, and pages have hundreds."""
_MOSTLY = 0.5
_KEYED = ["host", "pattern", "shape"]


def rows(
    lake: Lake, plan: Plan, cut: Cut, made: Mapping[str, pl.DataFrame], before: pl.DataFrame, earlier: EarlierPages
) -> pl.DataFrame:
    """Give the round's rows of `patterns`. made: its rows of other tables; before: frontier rows of all visits."""
    policy = plan.policy
    pages = _first_visits(cut, made["pages"], before)
    admitted = plan.admitted.select("host", "url")
    hosts = pl.concat([part["host"] for part in (pages, admitted, plan.told, plan.released)]).unique()
    if hosts.is_empty():
        return PATTERNS.empty()
    known = lake.scan("patterns", buckets=plan.lease.buckets, where=pl.col("host").is_in(hosts.implode())).collect()
    pages = pages.with_columns(steps=pl.col("url_hash").is_in(_stepping(made["links"], pages).implode()))
    judged = repeats.judged(pages, earlier.of(lake, plan, pages["host"].unique(), policy), policy)
    links = _links_of(made["links"], pages)
    named = _Named.of(known, admitted, [judged, links, plan.told], policy)
    news = News(
        trials=named.of_urls(judged).select(*_KEYED, "url", "verdict", "like"),
        counts=pl.concat(
            [
                named.known(),
                _counts_of_links(named, links),
                _new_urls(named, plan.told),
                _grown(named, plan.told, known),
            ],
            how="diagonal_relaxed",
        ),
        linked=_linked(named, plan.told),
        released=_released(known, plan.released),
        split=named.split,
    )
    buckets = dict(plan.hosts.select("host", "bucket").iter_rows())
    learnt = traps.learn(known, news, plan.now, policy).with_columns(
        bucket=pl.col("host").replace_strict(buckets, default=None, return_dtype=PATTERNS.schema["bucket"])
    )
    earlier.add(judged.filter(verdict=traps.GOOD), policy)
    stamps = {"round": pl.lit(plan.lease.round, pl.Int64), "layer": pl.lit("tail")}
    return PATTERNS.frame(named.with_segments(learnt).with_columns(**stamps))


@dataclass(frozen=True, slots=True)
class _Named:
    """Patterns of the URLs of a round, with literals as learnt up to this round."""

    _admitted: pl.DataFrame
    _patterns: pl.DataFrame
    _words: pl.DataFrame
    split: pl.DataFrame
    """Paths of shapes (host, path) of which a segment has become a literal in this round."""

    @classmethod
    def of(cls, known: pl.DataFrame, admitted: pl.DataFrame, others: list[pl.DataFrame], policy: Policy) -> "_Named":
        """Learn literals from the URLs that became known, and name all URLs of the round."""
        new = url_patterns.keyed(admitted).select("host", "shape", known_count=pl.lit(1, pl.Int64))
        counted = pl.concat([known.select(new.columns), new]).with_columns(path=url_patterns.path_of("shape"))
        sums = counted.group_by("host", "path").agg(known=pl.col("known_count").sum())
        learnt = url_patterns.grown(words(known), admitted, sums)
        old = url_patterns.literals_of(words(known))
        split = url_patterns.literals_of(learnt).join(old, on=list(url_patterns.WORDS), how="anti")
        kept = words(known).join(learnt, on=["host", "path"], how="anti")
        urls = [part.select("host", "url") for part in (admitted, *others)]
        urls += [
            part.drop_nulls("source_url").select("host", url="source_url")
            for part in others
            if "source_url" in part.columns
        ]
        named = url_patterns.keyed(
            pl.concat(urls).unique(), url_patterns.literals_of(pl.concat([learnt, kept.select(learnt.columns)]))
        )
        names = traps.bounded(named, known, policy.traps.patterns)
        return cls(admitted, names, learnt, split.select("host", "path").unique())

    def of_urls(self, frame: pl.DataFrame, url: str = "url") -> pl.DataFrame:
        """Add pattern and shape of a column of URLs."""
        names = self._patterns.rename({"url": url}) if url != "url" else self._patterns
        return frame.join(names, on=["host", url], how="left", maintain_order="left")

    def known(self) -> pl.DataFrame:
        """How many URLs of each pattern became known; shapes with new words are there too, with none."""
        count = self.of_urls(self._admitted).group_by(_KEYED).agg(known_count=pl.len().cast(pl.Int64))
        shapes = self._words.select("host", pattern="path", shape="path").unique()
        told = shapes.join(self._patterns.filter(pl.col("pattern") == traps.REST), on="host", how="anti")
        return pl.concat([count, told.with_columns(known_count=pl.lit(0, pl.Int64))])

    def with_segments(self, learnt: pl.DataFrame) -> pl.DataFrame:
        """Put what was learnt of shapes into their rows."""
        inner = pl.struct("place", "segment", "count", "literal")
        segments = self._words.group_by("host", pattern="path").agg(_new=inner)
        both = learnt.join(segments, on=["host", "pattern"], how="left", maintain_order="left")
        return both.with_columns(segments=pl.coalesce("_new", "segments")).drop("_new")


def _first_visits(cut: Cut, pages: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Pages that were fetched for the first time, in the order of their visits, with their fingerprints.

    A page whose text is not kept has none, and is not judged.
    """
    fresh = before.filter(pl.col("outcome").is_null() & (pl.col("kind") != "sitemap"))["url_hash"]
    told = pl.DataFrame(
        [(visit.target.url_hash, visit.page.text) for visit in cut.visits if visit.page],
        schema={"url_hash": pl.Int64, "text": pl.String}, orient="row",
    ).unique("url_hash", maintain_order=True)  # fmt: skip
    told = told.filter(pl.col("url_hash").is_in(fresh.implode()))
    bare = told.select("url_hash", repeats.bare_hashes(told["text"]))
    first = pages.drop_nulls("token_count").unique("url_hash", keep="first")
    return bare.join(first, on="url_hash", maintain_order="left").select(list(repeats.SIGNED))


def _bare(url: str) -> pl.Expr:
    return pl.col(url).str.replace_all(r"\d+", "0")


def _stepping(links: pl.DataFrame, pages: pl.DataFrame) -> pl.Series:
    """Pages (url_hash) most of whose links lead to their own URL with other numbers."""
    found = links.filter((pl.col("kind") == "link") & pl.col("source_hash").is_in(pages["url_hash"].implode()))
    own = (_bare("url") == _bare("source_url")) & (pl.col("url") != pl.col("source_url"))
    shares = found.group_by("source_hash").agg(share=own.mean())
    return shares.filter(pl.col("share") >= _MOSTLY)["source_hash"]


def _links_of(links: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Links of some of the pages (host, url and source_url); `host` is that of the page and of the link."""
    sources = pages.head(_SAMPLED).select("host", source_hash="url_hash")
    found = links.filter(pl.col("kind") == "link").select("source_hash", "url", "source_url", to="host")
    return found.join(sources, on="source_hash").select("host", "url", "source_url", "to")


def _counts_of_links(named: _Named, links: pl.DataFrame) -> pl.DataFrame:
    """How many links the pages of a pattern have, to themselves, and step by step."""
    inside = named.of_urls(links.filter(pl.col("to") == pl.col("host"))).select(
        "url", "source_url", to_pattern="pattern"
    )
    rows = named.of_urls(links, "source_url").join(inside.unique(), on=["url", "source_url"], how="left")
    own = (pl.col("to_pattern") == pl.col("pattern")).fill_null(value=False)
    steps = own & (_bare("url") == _bare("source_url"))
    return rows.group_by(_KEYED).agg(
        out_link_count=pl.len().cast(pl.Int64), own_link_count=own.sum().cast(pl.Int64),
        step_link_count=steps.sum().cast(pl.Int64),
    )  # fmt: skip


def _new_urls(named: _Named, told: pl.DataFrame) -> pl.DataFrame:
    found = told.filter("is_new").select("host", "url", "source_url")
    return named.of_urls(found, "source_url").group_by(_KEYED).agg(new_url_count=pl.len().cast(pl.Int64))


def _grown(named: _Named, told: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """New URLs of a pattern that its own pages name, or pages of other patterns in doubt."""
    found = told.filter("is_new").select("host", "url", "source_url")
    source = named.of_urls(found, "source_url").select("host", "url", "source_url", by="pattern").unique()
    doubted = known.filter(pl.col("trap_score") > 0).select("host", by="pattern", _doubted=pl.lit(value=True))
    rows = named.of_urls(source).join(doubted, on=["host", "by"], how="left")
    grows = rows.filter((pl.col("by") == pl.col("pattern")) | pl.col("_doubted").fill_null(value=False))
    return grows.group_by(_KEYED).agg(grown_count=pl.col("url").n_unique().cast(pl.Int64))


def _linked(named: _Named, told: pl.DataFrame) -> pl.DataFrame:
    outside = told.filter(pl.col("listed") | pl.col("linked_from").is_not_null())
    return named.of_urls(outside).select(*_KEYED, "linked_from", "listed").unique()


def _released(known: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """The patterns that people released: those that are named, or all of a host that anything is done about."""
    whole = told.filter(pl.col("pattern").is_null())["host"].implode()
    acted = known.filter(pl.col("host").is_in(whole) & pl.col("action").is_in([traps.THROTTLED, traps.BLOCKED]))
    return pl.concat([acted.select("host", "pattern"), told.drop_nulls("pattern")]).unique()
