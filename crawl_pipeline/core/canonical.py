"""Which page of a cluster is the canonical one.

The rule is lexicographic: the first of CRITERIA that tells two pages apart decides. The holder keeps its place while
nobody beats it by one of the first three, which speak of the pages themselves; the others merely settle ties, and would
make it change hands whenever a page is found. All pages of a cluster answered 200 when they were last read.
"""

import polars as pl

DECLARED = "declared canonical by itself"
HTTPS = "https"
PLAIN = "no session, tracking or print URL"
CRITERIA = {
    DECLARED: "_declared", HTTPS: "_https", PLAIN: "_plain", "fewer parameters": "_parameters",
    "more important": "_score", "shorter": "_length", "found earlier": "_found", "first by name": "_url",
}  # fmt: skip
"""What is compared, in order, by the words it is told in; always the larger is better."""
_STRONG = list(CRITERIA.values())[:3]
ONLY = "it was so before"

# Parameters that name a visitor or a campaign, and forms of a page for printing.
_NAMES = (
    r"utm_\w+|gclid|fbclid|msclkid|dclid|yclid|mc_[ce]id|_ga|igshid|ref|referrer|"
    r"s(ess(ion)?)?_?id|php_?sess(ion)?_?id|j_?session_?id|asp_?session_?id\w*|cfid|cftoken|token"
)
_UNPLAIN = (
    rf"(?i)[?&;]({_NAMES})=|[?&]print(able|er)?(=|&|$)|=print(able)?(&|$)|/print(able)?(/|\.\w+$|$|\?)|;jsessionid"
)


def choose(pages: pl.DataFrame) -> pl.DataFrame:
    """Give the canonical page of every cluster: cluster_id, canonical, and `by`, the criterion that told it apart.

    pages: cluster_id, url, canonical_url (what the page declares), canonical (what it was before), score, found_at.
    """
    judged = pages.with_columns(**_judged(), _holds=(pl.col("canonical") == pl.col("url")).fill_null(value=False))
    order = list(CRITERIA.values())
    ranked = judged.sort(["cluster_id", *order], descending=[False] + [True] * len(order))
    best = ranked.group_by("cluster_id", maintain_order=True).head(1)
    holders = ranked.filter("_holds").group_by("cluster_id", maintain_order=True).head(1)
    kept = holders.join(best, on=["cluster_id", *_STRONG], how="semi", nulls_equal=True)
    chosen = pl.concat([kept, best.join(kept, on="cluster_id", how="anti")])
    others = ranked.join(chosen, on=["cluster_id", "url"], how="anti").group_by("cluster_id").head(1)
    both = chosen.join(others, on="cluster_id", how="left", suffix="_other")
    return both.select("cluster_id", canonical="url", by=_by())


def _judged() -> dict[str, pl.Expr]:
    url = pl.col("url")
    query = url.str.extract(r"\?(.*)$")
    return {
        "_declared": (pl.col("canonical_url") == url).fill_null(value=False),
        "_https": url.str.starts_with("https:"),
        "_plain": ~url.str.contains(_UNPLAIN),
        "_parameters": -(query.str.count_matches("[^&]+").fill_null(0).cast(pl.Int32)),
        "_score": pl.col("score").fill_null(0),
        "_length": -url.str.len_chars().cast(pl.Int32),
        "_found": -pl.col("found_at").dt.timestamp("us").fill_null(0),
        "_url": -url.rank("ordinal").over("cluster_id").cast(pl.Int64),
    }


def _by() -> pl.Expr:
    """The first criterion by which the chosen page beats the best of the others."""
    told = pl.lit(ONLY)
    for words, column in reversed(CRITERIA.items()):
        own, other = pl.col(column), pl.col(f"{column}_other")
        told = pl.when(own > other).then(pl.lit(words)).when(own < other).then(pl.lit(ONLY)).otherwise(told)
    return told
