"""A round's fetch list: which due URLs are asked, host by host, and why the others wait.

Frames and numbers in, a fetch list out. Two kinds of URLs compete. Discovery: new ones, and sitemaps, which lead to
such. They are drawn, and the draw is biased, not strict: each URL gets the key -ln(u) / weight of its band, u a uniform
number made from its hash and the round's seed; the smallest keys are a weighted sample without replacement (Efraimidis
and Spirakis 2006). Low bands are therefore served in proportion, and the same seed selects the same URLs. Visits: pages
that are known, the one first whose visit is worth most (`merit`). How the two share a list stands in `sharing`.
Hosts come before pages: everybody's first URL is listed before anybody's second, unless a budget is to be spent; then
what is worth most comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline.core import blocks, merit, politeness, sharing, traps, trust
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.politeness import HostPace

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Left:
    """How many pages each host, and all hosts of each site together, may still be asked for on this UTC day."""

    hosts: Mapping[str, int]
    sites: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Selection:
    """What `judge` says of every due URL, and what is made of it.

    The fetch list: rows of `frontier`, in asking order per host; a tally (bucket, name, count) of who waits.
    """

    judged: pl.DataFrame
    fetch_list: pl.DataFrame
    left_out: pl.DataFrame


OVER_BUDGET = "crawl's budget is spent"
NEW_WAIT = "new URLs wait"
"""While `recrawl.only` is set."""


def select(
    due: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime, seed: int, seconds: float | None = None,
    most: int | None = None,
) -> Selection:  # fmt: skip
    """Choose from due rows of `frontier`, given the rows of `hosts` for all hosts of their sites.

    `seconds`: how long may be asked, if that is less than a list lasts; `most`: URLs that the budget can pay for.
    """
    judged = judge(due, hosts, policy, now, seed, seconds, most)
    chosen, waiting = judged.filter(pl.col("left_out").is_null()), judged.filter(pl.col("left_out").is_not_null())
    tally = waiting.group_by("bucket", name="left_out").agg(count=pl.len().cast(pl.Int64))
    return Selection(judged, chosen.sort("host", "rank").select(due.columns), tally)


def judge(
    due: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime, seed: int, seconds: float | None = None,
    most: int | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Say of due rows why each is left out: null if chosen.

    Adds `discovery`, the draw, the worth, the rank at the host and the host's quota.
    """
    named = hosts.join(due, on="host", how="semi")
    left = left_today(hosts.join(named, on="site", how="semi"), policy, now)
    of_hosts = quota(named, left, policy, now, seconds).join(merit.of_hosts(hosts, policy), on="host")
    rows = due.with_columns(draw=draws(due, policy, seed)).join(of_hosts, on="host", how="left")
    rows = merit.valued(rows.with_columns(pl.col("quota").fill_null(0)), policy, now)
    rows = rows.with_columns(_on_trial=_on_trial(rows))
    ranked = sharing.ranked(rows.filter(~pl.col("_on_trial")), policy.round.floor)
    ranked = pl.concat([ranked, rows.filter("_on_trial").with_columns(rank=pl.lit(None, pl.Int64))])
    in_turn = (pl.col("rank") <= pl.col("quota")).fill_null(value=False)
    within = _within_sites_day(ranked.filter(in_turn), hosts, left)
    paid = within if most is None else sharing.first(within, most, policy.round.floor)
    chosen = _within_limits(paid, policy)["url_hash"]
    full = pl.when(_among(paid)).then(pl.lit("round full")).when(_among(within)).then(pl.lit(OVER_BUDGET))
    of_turn = full.otherwise(pl.lit("site's day is full"))
    why = pl.when(in_turn).then(of_turn).otherwise(pl.col("wait").fill_null("host unknown"))
    why = pl.when("_on_trial").then(pl.lit(traps.ON_TRIAL)).otherwise(why)
    left_out = pl.when(~pl.col("url_hash").is_in(chosen.implode())).then(why)
    return ranked.with_columns(left_out=left_out).drop("wait", "prior_b", "life", *merit.OF_DATES, "_on_trial")


def unpaid(judged: pl.DataFrame) -> float | None:
    """What the best visit was worth that the budget could not pay for; None if it could pay for all."""
    waiting = judged.filter((pl.col("left_out") == OVER_BUDGET) & ~pl.col("discovery"))
    best: float | None = waiting.select(pl.col("worth").max()).item()
    return best


def quota(
    hosts: pl.DataFrame, left: Left, policy: Policy, now: datetime, seconds: float | None = None
) -> pl.DataFrame:  # fmt: skip
    """How many URLs each host can be asked until the next list (`quota`), and what holds back the rest (`wait`)."""
    lasts_s = policy.round.seconds + policy.round.ahead_s
    seconds = lasts_s if seconds is None else min(lasts_s, seconds)
    rows = [(row["host"], *_quota(row, left, policy, now, seconds)) for row in hosts.iter_rows(named=True)]
    return pl.DataFrame(rows, schema={"host": pl.String, "quota": pl.Int64, "wait": pl.String}, orient="row")


def turns(due: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime) -> list[datetime]:
    """When each host that has due URLs may be asked; one that is paused or blocked never by itself.

    A full day ends at midnight.
    """
    waiting = hosts.filter(~pl.col("paused")).join(due, on="host", how="semi")
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    left = left_today(hosts.join(waiting, on="site", how="semi"), policy, now)
    return [
        max(may_ask_at(row, now)[0], now if left.hosts[row["host"]] and left.sites[row["site"]] else midnight)
        for row in waiting.iter_rows(named=True)
        if blocks.of_host(row["host"], row["site"], policy.block) is None
    ]


def may_ask_at(row: dict[str, object], now: datetime) -> tuple[datetime, str]:
    """When politeness lets a host be asked, now at the soonest, and what it waits for until then."""
    promised, robots = row["next_allowed_at"], row["robots"]
    turn = max(promised, now) if isinstance(promised, datetime) else now
    reason = "host put aside" if row["aside_s"] else "host waits"
    in_force = [state for state in robots if state["expires_at"] > now] if isinstance(robots, list) else []
    # While every robots.txt of the host forbids everything, not one of its URLs is worth a place on a list.
    if in_force and all(state["state"] == "disallow_all" for state in in_force):
        again = min(state["expires_at"] for state in in_force)
        return (again, "robots.txt unreachable") if again > turn else (turn, reason)
    return turn, reason


def left_today(hosts: pl.DataFrame, policy: Policy, now: datetime) -> Left:
    """What hosts and sites have left of this day, by what trust gives them. `hosts` has all hosts of their sites."""
    today = pl.when(pl.col("day") == now.date()).then("day_count").otherwise(0).fill_null(0)
    rows = trust.limits(hosts, policy).with_columns(asked=hosts.select(today).to_series()).with_columns(
        host_left=(pl.col("host_allowance_day") - pl.col("asked")).clip(0),
        site_left=(pl.col("site_allowance_day") - pl.col("asked").sum().over("site")).clip(0),
    )  # fmt: skip
    return Left(dict(rows.select("host", "host_left").iter_rows()), dict(rows.select("site", "site_left").iter_rows()))


def _quota(row: dict[str, object], left: Left, policy: Policy, now: datetime, seconds: float) -> tuple[int, str]:
    if (barred := blocks.of_host(str(row["host"]), str(row["site"]), policy.block)) is not None:
        return 0, barred
    if row["paused"]:
        return 0, "host paused"
    turn, reason = may_ask_at(row, now)
    wait_s = (turn - now).total_seconds()
    if wait_s >= seconds:
        return 0, reason
    in_time = 1 + int((seconds - wait_s) / politeness.gap_s(pace_of(row), None, policy, str(row["host"])))
    today = left.hosts[str(row["host"])]
    return (today, "host's day is full") if today < in_time else (in_time, "host's turn is full")


def pace_of(row: dict[str, object]) -> HostPace:
    """Read the politeness state from a row of `hosts`."""
    values = {name: row.get(name) for name in HostPace.__dataclass_fields__}
    return HostPace(**{name: value for name, value in values.items() if value is not None})  # type: ignore[arg-type]


def draws(due: pl.DataFrame, policy: Policy, seed: int) -> pl.Series:
    """The key of each due URL in the weighted draw: the smallest come first. `factor`, if given, is of its weight.

    Chance decides how often a band gets its turn; whose turn it is in a band goes by `mass`, where there is one.
    """
    weights = np.array(policy.bands.weights)[np.clip(due["band"].to_numpy(), 1, len(policy.bands.weights)) - 1]
    if "factor" in due.columns:
        weights = weights * due["factor"].to_numpy()
    keys = -np.log(uniform(due["url_hash"].to_numpy(), seed)) / weights
    return pl.Series("draw", _by_mass(keys, due["mass"].to_numpy(), weights) if "mass" in due.columns else keys)


def _by_mass(keys: Numbers, mass: Numbers, weights: Numbers) -> Numbers:
    """Deal the keys of URLs of equal weight out again, the smallest to the largest mass; equals keep their order."""
    dealt = np.empty_like(keys)
    for weight in np.unique(weights):
        places = np.flatnonzero(weights == weight)
        drawn = places[np.argsort(keys[places], kind="stable")]
        dealt[drawn[np.argsort(-mass[drawn], kind="stable")]] = keys[drawn]
    return dealt


def _on_trial(drawn: pl.DataFrame) -> pl.Expr:
    """Which URLs of a pattern in doubt are beyond the few by which it is judged: those drawn last."""
    if "trial" not in drawn.columns:
        return pl.lit(value=False)
    beyond = pl.col("draw").rank("ordinal").over("trial") > pl.col("trial_most")
    return pl.col("trial").is_not_null() & beyond


def uniform(hashes: npt.NDArray[np.int64], seed: int) -> Numbers:
    """Numbers within (0, 1], one per hash and seed: splitmix64 (Steele, Lea, Flood 2014) of their sum."""
    with np.errstate(over="ignore"):
        z = hashes.astype(np.uint64) + np.uint64(seed % 2**64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 1) / 2**53


def _among(rows: pl.DataFrame) -> pl.Expr:
    return pl.col("url_hash").is_in(rows["url_hash"].implode())


def _within_sites_day(allowed: pl.DataFrame, hosts: pl.DataFrame, left: Left) -> pl.DataFrame:
    """As many URLs of each site as its day has left, every host's first before anybody's second."""
    days = pl.DataFrame(list(left.sites.items()), schema={"site": pl.String, "_left": pl.Int64}, orient="row")
    sites = hosts.select("host", "site").join(days, on="site")
    ranked = allowed.join(sites, on="host").sort("rank", "draw")
    return ranked.filter(pl.int_range(pl.len()).over("site") < pl.col("_left")).drop("site", "_left")


def _within_limits(allowed: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    firsts = allowed.filter(pl.col("rank") == 1).sort("draw").head(policy.round.hosts)
    return allowed.filter(pl.col("host").is_in(firsts["host"].implode())).sort("rank", "draw").head(policy.round.urls)
