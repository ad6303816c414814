"""Due URLs of patterns that are held for traps, or under suspicion: what is left out, and what is drawn seldom.

Reads `patterns`; the rule is core.traps'. Only hosts that have such a pattern cost anything.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline.core import selection, traps, url_patterns, urls
from crawl_pipeline.core.parameters import MARK
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning.dropping import NONE, Names
from crawl_pipeline.planning.sight import Sight

_PATHS = {"host": pl.String, "path": pl.String, "known_count": pl.Int64, "trap_score": pl.Float64,
          "held": pl.Boolean}  # fmt: skip
MARKED = ["host", "pattern", "action", "known_count", "acted_at", "trap_score", "failed_count", "trial_count"]


@dataclass(frozen=True, slots=True)
class Marks:
    """Patterns about which something is done, or that are in doubt, and the literals of their hosts."""

    patterns: pl.DataFrame
    literals: pl.DataFrame
    paths: pl.DataFrame
    """Paths whose patterns are in doubt together: see traps.paths."""
    apart: pl.DataFrame
    """All patterns that are told apart of hosts whose others are marked as one."""
    dropped: Names

    @property
    def hosts(self) -> list[str]:
        """Hosts that have some, or whose URLs have parameters that do not matter."""
        return [*{*self.patterns["host"], *self.dropped.hosts}]


def marks(sight: Sight, released: pl.DataFrame, policy: Policy, dropped: Names = NONE) -> Marks:
    """Read them, but for those that people release now (host and pattern; null: all of the host)."""
    doubted = pl.col("action").is_in([traps.THROTTLED, traps.BLOCKED]) | (pl.col("trap_score") > 0)
    doubted &= ~pl.col("pattern").str.starts_with(MARK)
    found = sight.rows("patterns", doubted).select(MARKED).collect()
    found = found.join(released.drop_nulls(), on=["host", "pattern"], how="anti")
    found = found.join(released.filter(pl.col("pattern").is_null()), on="host", how="anti")
    if found.is_empty():
        return Marks(found, pl.DataFrame(schema=url_patterns.WORDS), pl.DataFrame(schema=_PATHS), found, dropped)
    among = pl.col("host").is_in(found["host"].unique().implode())
    rows = sight.rows("patterns", among).collect()
    crowded = found.filter(pattern=traps.REST)["host"].implode()
    return Marks(
        found, url_patterns.literals_of(words(rows)), traps.paths(rows, policy),
        rows.select("host", "pattern").filter(pl.col("host").is_in(crowded)), dropped,
    )  # fmt: skip


def words(shapes: pl.DataFrame) -> pl.DataFrame:
    """What is learnt of paths, from their rows of `patterns`: the columns of url_patterns.WORDS, count and literal."""
    each = shapes.select("host", "segments", path="shape").filter(pl.col("segments").list.len() > 0).explode("segments")
    return each.unnest("segments").select(*url_patterns.WORDS, "count", "literal")


def pattern_of(lake: Lake, bucket: int, url: str) -> dict[str, Any] | None:
    """The row of `patterns` that a URL belongs to."""
    host = urls.host(url)
    rows = lake.scan("patterns", buckets=[bucket], where=pl.col("host") == host).collect()
    named = url_patterns.keyed(pl.DataFrame({"host": [host], "url": [url]}), url_patterns.literals_of(words(rows)))
    for pattern in (named["pattern"][0], traps.REST):
        if (found := rows.filter(pattern=pattern)).height:
            return found.row(0, named=True)
    return None


def held_path(lake: Lake, bucket: int, url: str, policy: Policy) -> str | None:
    """The path whose patterns are found to be traps together, if the URL is of it."""
    host = urls.host(url)
    rows = lake.scan("patterns", buckets=[bucket], where=pl.col("host") == host).collect()
    named = url_patterns.keyed(pl.DataFrame({"host": [host], "url": [url]}), url_patterns.literals_of(words(rows)))
    pattern = named.select("pattern", path=url_patterns.path_of("pattern")).row(0, named=True)
    held = traps.paths(rows, policy).filter("held")["path"]
    return pattern["path"] if "?" in pattern["pattern"] and pattern["path"] in held else None


def treated(due: pl.DataFrame, marks: Marks, policy: Policy, now: datetime) -> pl.DataFrame:
    """Add to due rows `factor`, of their weight in the draw, `trial`, the pattern in doubt that they belong to, and
    `trial_most`, how many of it a list may have; and fill in `barred` where a pattern is blocked.

    due: host, url_hash, barred, `unvisited`, and `marked_url`, null where the host has no such pattern.
    """
    rows = due.with_columns(
        factor=pl.lit(1.0), trial=pl.lit(None, pl.String), trial_most=pl.lit(None, pl.Int64)
    )  # fmt: skip
    mine = rows.filter(pl.col("marked_url").is_not_null())
    if mine.is_empty():
        return rows
    named = url_patterns.keyed(mine.select("host", url="marked_url"), marks.literals)
    mine = _with_rest(mine.with_columns(pattern=named["pattern"]), marks).join(
        marks.patterns, on=["host", "pattern"], how="left", maintain_order="left"
    )
    mine = _with_paths(mine, marks)
    blocked = (pl.col("action") == traps.BLOCKED).fill_null(value=False) | pl.col("held")
    probed = pl.Series(_probed(mine, policy, now))
    slow = (pl.col("action") == traps.THROTTLED).fill_null(value=False) | (blocked & ~pl.col("unvisited"))
    tried = pl.col("unvisited") & (pl.col("failed_count") >= traps.allowed_failures(policy, now)).fill_null(value=False)
    mine = mine.with_columns(
        barred=pl.when(blocked & pl.col("unvisited") & ~probed)
        .then(pl.coalesce("barred", pl.when("held").then(pl.lit(traps.HELD_PATH)).otherwise(pl.lit(traps.HELD_BACK))))
        .when(tried).then(pl.coalesce("barred", pl.lit(traps.ON_TRIAL)))
        .otherwise("barred"),
        factor=pl.when(slow).then(pl.lit(policy.traps.weight)).otherwise("factor"),
        trial=pl.when("doubted", "unvisited").then(pl.col("host") + pl.coalesce("path", "pattern")),
        trial_most=traps.needed(policy),
    )  # fmt: skip
    return pl.concat([rows.filter(pl.col("marked_url").is_null()), mine.select(rows.columns)])


def _with_paths(rows: pl.DataFrame, marks: Marks) -> pl.DataFrame:
    """Add the path that each URL is judged with, if it has a query and others of its path are in doubt."""
    queried = pl.when(pl.col("pattern").str.contains("?", literal=True)).then(url_patterns.path_of("pattern"))
    both = rows.with_columns(path=queried).join(
        marks.paths.rename({"known_count": "_known", "trap_score": "_score"}),
        on=["host", "path"],
        how="left",
        maintain_order="left",
    )
    doubted = pl.col("action").is_not_null() | pl.col("held").is_not_null()
    return both.with_columns(
        path=pl.when(pl.col("held").is_not_null()).then("path"), held=pl.col("held").fill_null(value=False),
        doubted=doubted, known_count=pl.coalesce("_known", "known_count"),
        trap_score=pl.coalesce("_score", "trap_score"),
    ).drop("_known", "_score")  # fmt: skip


def _with_rest(rows: pl.DataFrame, marks: Marks) -> pl.DataFrame:
    """Put the pattern that stands for all others in place of those that a host has too many of."""
    apart = marks.apart.select("host", "pattern", _apart=pl.lit(value=True))
    told = rows.join(apart, on=["host", "pattern"], how="left", maintain_order="left")
    rest = pl.col("_apart").is_null() & pl.col("host").is_in(marks.apart["host"].unique().implode())
    return told.with_columns(pattern=pl.when(rest).then(pl.lit(traps.REST)).otherwise("pattern")).drop("_apart")


def _probed(rows: pl.DataFrame, policy: Policy, now: datetime) -> npt.NDArray[np.bool_]:
    """Whether a URL belongs to the share of its pattern that is let through at this time, were it blocked.

    Told from the URL and the time alone, so that no round lets through more: at most about `probe_urls` of those known.
    """
    rule = policy.traps
    turns = ((pl.lit(now) - pl.col("acted_at")).dt.total_seconds().fill_null(0) // int(max(1, rule.probe_s))).cast(
        pl.Int64
    )
    number = rows.select(turn=turns)["turn"].to_numpy()
    known = np.maximum(rows["known_count"].fill_null(1).to_numpy(), 1)
    share = np.minimum(rule.probe_share * known, rule.probe_urls)
    least = 1.0 if rule.probe_share and rule.probe_urls else 0.0
    hashes = rows["url_hash"].to_numpy() + number
    let_through: npt.NDArray[np.bool_] = selection.uniform(hashes, 0) <= np.maximum(share, least) / known
    return let_through
