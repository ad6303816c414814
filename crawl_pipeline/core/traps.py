"""Traps: which URL patterns of a host give worthless pages without end, and what is done about them.

Each page of a pattern is judged once, at its first visit: worthless if it repeats an earlier page of the host, has
next to no text, or is the host's way to say not found; good if not. The first page of a content is good, its copies
are not. Of a pattern this makes a sequence of trials for Wald's sequential probability ratio test (1945) between an
ordinary share of worthless pages and that of a trap. With the default shares of 0.5 and 0.9 a worthless page adds
ln(0.9 / 0.5) = 0.588 to the score and a good one ln(0.1 / 0.5) = -1.609.

    suspicious   at half of what blocks: drawn with a tenth of the weight          4.6   (error 1e-2)
    blocked      ln((1 - clear_error) / block_error): all but a probe is left out  9.2   (error 1e-4)
    cleared      ln(clear_error / (1 - block_error))                              -4.6   (error 1e-2)

The score stays within the last two, so that the test goes on for ever: what was cleared and then repeats itself is
blocked after 24 such pages in a row, which happens to an ordinary pattern less than once in a million times
(exp(-9.2 - 4.6)); what is blocked and turns out good in probes is let go after three.

A trap has no end, so only what grows is blocked: a pattern of whose URLs its own pages have named GROWN new ones since
they began to repeat others. Of a shop every product of which has been seen in one of its colours the other colours are
left; they are copies, but few, and are drawn seldom.

What a calendar or a list of facets looks like (`signals`) counts as up to MOST_SIGNALS more worthless pages, and only
where pages themselves say as much: it never acts alone. A pattern that other sites link to, that a sitemap names, or of
the front page is never blocked, only drawn seldom.

Frames and numbers in, rows of `patterns` out. Nothing is fetched or remembered here.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import url_patterns
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import PATTERNS

NONE, THROTTLED, BLOCKED, CLEARED = "none", "throttled", "blocked", "cleared"
GOOD = "good"
FAILED = "failed"
"""The verdict of a URL whose answer began and came too slowly, too long or not as it should: it costs more than a page,
and may pass, so that it makes a pattern suspicious and never blocks it."""
COSTS = 3
"""Worthless pages that such an answer counts for: it holds up its host for as long as dozens of pages."""
WORTHLESS = {"exact": "exact_count", "near": "near_count", "thin": "thin_count", "soft404": "soft404_count",
             FAILED: "failed_count"}  # fmt: skip
"""Verdicts of worthless pages, and the column that counts each."""
HELD_BACK = "pattern blocked as a trap"
"""Why a URL of a blocked pattern is left out."""
HELD_PATH = "patterns of its path blocked as a trap"
"""Why a URL is left out whose pattern is not judged yet, while others of its path are found to be traps together."""
ON_TRIAL = "pattern under suspicion"
"""Why more URLs of a pattern in doubt than are needed to judge it are left out, or than its failures leave time for."""
REST = "*"
"""The pattern that stands for all of a host that are too many to be told apart."""
FRONT = ("/", "/?{slug}")
MOST_SIGNALS = 4
LEAST_LINKS = 20
"""Links of a pattern's pages from which on they tell something."""
EXAMPLES = 3
FEW = 4
"""URLs of a pattern in doubt that a fetch list may have at least."""
MANY = 3
"""Patterns of one path from which on they are judged together."""
GROWN = 8
"""URLs of a pattern that its own pages named since they began to be worthless, from which on it grows."""
NAMES = (
    "sort", "order", "view", "sid", "session", "sessionid", "phpsessid", "jsessionid", "date", "day", "month", "year",
    "replytocom", "filter",
)  # fmt: skip
"""Parameters that sort, filter or step through the same things, or name a session."""

COUNTS = ["known_count", "trial_count", *WORTHLESS.values(), "out_link_count", "own_link_count", "step_link_count",
          "new_url_count", "grown_count"]  # fmt: skip
KEY = ["host", "pattern"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The numbers of the test: what a page adds to the score, and where it leads."""

    worthless: float
    good: float
    suspicious: float
    block: float
    clear: float

    @classmethod
    def of(cls, policy: Policy) -> "Steps":
        """The test that a policy asks for."""
        rule = policy.traps
        block = math.log((1 - rule.clear_error) / rule.block_error)
        return cls(
            math.log(rule.trap / rule.ordinary), math.log((1 - rule.trap) / (1 - rule.ordinary)), block / 2, block,
            math.log(rule.clear_error / (1 - rule.block_error)),
        )  # fmt: skip

    def after(self, score: float, verdicts: Iterable[str]) -> tuple[float, bool]:
        """The score once these pages are judged, one after the other; and if it led to a block that still holds."""
        blocked = False
        for verdict in verdicts:
            most = self.block if verdict != FAILED else max(score, self.suspicious)
            score += self.good if verdict == GOOD else self.worthless * (COSTS if verdict == FAILED else 1)
            score = min(max(score, self.clear), most)
            blocked = score >= self.block or (blocked and score >= self.suspicious)
        return score, blocked


@dataclass(frozen=True, slots=True)
class News:
    """What a round tells of patterns; each frame has host, pattern and shape.

    trials: `url`, `verdict` and `like`, the URL of the page that it repeats, in the order of their visits;
    counts: some of COUNTS, to be added; linked: `linked_from`, a site's hash or null, and `listed`;
    released: patterns that a person released (host, pattern);
    split: paths of shapes (host, path) of which a segment has become a literal.
    """

    trials: pl.DataFrame
    counts: pl.DataFrame
    linked: pl.DataFrame
    released: pl.DataFrame
    split: pl.DataFrame


def learn(before: pl.DataFrame, news: News, now: datetime, policy: Policy) -> pl.DataFrame:
    """Give the new rows of the patterns that the news are about. `before`: rows of `patterns` of their hosts."""
    told = [frame.select(*KEY, "shape") for frame in (news.trials, news.counts, news.linked)]
    shapes = before.filter(pl.col("pattern") == pl.col("shape")).with_columns(path=url_patterns.path_of("shape"))
    told += [
        before.join(news.released, on=KEY, how="semi").select(*KEY, "shape"),
        shapes.join(news.split, on=["host", "path"], how="semi").select(*KEY, "shape"),
    ]
    keys = pl.concat(told).unique(KEY)
    rows = keys.join(before.drop("shape"), on=KEY, how="left", maintain_order="left")
    rows = rows.with_columns(
        pl.col(COUNTS).fill_null(0), pl.col("trap_score").fill_null(0.0), pl.col("action").fill_null(NONE),
        pl.col("listed").fill_null(value=False),
    )  # fmt: skip
    rows = _split(rows, before, news.split, Steps.of(policy))
    rows = rows.with_columns(grown_count=pl.when(pl.col("trap_score") > 0).then("grown_count").otherwise(0))
    rows = _linked(_counted(rows, _verdict_counts(news.trials), news.counts), news.linked, policy)
    rows = _examples(_scored(rows, news.trials, Steps.of(policy)), news.trials)
    rows = _released(rows, news.released, now, policy)
    return PATTERNS.frame(_acted(rows, now, policy).drop("round", "layer", "layout").sort(KEY))


def bounded(rows: pl.DataFrame, before: pl.DataFrame, most: int) -> pl.DataFrame:
    """Rows with host, pattern and shape, in which REST stands for new patterns beyond the bound of a host."""
    known = before.group_by("host").agg(_known=pl.len())
    new = rows.select(KEY).unique().join(before.select(KEY), on=KEY, how="anti").join(known, on="host", how="left")
    place = pl.col("pattern").rank("ordinal").over("host") + pl.col("_known").fill_null(0)
    beyond = new.filter(place > most).select(*KEY, _rest=pl.lit(REST))
    if beyond.is_empty():
        return rows
    both = rows.join(beyond, on=KEY, how="left", maintain_order="left")
    return both.with_columns(pl.coalesce("_rest", name).alias(name) for name in ("pattern", "shape")).drop("_rest")


def signals(policy: Policy) -> dict[str, pl.Expr]:
    """What looks like a calendar, facets or a session: prior evidence, over rows of `patterns`."""
    names = pl.col("pattern").str.to_lowercase().str.extract(r"[?;](.*)$").str.split("&")
    enough, links = pl.col("out_link_count") >= LEAST_LINKS, pl.col("out_link_count")
    return {
        "its parameters sort, filter or name a session":
            names.list.set_intersection(list(NAMES)).list.len().fill_null(0) > 0,
        "its links lead back to it": enough & (pl.col("own_link_count") > 0.95 * links),
        "its links step by numbers": enough & (pl.col("step_link_count") > 0.5 * links),
        "each page names new URLs": (pl.col("trial_count") >= 8) & (pl.col("new_url_count") >= pl.col("trial_count")),
    }  # fmt: skip


def spared(policy: Policy) -> dict[str, pl.Expr]:
    """Why a pattern is never blocked, over rows of `patterns`."""
    return {
        "other sites link to it": pl.col("linked_from").list.len().fill_null(0) >= policy.traps.linking_sites,
        "a sitemap names it": pl.col("listed").fill_null(value=False),
        "it is the front page": pl.col("pattern").is_in(FRONT),
    }


def weight_of_evidence(policy: Policy) -> pl.Expr:
    """The score with what the signals add; they count where pages say as much as they could."""
    step = Steps.of(policy).worthless
    seen = pl.sum_horizontal(signal.cast(pl.Float64) for signal in signals(policy).values())
    score = pl.col("trap_score")
    return score + pl.when(score >= MOST_SIGNALS * step).then(step * seen.clip(0, MOST_SIGNALS)).otherwise(0.0)


def paths(patterns: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Paths with queries (host, path) whose patterns are in doubt together, and if all of them are `held`.

    A list with facets has a pattern per choice of parameters, and few pages of each are seen. Their scores are the logs
    of likelihood ratios of different pages, so that their sum tests whether all are traps. It takes MANY patterns of
    one path, of which some grow, none is spared and none was cleared.
    """
    path_and_query = pl.col("pattern").str.contains("?", literal=True) & pl.col("pattern").str.starts_with("/")
    with_query = patterns.filter(path_and_query & (pl.col("trial_count") > 0))
    bad = ~pl.any_horizontal(spared(policy).values()) & (pl.col("action") != CLEARED)
    sums = with_query.group_by("host", path=url_patterns.path_of("pattern")).agg(
        pl.len().alias("_patterns"), pl.col("trap_score").sum().alias("_score"), bad.all().alias("_bad"),
        pl.col("grown_count").sum().alias("_grown"),
        known_count=pl.col("known_count").sum(),
    )  # fmt: skip
    held = (
        pl.col("_bad") & (pl.col("_patterns") >= MANY) & (pl.col("_grown") >= GROWN)
        & (pl.col("_score") >= Steps.of(policy).block) & (policy.traps.act == "block")
    )  # fmt: skip
    doubted = pl.col("_score") > 0
    return sums.filter(doubted).select("host", "path", "known_count", trap_score="_score", held=held)


def needed(policy: Policy) -> pl.Expr:
    """How many more pages are needed to judge what has a `trap_score`, if they are worthless; a few at least."""
    steps = Steps.of(policy)
    pages = ((steps.block - pl.col("trap_score")) / steps.worthless).ceil().cast(pl.Int64) + 1
    return pages.clip(FEW, max(FEW, policy.traps.doubt_urls))


def allowed_failures(policy: Policy, now: datetime) -> pl.Expr:
    """How many URLs of a pattern may have failed by now, over rows with `acted_at`; null where failures are not what
    made it suspicious.

    Such a URL may hold up its host for as long as dozens of pages take, so that a tenth of the weight in a draw is no
    tenth of the time: where little else is known of the host, all its time. Hence `weight` counts as a share of time.
    """
    fetch, pace = policy.fetch, policy.politeness
    cost_s = fetch.total_s + min(pace.download_factor * fetch.total_s, pace.download_gap_cap_s)
    steps = Steps.of(policy)
    first = math.ceil(steps.suspicious / (COSTS * steps.worthless))
    since_s = (pl.lit(now) - pl.col("acted_at")).dt.total_seconds()
    mostly = (pl.col("action") == THROTTLED) & (2 * pl.col("failed_count") > pl.col("trial_count"))
    return pl.when(mostly).then(first + policy.traps.weight * since_s / cost_s)


def in_words(row: Mapping[str, object], policy: Policy) -> str:
    """Say what is known of a pattern, with its evidence: for people."""
    one = PATTERNS.frame([dict(row)])
    found = [says for says, signal in signals(policy).items() if one.select(signal).item()]
    kept = [says for says, reason in spared(policy).items() if one.select(reason).item()]
    counts = ", ".join(f"{row[column]} {name}" for name, column in WORTHLESS.items() if row[column])
    said = f"{row['pattern']} is {row['action']}: of {row['trial_count']} pages judged {counts or 'none worthless'}"
    said += f"; score {float(str(row['trap_score'])):.1f}"
    said += f", with: {', '.join(found)}" if found else ""
    return said + (f"; never blocked: {', '.join(kept)}" if kept else "")


def _split(rows: pl.DataFrame, before: pl.DataFrame, split: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """A shape of which a pattern has been taken out begins anew, for what it showed may have been that pattern's; the
    pattern begins at suspicion at most.
    """
    mark = split.unique().with_columns(_split=pl.lit(value=True))
    whole = before.filter(pl.col("pattern") == pl.col("shape")).select("host", "shape", _whole="trap_score")
    both = rows.with_columns(path=url_patterns.path_of("shape"))
    both = both.join(mark, on=["host", "path"], how="left", maintain_order="left").drop("path")
    both = both.join(whole, on=["host", "shape"], how="left", maintain_order="left")
    new, taken = pl.col("acted_at").is_null(), pl.col("_split") & (pl.col("pattern") == pl.col("shape"))
    suspected = pl.col("_whole").fill_null(0.0).clip(0.0, steps.suspicious)
    score = pl.when(taken).then(0.0).when(pl.col("_split") & new).then(suspected).otherwise("trap_score")
    return both.with_columns(trap_score=score, action=pl.when(taken).then(pl.lit(NONE)).otherwise("action")).drop(
        "_split", "_whole"
    )


def _counted(rows: pl.DataFrame, *counts: pl.DataFrame) -> pl.DataFrame:
    parts = [
        rows.select(*KEY, *COUNTS),
        *(part.select(*KEY, *(c for c in COUNTS if c in part.columns)) for part in counts),
    ]
    sums = pl.concat(parts, how="diagonal_relaxed").group_by(KEY).agg(pl.col(COUNTS).sum())
    return rows.drop(COUNTS).join(sums, on=KEY, how="left", maintain_order="left")


def _verdict_counts(trials: pl.DataFrame) -> pl.DataFrame:
    each = [(pl.col("verdict") == verdict).sum().cast(pl.Int64).alias(column) for verdict, column in WORTHLESS.items()]
    return trials.group_by(KEY).agg(pl.len().cast(pl.Int64).alias("trial_count"), *each)


def _linked(rows: pl.DataFrame, linked: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Keep a few of the sites that link to each pattern, and that a sitemap names it."""
    new = linked.group_by(KEY).agg(
        _from=pl.col("linked_from").drop_nulls().unique().sort(), _listed=pl.col("listed").any()
    )
    both = rows.join(new, on=KEY, how="left", maintain_order="left")
    old, more = (pl.coalesce(pl.col(name), pl.lit([], pl.List(pl.Int64))) for name in ("linked_from", "_from"))
    most = policy.traps.linking_sites
    return both.with_columns(
        linked_from=pl.concat_list(old, more.list.set_difference(old).list.sort()).list.head(most),
        listed=pl.col("listed") | pl.col("_listed").fill_null(value=False),
    ).drop("_from", "_listed")


def _scored(rows: pl.DataFrame, trials: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """The test itself: a pattern's pages one after the other, since the score may not pass its ends."""
    of = trials.group_by(KEY, maintain_order=True).agg(_verdicts="verdict")
    both = rows.join(of, on=KEY, how="left", maintain_order="left")
    pairs = both.select("trap_score", "_verdicts").iter_rows()
    found = [steps.after(score, verdicts or ()) for score, verdicts in pairs]
    made = pl.DataFrame(found, schema={"trap_score": pl.Float64, "_led": pl.Boolean}, orient="row")
    return pl.concat([both.drop("_verdicts", "trap_score"), made], how="horizontal")


def _examples(rows: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    like = pl.lit(" like ") + pl.col("like")
    said = pl.col("verdict") + pl.lit(": ") + pl.col("url") + like.fill_null("")
    bad = trials.filter(pl.col("verdict") != GOOD).with_columns(_said=said)
    new = bad.group_by(KEY, maintain_order=True).agg(_new=pl.col("_said").tail(EXAMPLES))
    both = rows.join(new, on=KEY, how="left", maintain_order="left")
    old, more = (pl.coalesce(pl.col(name), pl.lit([], pl.List(pl.String))) for name in ("examples", "_new"))
    return both.with_columns(examples=pl.concat_list(old, more).list.tail(EXAMPLES)).drop("_new")


def _released(rows: pl.DataFrame, released: pl.DataFrame, now: datetime, policy: Policy) -> pl.DataFrame:
    both = rows.join(released.select(KEY).unique().with_columns(_free=pl.lit(value=True)), on=KEY, how="left",
                     maintain_order="left")  # fmt: skip
    return both.with_columns(
        trap_score=pl.when("_free").then(pl.lit(Steps.of(policy).clear)).otherwise("trap_score"),
        action=pl.when("_free").then(pl.lit(CLEARED)).otherwise("action"),
        acted_at=pl.when("_free").then(pl.lit(now)).otherwise("acted_at"),
        released_at=pl.when("_free").then(pl.lit(now)).otherwise("released_at"),
    ).drop("_free")


def _acted(rows: pl.DataFrame, now: datetime, policy: Policy) -> pl.DataFrame:
    """Decide what is done about each pattern; what is blocked stays so until its score is no longer suspicious."""
    steps, rule = Steps.of(policy), policy.traps
    evidence, was = weight_of_evidence(policy), pl.col("action")
    grown = pl.col("grown_count") >= GROWN
    held = (was == BLOCKED) | (pl.col("_led") & grown)
    fresh = (
        pl.col("released_at").fill_null(datetime.min.replace(tzinfo=now.tzinfo)) + timedelta(seconds=rule.released_s)
        > now
    )
    may_block = ~pl.any_horizontal(spared(policy).values()) & ~fresh & (rule.act == "block")
    proved = grown & (evidence >= steps.block - 1e-9)
    blocked = may_block & (proved | (held & (evidence >= steps.suspicious)))
    action = (
        pl.when(blocked).then(pl.lit(BLOCKED))
        .when((evidence >= steps.suspicious) & (rule.act != "record")).then(pl.lit(THROTTLED))
        .when((pl.col("trap_score") <= steps.clear + 1e-9) | (was == CLEARED)).then(pl.lit(CLEARED))
        .otherwise(pl.lit(NONE))
    )  # fmt: skip
    rows = rows.with_columns(_action=action)
    since = pl.when(pl.col("_action") == was).then("acted_at").otherwise(pl.lit(now))
    rows = rows.with_columns(acted_at=pl.coalesce(since, pl.lit(now)), action="_action").drop("_action", "_led")
    return rows.with_columns(probe_at=pl.when(pl.col("action") == BLOCKED).then(_next_probe(now, rule.probe_s)))


def _next_probe(now: datetime, every_s: float) -> pl.Expr:
    turns = ((pl.lit(now) - pl.col("acted_at")).dt.total_seconds() // every_s) + 1
    return pl.col("acted_at") + pl.duration(microseconds=(turns * every_s * 1e6).cast(pl.Int64))
