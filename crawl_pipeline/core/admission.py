"""Which links become frontier rows, and why the others do not.

Links in, admitted rows and a tally of reasons out; every link is either admitted or refused for exactly one reason.
What is within the whole budget of its host and site but beyond what trust gives of it is admitted and parked.
RULES is the list of reasons that one URL can be judged by on its own, first match wins; `judge` applies it to one
link or to millions. Nothing is fetched here and nothing remembered.
"""

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from crawl_pipeline.core import blocks, orders, trust, urls
from crawl_pipeline.core.orders import NOTHING, InForce
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.patterns import matches_any
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER

KIND_ORDER = {"seed": 0, "sitemap": 1, "redirect": 2, "canonical": 3, "listed": 4, "file": 5, "link": 6, "image": 7,
              "probe": 8}  # fmt: skip
SIX = 6
"""Segments in all from which on a sequence of them that repeats itself is no accident."""
_FOUND = pl.col("kind").is_in(["link", "image", "file"])
_SEED = pl.col("kind") == "seed"


@dataclass(frozen=True, slots=True)
class Admission:
    """What came of a batch of links: new frontier rows, and a tally (bucket, name, count) of refusals by reason."""

    rows: pl.DataFrame
    refused: pl.DataFrame


def admit(
    links: pl.DataFrame, known: pl.Series, hosts: pl.DataFrame, policy: Policy, now: datetime,
    in_force: InForce = NOTHING,
) -> Admission:  # fmt: skip
    """Judge links.

    links: rows of `links` with the site of each URL (`site`); known: url_hash of those that have a frontier row;
    hosts: rows of the bucket's `hosts`, seeded by this batch's seeds included;
    in_force: what people ordered, this batch's orders included.
    """
    fresh = _best_of_each(links, policy)
    unseen = fresh.filter(~pl.col("url_hash").is_in(known.implode()))
    judged = _within_budgets(judge(unseen, hosts, policy, in_force), hosts, policy)
    refused = pl.concat(
        [
            _fewer(links, fresh, "again in this batch"),
            _fewer(fresh, unseen, "seen"),
            judged.filter(pl.col("refusal").is_not_null())
            .group_by(pl.col("target_bucket").alias("bucket"), pl.col("refusal").alias("name"))
            .agg(count=pl.len().cast(pl.Int64)),
        ]
    )
    rows = _frontier_rows(judged.filter(pl.col("refusal").is_null()), policy, now, in_force)
    return Admission(rows, refused)


def judge(links: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, in_force: InForce = NOTHING) -> pl.DataFrame:
    """Add `refusal`: the first rule that refuses each link, null where none does."""
    # A canonical URL is scheme, nothing, authority and the rest between its first three slashes.
    rest = pl.col("url").str.splitn("/", 4).struct.field("field_3").str.splitn("?", 2)
    seeded = hosts.filter("seeded")
    shaped = links.with_columns(rest.struct.rename_fields(["_path", "_query"]).struct.unnest())
    shaped = shaped.with_columns(
        _segments=pl.col("_path").str.strip_chars("/").str.split("/").list.filter(pl.element() != ""),
        _in_seeded_host=pl.col("host").is_in(seeded["host"].implode()),
        _in_seeded_site=pl.col("site").is_in(seeded["site"].implode()),
        _forgotten=orders.is_forgotten(in_force),
    )
    shaped = shaped.with_columns(
        _repeats=_most_repeats(shaped["_segments"], policy.budget.repeated_segment),
        _in_a_row=_in_a_row(shaped["_segments"], policy.budget.repeats_in_a_row),
    )
    refusal = pl.coalesce(pl.when(rule).then(pl.lit(reason)) for reason, rule in rules(policy))
    return shaped.with_columns(refusal=refusal).select(*links.columns, "refusal")


def way_rules(policy: Policy) -> list[tuple[str, pl.Expr]]:
    """Give the refusals that speak of the way that led to a URL: another link to it may pass."""
    return [
        ("nofollow", pl.col("nofollow") & _FOUND & policy.scope.nofollow),
        ("over scope.depth", pl.col("depth") > policy.scope.depth),
        ("over scope.hops", pl.col("hops") > policy.scope.hops),
        ("over sitemap.depth", (pl.col("kind") == "sitemap") & (pl.col("depth") > policy.sitemap.depth)),
    ]


def rules(policy: Policy) -> list[tuple[str, pl.Expr]]:
    """Give the refusals a URL can meet by itself, in the order they are tried."""
    scope, budget, url = policy.scope, policy.budget, pl.col("url")
    parameters = (pl.col("_query").str.count_matches("&", literal=True) + 1).fill_null(0)
    extension = pl.col("_path").str.extract(r"\.([A-Za-z0-9]+)$", 1).str.to_lowercase()
    within = {"sites": pl.col("_in_seeded_site"), "hosts": pl.col("_in_seeded_host"), "everywhere": pl.lit(value=True)}
    patterns = {name: matches_any(url, getattr(scope, name)) for name in ("include", "exclude")}
    return [
        *blocks.rules(policy.block),
        ("no host name", ~pl.col("host").str.contains(f"^{urls.HOST_NAME.pattern}$")),
        *way_rules(policy),
        (orders.FORGOTTEN, pl.col("_forgotten")),
        ("excluded by scope.exclude", patterns["exclude"]),
        ("not in scope.include", ~patterns["include"] & bool(scope.include) & ~_SEED),
        ("outside scope.follow", ~within[scope.follow] & ~_SEED),
        ("over budget.url_length", url.str.len_chars() > budget.url_length),
        ("over budget.path_depth", pl.col("_segments").list.len() > budget.path_depth),
        ("over budget.query_parameters", parameters > budget.query_parameters),
        ("over budget.repeated_segment", pl.col("_repeats") > budget.repeated_segment),
        ("over budget.repeats_in_a_row", pl.col("_in_a_row")),
        # An ending is a guess at a type; what people name they have looked at, and its answer says what it is.
        ("file type", extension.is_in(budget.skip_extensions) & ~pl.col("kind").is_in(["seed", "sitemap", "file"])),
    ]


def band(score: pl.Expr, policy: Policy) -> pl.Expr:
    """Band of a score: band k holds the scores over 2^-k up to 2^-(k-1), so that each list starts in its own."""
    return (1 - score.log(2) + 1e-6).floor().clip(1, len(policy.bands.weights)).cast(pl.Int8)


def _fewer(before: pl.DataFrame, after: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Tally by bucket the links that a step dropped."""
    ones = [before.select("target_bucket", one=pl.lit(1)), after.select("target_bucket", one=pl.lit(-1))]
    dropped = (
        pl.concat(ones).group_by(pl.col("target_bucket").alias("bucket")).agg(count=pl.col("one").sum().cast(pl.Int64))
    )
    return dropped.filter(pl.col("count") > 0).select("bucket", pl.lit(reason).alias("name"), "count")


def _best_of_each(links: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """One link per URL: of those whose way here is allowed the nearest to a seed."""
    order = pl.col("kind").replace_strict(KIND_ORDER, return_dtype=pl.Int8)
    ways = pl.any_horizontal(rule for _, rule in way_rules(policy))
    return links.sort(ways, "depth", order, "hops", "nofollow", maintain_order=True).unique(
        "url_hash", keep="first", maintain_order=True
    )


def _most_repeats(segments: pl.Series, limit: int) -> pl.Series:
    """Count the most frequent segment of each path, exactly only where it can pass the limit."""
    suspects = (segments.list.len() - segments.list.n_unique()) >= limit
    counts = [
        max(map(path.to_list().count, path)) if suspect else 0
        for path, suspect in zip(segments, suspects, strict=True)
    ] if suspects.any() else [0] * len(segments)  # fmt: skip
    return pl.Series(counts, dtype=pl.Int32)


def _in_a_row(segments: pl.Series, most: int) -> pl.Series:
    """Tell which paths repeat themselves, as relative links that lead ever deeper make them: few are looked at."""
    suspects = (segments.list.len() - segments.list.n_unique()) >= most
    found = [suspect and _repeats_itself(path.to_list(), most) for path, suspect in zip(segments, suspects, strict=True)
             ] if suspects.any() else [False] * len(segments)  # fmt: skip
    return pl.Series(found, dtype=pl.Boolean)


def _repeats_itself(path: list[str], most: int) -> bool:
    """Whether a segment stands more often in a row, or several segments, SIX or more in all, as often.

    Heritrix and BUbiNG have such rules. A date or other numbers may well stand twice.
    """
    for size in range(1, len(path) // 2 + 1):
        for start in range(len(path) - size):
            one = path[start : start + size]
            again = 1
            while path[start + again * size : start + (again + 1) * size] == one:
                again += 1
            many = again > most if size == 1 else again >= most and again * size >= SIX
            if many and not all(segment.isdecimal() for segment in one):
                return True
    return False


def _within_budgets(judged: pl.DataFrame, hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Refuse what would pass the URL budget of its host, then of its site, counting this batch in its order.

    Of what passes, `parked` says what is beyond their allowances.
    """
    passing = judged.filter(pl.col("refusal").is_null()).select("host", "site")
    allowed = trust.limits(trust.with_new(hosts, passing), policy)
    numbers = [f"{per}_{of}" for per in trust.PER for of in ("full", "allowance", "known", "parked")]
    rows = judged.join(allowed.select("host", *numbers), on="host", how="left", maintain_order="left")
    for per in trust.PER:
        over = _over(per, pl.col("refusal").is_null(), pl.col(f"{per}_known"), pl.col(f"{per}_full"))
        refusal = pl.when(over).then(pl.lit(f"over budget.urls_per_{per}")).otherwise("refusal")
        rows = rows.with_columns(refusal=refusal)
    rows = rows.with_columns(parked=pl.lit(None, pl.String))
    for per in trust.PER:
        let_in = pl.col("refusal").is_null() & pl.col("parked").is_null()
        over = _over(per, let_in, pl.col(f"{per}_known") - pl.col(f"{per}_parked"), pl.col(f"{per}_allowance"))
        rows = rows.with_columns(parked=pl.when(over).then(pl.lit(trust.PARKED_BY[per])).otherwise("parked"))
    return rows.drop(numbers)


def _over(per: str, passes: pl.Expr, before: pl.Expr, limit: pl.Expr) -> pl.Expr:
    return passes & (before + passes.cum_sum().over(per) > limit)


def _frontier_rows(links: pl.DataFrame, policy: Policy, now: datetime, in_force: InForce) -> pl.DataFrame:
    score = orders.start_score(in_force) * pl.lit(policy.bands.depth_share).pow(pl.col("depth"))
    let_in = pl.col("parked").is_null()
    rows = links.with_columns(score=score).select(
        pl.col("target_bucket").alias("bucket"), "round", "url_hash", "url", "host", "depth", "hops", "kind", "tag",
        "source_hash", "score", status=pl.when(let_in).then(pl.lit("waiting")).otherwise(pl.lit(PARKED)),
        reason="parked", band=band(pl.col("score"), policy), found_at=pl.lit(now),
        due_at=pl.when(let_in).then(pl.lit(now)), attempts=pl.lit(0), said_rate="said_rate",
        lastmod_at=pl.when(pl.col("lastmod_at") <= now).then("lastmod_at"),
    )  # fmt: skip
    return FRONTIER.frame(rows)
