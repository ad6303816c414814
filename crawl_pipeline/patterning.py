"""What a round teaches of the URLs of its hosts: rows of `patterns`, made from a plan, a cut and the rows made of them.

Reads the lake: rows of `patterns` of the hosts that the round is about, and through `earlier` what their pages said.
core.url_patterns says which URLs are alike, core.repeats which pages are worthless, core.traps what follows; `probing`
adds what hosts show for pages that do not exist, `varying` which parameters do not matter.

Invariant: a page is judged once, at its first visit, and a link counts once, with the round that read it. The rows are
written with the round, so that a round that never came to be taught nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from crawl_pipeline import varying
from crawl_pipeline.core import not_found, repeats, traps, url_patterns, urls
from crawl_pipeline.core.parameters import DROPPED, MARK
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import LINKS, PATTERNS
from crawl_pipeline.core.traps import News
from crawl_pipeline.fetch.visits import Cut, Target, Visit
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning import Plan
from crawl_pipeline.planning.earlier import EarlierPages
from crawl_pipeline.planning.marking import words
from crawl_pipeline.probing import Probes

_SAMPLED = 300
"""Pages of a round whose links are looked at: what links say is a prior, and pages have hundreds."""
_MOSTLY = 0.5
_KEYED = ["host", "pattern", "shape"]
_VERDICT = {"host": pl.String, "url_hash": pl.Int64, "url": pl.String, "verdict": pl.String, "like": pl.String}
_FAILURES = frozenset({"timeout", "too_large", "truncated", "decode_error", "protocol_error", "malformed"})
"""What an answer that began may come to (see traps.FAILED); what never began speaks of the host, not of the URL."""


@dataclass(slots=True)
class Learning:
    """What a worker keeps in mind of the hosts of its lease. None of it is truth."""

    earlier: EarlierPages = field(default_factory=EarlierPages)
    probes: Probes = field(default_factory=Probes)


def rows(
    lake: Lake, plan: Plan, cut: Cut, made: Mapping[str, pl.DataFrame], before: pl.DataFrame, mind: Learning
) -> dict[str, pl.DataFrame]:
    """Give the round's rows of `patterns`, and its rows of `links` and `pages` with what was learnt put to them.

    made: its rows of all other tables; before: frontier rows of all visits.
    """
    mind.probes.read(lake, plan.lease)
    answered = mind.probes.answered(cut.visits, plan.now)
    soft = mind.probes.soft(cut.visits)
    fresh = _fresh(cut, before)
    learnt, named = _learnt(lake, plan, cut, made, fresh, soft, answered, mind)
    targets = {visit.target.url: visit.target for visit in cut.visits}
    links = _links_to(named, targets, lake.buckets, plan.lease.round)
    return {
        "patterns": learnt,
        "links": pl.concat([made["links"], links]) if links.height else made["links"],
        "pages": made["pages"].with_columns(
            soft404=pl.col("url_hash").is_in(pl.Series(list(soft), dtype=pl.Int64).implode())
        ),
    }


def _learnt(
    lake: Lake, plan: Plan, cut: Cut, made: Mapping[str, pl.DataFrame], fresh: Sequence[Visit], soft: Mapping[int, str],
    answered: list[dict[str, Any]], mind: Learning,
) -> tuple[pl.DataFrame, list[tuple[str, str, str]]]:  # fmt: skip
    """The rows of `patterns`, and links to be written: page, URL, kind."""
    hosts = {urls.host(visit.target.url) for visit in fresh if visit.request is not None}
    hosts |= {row["host"] for row in answered}
    for frame in (plan.admitted, plan.told, plan.released):
        hosts.update(frame["host"].unique() if frame.height else ())
    if not hosts:
        return PATTERNS.empty(), []
    policy = plan.policy
    known = lake.scan("patterns", buckets=plan.lease.buckets, where=pl.col("host").is_in(list(hosts))).collect()
    pages = _first_visits(fresh, made["pages"], made["links"], soft)
    judged = _judged(lake, plan, pages, fresh, soft, mind)
    met = dict(known.filter(pl.col("pattern").str.starts_with("/")).group_by("host").agg(
        pl.col("trial_count").sum()).iter_rows())  # fmt: skip
    titles = made["pages"].select("url_hash", "title").unique("url_hash", keep="first")
    titled = judged.join(titles, on="url_hash", how="left", maintain_order="left")
    probed, beside = mind.probes.wanted(titled, met, policy, plan.now)
    released = _released(known, plan.released)
    varied = varying.learn(judged, fresh, mind.earlier.by_url, known, released, plan.now, policy)
    admitted = plan.admitted.select("host", "url")
    # What pages name as their own URL says the same as they do.
    canonical = [visit.target.url_hash for visit in fresh if visit.target.kind == "canonical"]
    own = pl.col("url_hash").is_in(canonical)
    links = _links_of(made["links"], pages)
    named = _Named.of(known, admitted, [judged, links, plan.told], policy)
    news = News(
        trials=named.of_urls(judged.filter(~own)).select(*_KEYED, "url", "verdict", "like"),
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
        released=released.filter(~pl.col("pattern").str.starts_with(MARK)),
        split=named.split,
    )
    learnt = named.with_segments(traps.learn(known, news, plan.now, policy))
    others = [row for row in [*answered, *probed, *varied.rows] if row]
    if others:
        learnt = pl.concat([learnt, PATTERNS.frame([_declared(row) for row in others]).select(learnt.columns)])
    buckets = dict(plan.hosts.select("host", "bucket").iter_rows())
    bucket = pl.col("host").replace_strict(buckets, default=None, return_dtype=PATTERNS.schema["bucket"])
    mind.earlier.add(judged.filter(verdict=traps.GOOD), policy)
    wanted = [(page, url, not_found.KIND) for page, url in beside]
    wanted += [(page, url, "canonical") for page, url in varied.named]
    stamped = learnt.with_columns(bucket=bucket, round=pl.lit(plan.lease.round, pl.Int64), layer=pl.lit("tail"))
    return PATTERNS.frame(stamped), wanted


def _declared(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in PATTERNS.schema}


def _judged(
    lake: Lake, plan: Plan, pages: pl.DataFrame, fresh: Sequence[Visit], soft: Mapping[int, str], mind: Learning
) -> pl.DataFrame:
    """First visits with their verdicts: of pages, and of those that were sent where all that does not exist is sent."""
    earlier = mind.earlier.of(lake, plan, pages["host"].unique(), plan.policy)
    judged = repeats.judged(pages, earlier, plan.policy)
    like = pl.col("url_hash").replace_strict(soft, default=None, return_dtype=pl.String) if soft else pl.lit(None)
    judged = judged.with_columns(like=pl.coalesce(like, "like"))
    others = _pageless(fresh, soft)
    return pl.concat([judged, others], how="diagonal") if others.height else judged


def _pageless(fresh: Sequence[Visit], soft: Mapping[int, str]) -> pl.DataFrame:
    """Verdicts of first visits that gave no page but tell something of their URL."""
    rows = list[tuple[str, int, str, str, str | None]]()
    for visit in fresh:
        to, host = visit.target, urls.host(visit.target.url)
        if to.url_hash in soft and visit.page is None:
            rows.append((host, to.url_hash, to.url, "soft404", soft[to.url_hash]))
        elif visit.outcome in _FAILURES and visit.request is not None and visit.request.exchange.status is not None:
            rows.append((host, to.url_hash, to.url, traps.FAILED, None))
    return pl.DataFrame(rows, schema=_VERDICT, orient="row")


def _links_to(
    named: Iterable[tuple[str, str, str]], targets: Mapping[str, Target], buckets: int, round_: int
) -> pl.DataFrame:
    """Rows of `links` for URLs that the crawl itself names: made up, or without what does not matter."""
    made = []
    for page, url, kind in named:
        host, source = urls.host(url), targets[page]
        bucket = urls.bucket(urls.site(host), buckets)
        made.append(
            {"target_bucket": bucket, "source_bucket": bucket, "round": round_, "url": url, "host": host,
             "url_hash": urls.url_hash(url), "source_url": page, "source_hash": source.url_hash, "kind": kind,
             "nofollow": False, "depth": source.depth, "hops": 0, "tag": source.tag}
        )  # fmt: skip
    return LINKS.frame(made)


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
        all_urls = [part.select("host", "url") for part in (admitted, *others)]
        all_urls += [
            part.drop_nulls("source_url").select("host", url="source_url")
            for part in others
            if "source_url" in part.columns
        ]
        parsed = url_patterns.Parsed.of(pl.concat(all_urls))
        shapes = admitted.join(parsed.named(), on=["host", "url"], how="left")
        new = shapes.select("host", "shape", known_count=pl.lit(1, pl.Int64))
        counted = pl.concat([known.select(new.columns), new]).with_columns(path=url_patterns.path_of("shape"))
        sums = counted.group_by("host", "path").agg(known=pl.col("known_count").sum())
        told = words(known)
        learnt = parsed.grown(told, admitted, sums)
        old = url_patterns.literals_of(told)
        split = url_patterns.literals_of(learnt).join(old, on=list(url_patterns.WORDS), how="anti")
        kept = told.join(learnt, on=["host", "path"], how="anti")
        literals = url_patterns.literals_of(pl.concat([learnt, kept.select(learnt.columns)]))
        names = traps.bounded(parsed.named(literals), known, policy.traps.patterns)
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


def _fresh(cut: Cut, before: pl.DataFrame) -> list[Visit]:
    """Visits of URLs that were never visited before, each once, in their order; made-up ones and sitemaps apart."""
    new = set(before.filter(pl.col("outcome").is_null())["url_hash"])
    found: dict[int, Visit] = {}
    for visit in cut.visits:
        if visit.target.url_hash in new and visit.target.kind not in ("sitemap", not_found.KIND):
            found.setdefault(visit.target.url_hash, visit)
    return list(found.values())


def _first_visits(
    fresh: Sequence[Visit], pages: pl.DataFrame, links: pl.DataFrame, soft: Mapping[int, str]
) -> pl.DataFrame:
    """Pages that were fetched for the first time, in the order of their visits, with their fingerprints.

    A page whose text is not kept has none, and is not judged.
    """
    told = pl.DataFrame(
        [(visit.target.url_hash, visit.page.text) for visit in fresh if visit.page],
        schema={"url_hash": pl.Int64, "text": pl.String}, orient="row",
    )  # fmt: skip
    if told.is_empty():
        return repeats.NOBODY.with_columns(steps=pl.lit(value=False), soft404=pl.lit(value=False))
    bare = told.select("url_hash", repeats.bare_hashes(told["text"]))
    first = pages.drop_nulls("token_count").unique("url_hash", keep="first")
    found = bare.join(first, on="url_hash", maintain_order="left").select(list(repeats.SIGNED))
    return found.with_columns(
        steps=pl.col("url_hash").is_in(_stepping(links, found).implode()),
        soft404=pl.col("url_hash").is_in(list(soft)),
    )


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
    if told.is_empty():
        return told
    whole = told.filter(pl.col("pattern").is_null())["host"].implode()
    done = pl.col("action").is_in([traps.THROTTLED, traps.BLOCKED, DROPPED])
    acted = known.filter(pl.col("host").is_in(whole) & done)
    return pl.concat([acted.select("host", "pattern"), told.drop_nulls("pattern")]).unique()
