"""Make the fetch list: what is due, what robots.txt settles without a request, what each host is asked for.

Reads state and robots.txt answers, asks core.selection and core.robots; writes nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline.core import blocks, merit, robots, selection, sharing, urls, validators
from crawl_pipeline.core.patterns import matches_any
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.core.tables import CHANGE_FREQUENCY
from crawl_pipeline.fetch.visits import Elsewhere, HostQueue, RobotsAnswer, Target
from crawl_pipeline.planning import dropping, evidence, marking
from crawl_pipeline.planning.marking import Marks
from crawl_pipeline.planning.ranks import UNRANKED, Scores
from crawl_pipeline.planning.sight import Sight

Rules = dict[int, robots.Rules]
"""Parsed robots.txt answers by robots_id, kept warm between rounds."""

_DRAWN = [
    "bucket",
    "url_hash",
    "host",
    "band",
    "due_at",
    "kind",
    "score",
    "visited_at",
    "evidence_a",
    "evidence_b",
    "lastmod_at",
    "moved_count",
]
"""What selection needs of a due URL: a frontier may have millions, of which a round asks for some thousands."""
_HORIZON = timedelta(days=2)
JUDGED = 100_000
"""Rules times URLs that one plan looks at for one host; the rest is judged when its turn comes."""

_TARGET = ["url", "url_hash", "kind", "depth", "hops", "tag", "etag", "last_modified", "held_back"]


ENOUGH = 5_000
"""Due URLs of one large host that a plan looks at: far more than politeness lets a round ask for."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is due: the columns a draw needs and why it is `barred`, if so; how many more are due in slices not read."""

    rows: pl.DataFrame
    unread: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A fetch list: rows of `frontier`, the same as host queues, who was left out, and what is known of old visits.

    `unpaid`: what the best visit was worth that the budget could not pay for.

    `judged` are all due URLs but those that robots.txt settles, with what `selection.judge` says of each.
    """

    fetch_list: pl.DataFrame
    judged: pl.DataFrame
    left_out: pl.DataFrame
    visited_before: pl.DataFrame
    queues: Sequence[HostQueue]
    unpaid: float | None


def due(
    sight: Sight, fresh: pl.DataFrame, in_hand: Sequence[int], policy: Policy, released: pl.DataFrame | None = None,
    dropped: dropping.Names = dropping.NONE, scores: Scores = UNRANKED, *, enough: int = ENOUGH,
) -> Due:  # fmt: skip
    """What may be asked for now and is not in hand; of large hosts what is enough.

    `fresh`: rows of this round, just admitted or changed by an order; they stand for those that are stored;
    `released`: patterns that people release; `dropped`: parameters that do not matter; `scores`:
    what their ranks make of them.
    """
    released = pl.DataFrame(schema=evidence.RELEASED) if released is None else released
    marks = marking.marks(sight, released, policy, dropped)
    read = _Read(sight, policy, marks, scores)
    stored = read.made(read.due_in([0]).drop("layer"))
    sliced, unread = _of_large_hosts(read, enough)
    new = fresh.filter(pl.col("due_at") <= sight.now).select(read.columns)
    old, now = pl.concat([stored, *sliced]), read.made(new.lazy())
    changed = fresh.filter(pl.col("found_at") < sight.now)  # what was admitted is found now, and not stored
    rows = pl.concat([old.join(changed, on="url_hash", how="anti") if changed.height else old, now])
    rows = dropping.held(sight, rows, dropped, policy)
    return Due(rows.filter(~pl.col("url_hash").is_in(list(in_hand))) if in_hand else rows, unread)


@dataclass(frozen=True, slots=True)
class _Read:
    """How due rows are read: which columns, what is done about their patterns, what they are worth by their ranks."""

    sight: Sight
    policy: Policy
    marks: Marks
    scores: Scores

    @property
    def columns(self) -> list[pl.Expr]:
        """What a draw needs, and what is told from a URL itself, so that it need not be kept."""
        return [*map(pl.col, (*_DRAWN, *self.scores.columns)), *_told(self.policy, self.marks)]

    def due_in(self, parts: Sequence[int]) -> pl.LazyFrame:
        """Due rows of some parts."""
        due = self.sight.rows("frontier", pl.col("due_at") <= self.sight.now, parts=parts)
        return due.select(*self.columns, "layer")

    def in_slices(self, slices: pl.DataFrame) -> pl.LazyFrame:
        """Due rows of slices; what has changed since they were written lies in the tail, and is read with part 0."""
        return self.due_in(slices["part"].to_list()).filter(pl.col("layer") == "base").drop("layer")

    def made(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Due rows with all that is told of them."""
        treated = marking.treated(rows.collect(), self.marks, self.policy, self.sight.now)
        return self.scores.of(treated, self.policy)


def _of_large_hosts(read: _Read, enough: int) -> tuple[list[pl.DataFrame], dict[int, int]]:
    """Due rows of slices, read in an order drawn for this round until each host has enough; and how many are left."""
    sight = read.sight
    slices = sight.lake.slices("frontier", sight.lease.buckets, sight.at)
    drawn = slices.with_columns(draw=selection.uniform(slices["part"].cast(pl.Int64).to_numpy(), sight.lease.round))
    turns = drawn.sort("draw").with_columns(turn=pl.int_range(pl.len()).over("host"))
    found, left = list[pl.DataFrame](), Counter[int]()
    for turn in range(turns["turn"].n_unique()):
        here = turns.filter((pl.col("turn") == turn) & ~pl.col("host").is_in(_with_enough(found, enough)))
        turns = turns.join(here, on="part", how="anti")
        rows = read.made(read.in_slices(here)) if here.height else None
        if rows is not None:
            found.append(_first_of_each(rows, read.policy, sight, enough))
            left.update(dict(rows.join(found[-1], on="url_hash", how="anti").group_by("bucket").len().iter_rows()))
    if turns.height:
        left.update(dict(read.in_slices(turns).group_by("bucket").len().collect().iter_rows()))
    return found, dict(left)


def _first_of_each(rows: pl.DataFrame, policy: Policy, sight: Sight, most: int) -> pl.DataFrame:
    """Of each host the new URLs that the draw puts first and the visits that are worth most; and what is barred."""
    barred, rows = rows.filter(pl.col("barred").is_not_null()), rows.filter(pl.col("barred").is_null())
    drawn = rows.with_columns(selection.draws(rows, policy, sight.lease.round)).with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in ("prior_b", "life", *merit.OF_DATES)
    )
    first = sharing.nearest(merit.valued(drawn, policy, sight.now), most)
    return pl.concat([first.select(rows.columns), barred])


def _with_enough(found: list[pl.DataFrame], enough: int) -> list[str]:
    if not found:
        return []
    return (
        pl.concat(found)
        .filter(pl.col("barred").is_null())
        .group_by("host")
        .len()
        .filter(pl.col("len") >= enough)["host"]
        .to_list()
    )


def _told(policy: Policy, marks: Marks) -> list[pl.Expr]:
    """What is told from a URL itself, so that it need not be kept: only of hosts with marked patterns it is."""
    return [
        pl.when(matches_any(pl.col("url"), policy.block.urls))
        .then(pl.lit(blocks.URLS))
        .when(pl.col("outcome").is_null() & policy.recrawl.only)
        .then(pl.lit(selection.NEW_WAIT))
        .alias("barred"),
        # What people seed is asked for, wherever it lies: patterns hold back what pages lead to.
        (pl.col("outcome").is_null() & (pl.col("kind") != "seed")).alias("unvisited"),
        pl.when(pl.col("host").is_in(marks.hosts)).then("url").alias("marked_url"),
    ]


def make_list(
    sight: Sight, due: pl.DataFrame, fresh: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, rules: Rules,
    seconds: float | None, most: int | None = None,
) -> Listed:  # fmt: skip
    """Select; URLs that a known robots.txt forbids go on the list beside the quota, for they cost no request."""
    seed = sight.lease.round
    barred, due = due.filter(pl.col("barred").is_not_null()), due.filter(pl.col("barred").is_null())
    selected = selection.select(due, hosts, policy, sight.now, seed, seconds, most)
    suspects = _suspects(sight, due, selected.fetch_list, hosts, policy, rules)
    rows = _whole(sight, pl.concat([suspects, selected.fetch_list]), fresh)
    forbidden = _forbidden(sight, rows.join(suspects, on="url_hash", how="semi"), hosts, policy, rules)
    if forbidden.height:
        allowed = due.join(forbidden, on="url_hash", how="anti")
        selected = selection.select(allowed, hosts, policy, sight.now, seed, seconds, most)
        unread = selected.fetch_list.join(rows, on="url_hash", how="anti")
        rows = pl.concat([rows, _whole(sight, unread, fresh)])
    scored = selected.fetch_list.select("url_hash", "score", "band")
    chosen = scored.join(rows.drop("score", "band"), on="url_hash", maintain_order="left")
    fetch_list = pl.concat([forbidden, chosen.select(forbidden.columns)])
    before = _visited_before(sight, fetch_list, policy)
    queues = _queues(sight, fetch_list, hosts, before, policy, rules)
    left_out = pl.concat([_tally(barred), selected.left_out])
    return Listed(fetch_list, selected.judged, left_out, before, queues, selection.unpaid(selected.judged))


def _tally(due: pl.DataFrame) -> pl.DataFrame:
    """Tally by bucket the due URLs that the policy blocks or lets wait, or that are held for a trap."""
    return due.group_by("bucket", name="barred").agg(count=pl.len().cast(pl.Int64))


def _whole(sight: Sight, wanted: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Whole rows of `frontier` for due URLs."""
    among = pl.col("url_hash").is_in(wanted["url_hash"].unique().implode())
    new = fresh.filter(among)
    if new.height == wanted["url_hash"].n_unique():
        return new
    # By due date, which the order of a base makes the shorter way than the hashes.
    stored = sight.rows("frontier", (pl.col("due_at") <= sight.now) & among).collect()
    return pl.concat([stored.select(new.columns).join(new, on="url_hash", how="anti"), new])


def next_due(sight: Sight, fetch_list: pl.DataFrame) -> dict[int, datetime]:
    """When the next URL falls due in the buckets that have nothing to be asked for now.

    Looks two days ahead, then further: a base lies in the order of due days, so that a near date is found early in it.
    """
    empty, soon = set(sight.lease.buckets) - set(fetch_list["bucket"]), sight.now + _HORIZON
    found = _first_due(sight, sorted(empty), sight.now, soon) if empty else {}
    left = sorted(empty - set(found))
    return found | (_first_due(sight, left, soon, None) if left else {})


def _first_due(sight: Sight, buckets: list[int], since: datetime, until: datetime | None) -> dict[int, datetime]:
    due = pl.col("due_at")
    later = sight.lake.scan("frontier", buckets=buckets, at=sight.at,
                            where=(due > since) & (due <= until) if until else due > since)  # fmt: skip
    return dict(later.group_by("bucket").agg(due.min()).collect().iter_rows())


def _suspects(
    sight: Sight, due: pl.DataFrame, fetch_list: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, rules: Rules
) -> pl.DataFrame:
    """Due URLs of listed hosts whose robots.txt forbids something: at most as many as a round holds."""
    answers = _answers_of(sight, hosts.join(fetch_list, on="host", how="semi"), policy, rules)
    strict = [host for host, of in answers.items() if any(answer.rules.rules for answer in of.values())]
    return due.filter(pl.col("host").is_in(strict)).head(policy.round.urls)


def _forbidden(sight: Sight, suspects: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, rules: Rules) -> pl.DataFrame:
    answers = _answers_of(sight, hosts.join(suspects, on="host", how="semi"), policy, rules)
    suspects = suspects.filter(_turns_of(suspects) < _most_judged(answers))
    return suspects.filter(
        pl.Series([_is_forbidden(answers[host], url) for host, url in suspects.select("host", "url").iter_rows()],
                  dtype=pl.Boolean)
    )  # fmt: skip


def _turns_of(suspects: pl.DataFrame) -> pl.Series:
    return suspects.select(turn=pl.int_range(pl.len()).over("host"))["turn"]


def _most_judged(answers: Mapping[str, Mapping[str, RobotsAnswer]]) -> pl.Expr:
    """How many URLs of each host are judged in one plan: a file of many rules must not hold up everybody's round."""
    most = {host: JUDGED // (1 + sum(len(a.rules.rules) for a in of.values())) for host, of in answers.items()}
    return pl.col("host").replace_strict(most, default=0, return_dtype=pl.Int64)


def _answers_of(sight: Sight, hosts: pl.DataFrame, policy: Policy, rules: Rules) -> dict[str, dict[str, RobotsAnswer]]:
    return _robots_in_force(sight, list(hosts.iter_rows(named=True)), policy, rules)


def _is_forbidden(answers: Mapping[str, RobotsAnswer], url: str) -> bool:
    answer = answers.get(urls.origin(url))
    return answer is not None and answer.state == "rules" and not answer.rules.allowed(url)


def _visited_before(sight: Sight, fetch_list: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Rows of `change_frequency` for the pages on the list that are visited again: evidence and validators."""
    again = fetch_list.filter(pl.col("outcome").is_not_null())
    if again.is_empty():
        return CHANGE_FREQUENCY.empty()
    return _weighed(sight, sight.rows("change_frequency", url_hashes=again["url_hash"]).collect(), policy)


def _weighed(sight: Sight, visited: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The same with the weight that each page has now: a copy of another one is visited less often."""
    is_copy = pl.col("canonical") != pl.col("url")
    copies = sight.lake.scan("clusters", where=is_copy, url_hashes=visited["url_hash"], at=sight.at).select("url_hash")
    of_copy = pl.col("url_hash").is_in(copies.collect()["url_hash"].implode())
    return visited.with_columns(weight=pl.when(of_copy).then(policy.duplicates.weight).otherwise(1.0).cast(pl.Float32))


def _queues(
    sight: Sight, fetch_list: pl.DataFrame, hosts: pl.DataFrame, visited_before: pl.DataFrame, policy: Policy,
    rules: Rules,
) -> list[HostQueue]:  # fmt: skip
    listed = fetch_list.join(visited_before.select("url_hash", "etag", "last_modified"), on="url_hash", how="left")
    listed = listed.with_columns(validators.held_back(listed, hosts, policy, sight.lease.round))
    rows = {row["host"]: row for row in hosts.join(listed, on="host", how="semi").iter_rows(named=True)}
    answers = _robots_in_force(sight, list(rows.values()), policy, rules)
    left = selection.left_today(hosts.join(hosts.join(listed, on="host", how="semi"), on="site", how="semi"), policy,
                                sight.now)  # fmt: skip
    return [
        HostQueue(
            host, rows[host]["bucket"], selection.pace_of(rows[host]), rows[host]["next_allowed_at"],
            answers.get(host, {}), tuple(Target(*target) for target in targets.select(_TARGET).iter_rows()),
            left.hosts[host], left.sites[rows[host]["site"]],
        )
        for (host,), targets in listed.group_by("host", maintain_order=True)
    ]  # fmt: skip


def elsewhere(sight: Sight, hosts: pl.DataFrame, policy: Policy) -> Elsewhere:
    """What is known of any host that a robots.txt may lead to, `hosts` being all of the leased buckets."""

    def known_of(host: str) -> HostQueue | str:
        bucket = urls.bucket(urls.site(host), sight.lake.buckets)
        if bucket not in sight.lease.buckets:
            return f"{host} lies in bucket {bucket}, which this worker has not leased"
        row = next(hosts.filter(host=host).iter_rows(named=True), None)
        if row is None:  # a worker that vanished may have asked it until its lease ended
            ended, rest = sight.lease.crashed.get(bucket), timedelta(seconds=policy.delay_s(host))
            return HostQueue(host, bucket, HostPace(), ended and ended + rest, {}, ())
        return (
            f"{host} is paused"
            if row["paused"]
            else HostQueue(host, bucket, selection.pace_of(row), row["next_allowed_at"], {}, ())
        )

    return known_of


def _robots_in_force(
    sight: Sight, hosts: list[dict[str, Any]], policy: Policy, rules: Rules
) -> dict[str, dict[str, RobotsAnswer]]:
    """The robots.txt answers that have not expired, by host and origin; bodies are read and parsed once."""
    wanted = [state for row in hosts for state in _robots_states(row) if state["expires_at"] > sight.now]
    unread = [state["robots_id"] for state in wanted if state["robots_id"] not in rules]
    if unread:
        for row in _answers(sight, unread).iter_rows(named=True):
            url = robots.robots_url(row["origin"])
            rules[row["robots_id"]] = robots.read(row["body"] or b"", policy.agent.name, url=url)
    return {
        row["host"]: {
            state["origin"]: RobotsAnswer(
                bucket=row["bucket"], host=row["host"], origin=state["origin"],
                robots_id=state["robots_id"], fetched_at=sight.now, expires_at=state["expires_at"],
                state=state["state"], rules=rules[state["robots_id"]],
            )
            for state in _robots_states(row) if state["expires_at"] > sight.now and state["robots_id"] in rules
        }
        for row in hosts
    }  # fmt: skip


def _answers(sight: Sight, ids: list[int]) -> pl.DataFrame:
    """Rows of `robots`. An answer stays in the bucket it was given in, which is another after a rebucketing."""
    among = pl.col("robots_id").is_in(ids)
    own = sight.rows("robots", among).collect()
    if own["robots_id"].n_unique() == len(set(ids)):
        return own
    once = sight.lake.once_in(sight.lease.buckets)
    return sight.lake.scan("robots", buckets=once, where=among, at=sight.at).collect()


def _robots_states(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row["robots"] or []
