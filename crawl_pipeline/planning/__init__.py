"""What a round starts from: catch up with the logs, then choose the fetch list.

Reads the lake and asks core to decide; writes nothing. What it admits becomes rows only with the commit of the round
it was admitted for, so a crash costs nothing but doing it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from crawl_pipeline import ordering
from crawl_pipeline.core import selection, settings
from crawl_pipeline.core.orders import NOTHING, InForce
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.visits import Elsewhere, HostQueue
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.planning import dropping, listing, spending
from crawl_pipeline.planning.catching_up import PEOPLE as PEOPLE
from crawl_pipeline.planning.catching_up import catch_up
from crawl_pipeline.planning.catching_up import new_hosts as new_hosts
from crawl_pipeline.planning.listing import Rules
from crawl_pipeline.planning.ranks import Ranks as Ranks
from crawl_pipeline.planning.seen import Asked as Asked
from crawl_pipeline.planning.seen import SeenSet as SeenSet
from crawl_pipeline.planning.sight import Cursors as Cursors
from crawl_pipeline.planning.sight import Past as Past
from crawl_pipeline.planning.sight import Sight
from crawl_pipeline.planning.sight import read_cursors as read_cursors
from crawl_pipeline.planning.spending import Spending as Spending


@dataclass(frozen=True, slots=True)
class Plan:
    """All a round starts from. Frames hold rows of the tables they are named for; `due` only what a draw needs, of
    large hosts only the slices that were read; `due_unread` counts the others.

    `judged` are the due URLs that robots.txt does not settle, with what `selection.judge` says of each.
    """

    lease: Lease
    now: datetime
    policy: Policy
    """The policy file with what was set by orders: what this round is planned, asked and harvested by."""
    in_force: InForce
    cursors: Cursors
    admitted: pl.DataFrame
    refused: pl.DataFrame
    links_read: Mapping[int, int]
    hosts: pl.DataFrame
    new_hosts: pl.DataFrame
    brought_forward: pl.DataFrame
    changed: pl.DataFrame
    due: pl.DataFrame
    due_unread: Mapping[int, int]
    judged: pl.DataFrame
    fetch_list: pl.DataFrame
    left_out: pl.DataFrame
    visited_before: pl.DataFrame
    queues: Sequence[HostQueue]
    next_due_at: Mapping[int, datetime]
    elsewhere: Elsewhere
    seen_asked: Mapping[int, Asked]
    told: pl.DataFrame
    """What the links that were read say of URL patterns: see planning.evidence."""
    released: pl.DataFrame
    """Patterns that people released since the last round."""
    spending: Spending
    ranks_seen: int | None
    """The version of `ranks` that was planned with."""
    next_at: datetime | None
    """When there may be something to ask, if there is nothing now: the next due date, or a waiting host's time."""


def plan(
    lake: Lake, lease: Lease, cursors: Cursors, policy: Policy, now: datetime, in_hand: Sequence[int], rules: Rules,
    seconds: float | None = None, past: Past | None = None, before: InForce = NOTHING,
    seen: SeenSet | None = None, ranks: Ranks | None = None,
) -> Plan:  # fmt: skip
    """Catch up and select.

    `policy`: what the policy file says; of a past plan, what was in force. `in_hand`: URL hashes that are being asked;
    `rules`: parsed robots.txt by id, kept warm; `seconds`: time left to ask in, if that is less than a round; `past`:
    plan as it would have been done then; `before`: what orders came to when last looked at, kept warm. Nothing needs
    the lease to be held but the commit of what is planned. `seen`: filters of this lease's buckets, kept warm; without
    them the frontier alone is asked; `ranks`: likewise, of the ranking in force.
    """
    sight = Sight(lake, lease, past.at, now, past.until) if past else Sight(lake, lease, lake.versions(), now)
    until = max(past.until.orders_seen.values()) if past else None
    in_force = ordering.in_force(lake, before, sight.at, until)
    policy = policy if past else settings.overlay(policy, in_force.settings.values())
    money = spending.read(sight, policy, len(in_hand))
    dropped = dropping.names(sight, policy)
    state = catch_up(
        sight, cursors, policy, in_force, seen or SeenSet(exact=True), money.prices, dropped, ranks or Ranks()
    )
    fresh = pl.concat([state.admitted, state.changed, state.brought_forward])
    due = listing.due(sight, fresh, in_hand, policy, state.released, dropped, state.scores)
    listed = listing.make_list(sight, due.rows, fresh, state.hosts, policy, rules, seconds, money.most)
    next_due_at = listing.next_due(sight, listed.fetch_list)
    return Plan(
        lease=lease, now=now, policy=policy, in_force=in_force, cursors=state.cursors, admitted=state.admitted,
        refused=state.refused,
        links_read=state.links_read, hosts=state.hosts, new_hosts=state.new_hosts,
        brought_forward=state.brought_forward, changed=state.changed, due=due.rows, due_unread=due.unread,
        judged=listed.judged,
        fetch_list=listed.fetch_list, left_out=listed.left_out, visited_before=listed.visited_before,
        queues=listed.queues, next_due_at=next_due_at, elsewhere=listing.elsewhere(sight, state.hosts, policy),
        seen_asked=state.asked, told=state.told, released=state.released,
        spending=replace(money, unpaid=listed.unpaid), ranks_seen=state.scores.seen,
        next_at=_next_at(
            [*next_due_at.values(), *state.brought_forward["due_at"].filter(state.brought_forward["due_at"] > now),
             *selection.turns(due.rows.filter(pl.col("barred").is_null()), state.hosts, policy, now)],
            money.next_at(now),
        ),
    )  # fmt: skip


def _next_at(dates: Sequence[datetime], paid_at: datetime | None) -> datetime | None:
    """The first of some dates, though not before there is something to spend."""
    first = min(dates, default=None)
    return max(first, paid_at) if first and paid_at else first
