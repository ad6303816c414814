"""How much of a host and its site may be taken: their budgets, and the share that grows with trust.

The hosts of a site that a seed names have their whole budgets at once. Any other host or site begins with a share and
earns more by two kinds of evidence: how many other sites link to it, and how many different texts it has shown. So a
host that nobody vouched for is crawled whole if it has something to say, and a farm of hosts with the same few pages,
which costs its owner nothing, stays small.

    allowance = min(full, max(trust_first, trust_first_share x full) x sqrt(1 + linking sites) + trust_growth x texts)

Evidence is small and can be united over the hosts of a site: up to MOST hashes of linking sites, whose number a ranking
counts where there are more (of a site the most that one of its hosts has), and the MOST smallest
hashes of texts (Bar-Yossef et al. 2002: of n even numbers within 0 and 1 the k-th smallest lies near k / n). No more
texts are believed than pages were asked for, so hashes made to be small gain nothing.

Invariant: an allowance never shrinks with more evidence and lies within the beginning and the whole budget.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from crawl_pipeline.core.policy import Policy

MOST = 32
"""Hashes kept per host and kind of evidence: an estimate of texts is then right within a fifth, mostly."""
STEPS = 8
"""Steps per doubling in which texts count: each step makes somebody look for parked URLs."""
PER = ("host", "site")
PARKED_BY = {name: f"beyond the trusted share of budget.urls_per_{name}" for name in PER}

_HASHES = pl.List(pl.Int64)


def limits(hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Say how much may be taken of each host and of its site.

    `hosts`: rows of `hosts`, of all hosts of each site. Gives host, site, and per `host_` and `site_`: `full` and
    `allowance` of its URLs, how many are `known` and of those `parked`, `full_day` and `allowance_day` of its pages
    in a UTC day.
    """
    budget, known = policy.budget, hosts.lazy()  # one plan: a round asks often, and of few hosts
    rows = known.select(
        "host", "site", trusted=pl.col("seeded").any().over("site"),
        host_known="known_count", host_parked=pl.col("parked_count").fill_null(0),
        host_linking=_linking(_count("linking_sites")), host_texts=_texts(pl.col("fetched_count")),
        host_full=_own({name: rule.urls for name, rule in policy.host.items()}, budget.urls_per_host),
        host_full_day=_own(
            {name: rule.fetches_per_day for name, rule in policy.host.items()}, budget.fetches_per_host_day
        ),
    )  # fmt: skip
    rows = rows.join(_of_sites(hosts), on="site", how="left", maintain_order="left").with_columns(
        pl.col("site_linking", "site_texts").fill_null(0),
        site_known=pl.col("host_known").sum().over("site"), site_parked=pl.col("host_parked").sum().over("site"),
        site_full=pl.lit(budget.urls_per_site, pl.Int64), site_full_day=pl.lit(budget.fetches_per_site_day, pl.Int64),
    )  # fmt: skip
    return rows.with_columns(
        _allowance(f"{per}_full{of}", per, policy).alias(f"{per}_allowance{of}") for per in PER for of in ("", "_day")
    ).collect()


def with_new(hosts: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Rows of `hosts` for the sites that are named (host, site), with a blank row for each host that is new."""
    columns = ["host", "site", "seeded", "known_count", "parked_count", "linking_sites", "linking_site_count", "texts",
               "fetched_count"]  # fmt: skip
    known = hosts.select(columns).join(named.select("site").unique(), on="site", how="semi")
    fresh = named.select("host", "site").unique("host").join(known, on="host", how="anti")
    blank = fresh.with_columns(
        seeded=pl.lit(value=False), known_count=pl.lit(0, pl.Int64), parked_count=pl.lit(0, pl.Int64),
        linking_sites=pl.lit(None, _HASHES),
        linking_site_count=pl.lit(None, pl.Int64), texts=pl.lit(None, _HASHES), fetched_count=pl.lit(0, pl.Int64),
    )  # fmt: skip
    return pl.concat([known, blank.select(columns)])


def linked(hosts: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Rows of `hosts` with the sites that link to them. `links`: host, site and, as hash64, source_site.

    Nothing is kept of a site that a seed names, nor once a host has MOST: it would change nothing.
    """
    seeded = hosts.filter("seeded")["site"].unique().implode()
    full = pl.col("linking_sites").list.len().fill_null(0) >= MOST
    open_ = hosts.filter(~pl.col("site").is_in(seeded) & ~full).select("host", "linking_sites")
    found = links.select("host", value="source_site").drop_nulls().join(open_, on="host", how="semi")
    return _united(hosts, found, "linking_sites")


def told(hosts: pl.DataFrame, texts: Sequence[tuple[str, int]]) -> pl.DataFrame:
    """Rows of `hosts` with the hashes of texts (host, text_hash) that their pages have shown."""
    found = pl.DataFrame(texts, schema={"host": pl.String, "value": pl.Int64}, orient="row")
    return _united(hosts, found, "texts")


def released(parked: pl.DataFrame, allowed: pl.DataFrame) -> pl.Series:
    """Choose the url_hash of those parked URLs that the allowances now let in: nearest first, then oldest.

    parked: url_hash, host, depth, found_at; allowed: `limits` of their hosts.
    """
    rooms = allowed.select("host", "site", *(room(per).alias(f"{per}_room") for per in PER))
    rows = parked.join(rooms, on="host").sort("depth", "found_at", "url_hash")
    for per in PER:
        rows = rows.filter(pl.int_range(pl.len()).over(per) < pl.col(f"{per}_room"))
    return rows["url_hash"]


def room(per: str) -> pl.Expr:
    """How many more URLs a host or site of `limits` may have that are not parked."""
    return (pl.col(f"{per}_allowance") - pl.col(f"{per}_known") + pl.col(f"{per}_parked")).clip(lower_bound=0)


def _allowance(full: str, per: str, policy: Policy) -> pl.Expr:
    budget, whole = policy.budget, pl.col(full)
    begin = pl.max_horizontal(pl.lit(float(budget.trust_first)), budget.trust_first_share * whole)
    grown = begin * (1 + pl.col(f"{per}_linking")).sqrt() + budget.trust_growth * pl.col(f"{per}_texts")
    earned = pl.min_horizontal(whole, grown.clip(upper_bound=float(2**53))).floor().cast(pl.Int64)
    # A number of its own in the policy is a person's word for this host.
    rule = {"host_full": "urls", "host_full_day": "fetches_per_day"}.get(full)
    own = [name for name, given in policy.host.items() if rule and getattr(given, rule) is not None]
    return pl.when(pl.col("trusted") | pl.col("host").is_in(own)).then(whole).otherwise(earned)


def _own(given: dict[str, int | None], otherwise: int) -> pl.Expr:
    own = {name: most for name, most in given.items() if most is not None}
    return pl.col("host").replace_strict(own, default=otherwise, return_dtype=pl.Int64)


def _of_sites(hosts: pl.DataFrame) -> pl.LazyFrame:
    """The evidence of sites that no seed names, united over their hosts (site, site_linking, site_texts)."""
    if hosts["seeded"].all():  # as in most lakes: they have their whole budgets without it
        return pl.LazyFrame(schema={"site": pl.String, "site_linking": pl.Int64, "site_texts": pl.Int64})
    others = hosts.lazy().filter(~pl.col("seeded").any().over("site"))
    both = others.group_by("site").agg(pl.col("fetched_count").sum(), pl.col("linking_site_count").max())
    for column in ("linking_sites", "texts"):
        values = others.select("site", value=column).explode("value").drop_nulls()
        both = both.join(_smallest(values, "site", column), on="site", how="left")
    return both.select(
        "site", site_linking=_linking(_count("linking_sites")), site_texts=_texts(pl.col("fetched_count"))
    )


def _united(hosts: pl.DataFrame, found: pl.DataFrame, column: str) -> pl.DataFrame:
    if found.is_empty():
        return hosts
    kept = hosts.join(found, on="host", how="semi").select("host", value=column).explode("value").drop_nulls()
    made = _smallest(pl.concat([kept, found.select("host", "value")]).lazy(), "host", "_made")
    rows = hosts.lazy().join(made, on="host", how="left", maintain_order="left")
    return rows.with_columns(pl.coalesce("_made", column).alias(column)).drop("_made").collect()


def _smallest(values: pl.LazyFrame, per: str, column: str) -> pl.LazyFrame:
    """The MOST smallest values of each host or site, in order."""
    return values.unique().sort("value").group_by(per).agg(pl.col("value").head(MOST).alias(column))


def _count(column: str) -> pl.Expr:
    return pl.col(column).list.len().fill_null(0).cast(pl.Int64)


def _linking(kept: pl.Expr) -> pl.Expr:
    """How many sites link: those that are kept, or as many as a ranking has counted."""
    return pl.max_horizontal(kept, pl.col("linking_site_count").fill_null(0))


def _texts(asked: pl.Expr) -> pl.Expr:
    """How many different texts the smallest hashes stand for, rounded down to a step."""
    kept, last = _count("texts"), pl.col("texts").list.last()
    share = last.cast(pl.Float64) / 2.0**64 + 0.5
    estimate = pl.when(kept < MOST).then(kept).otherwise(((MOST - 1) / share).clip(MOST, float(2**40)))
    texts = pl.min_horizontal(estimate.fill_null(0), asked.fill_null(0)).floor()
    # An even step: the power of two below, cut into STEPS.
    step = (2.0 ** ((texts.clip(1).log(2) + 1e-9).floor() - STEPS.bit_length() + 1)).clip(1)
    return ((texts / step).floor() * step).cast(pl.Int64)


def in_words(row: Mapping[str, Any], of: str = "") -> str:
    """Say where a host and its site stand with their URLs or, `of` "_day", with their pages. `row`: of `limits`."""
    return "; ".join(
        f"{per}: {'' if of else _known_in_words(row, per)}{row[f'{per}_allowance{of}']} allowed of "
        f"{row[f'{per}_full{of}']} in full"
        for per in PER
    )


def _known_in_words(row: Mapping[str, Any], per: str) -> str:
    return f"{row[f'{per}_known']} known, of these {row[f'{per}_parked']} parked, "
