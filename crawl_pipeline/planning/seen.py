"""The seen set: which of the URLs that were linked to are known. Filters in memory first, then the frontier itself.

A URL is seen if and only if it has a frontier row. A filter only says which need not be looked up; of all others the
frontier is asked. So a filter that vanished, is old, or was spoilt costs time. What would cost more is a filter that
lacks a known URL: it would be admitted twice. That cannot be, since a filter is used only if its state is the bucket's
last committed round in this plan's sight:

* rows come into a bucket's frontier by its committed rounds alone, and each names its round, which a fold keeps;
* a filter made from a sight holds every row of it; one that was left behind is caught up with all rows of later rounds,
  if the round it stands for is in `rounds` under the same epoch and worker, and is made anew if not;
* between two plans of one lease only its holder can commit (others are fenced off), and what that adds, it adds here
  once the commit stands. A filter that was never told, for its worker died, stands for an older round;
* a file names lake, bucket count, bucket and state, and is checked as a whole. It may hold URLs of a round that never
  came to be: they are looked up in vain.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.seen import Filter, State, Unusable, pack, unpack
from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.lake import Lake, Lease, caching
from crawl_pipeline.planning.sight import Cursors, Sight

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a bucket's filter was asked, what it thought known, and what of this the frontier did not know."""

    asked: int
    maybe: int
    false: int


@dataclass(frozen=True, slots=True)
class Known:
    """Hashes of linked URLs that are known, and how the filters did, by bucket."""

    hashes: pl.Series
    asked: Mapping[int, Asked]


@dataclass(slots=True)
class SeenSet:
    """Filters of the buckets of one lease, kept warm from round to round."""

    kept: dict[int, tuple[Filter, State]] = field(default_factory=dict)
    exact: bool = False
    """Ask no filters: for a look at another time than the newest."""

    def known(self, sight: Sight, links: pl.DataFrame, cursors: Cursors, policy: Policy) -> Known:
        """Look the linked URLs up."""
        named = links.select("target_bucket", "url_hash").unique("url_hash")
        filters = self._ready(sight, self._large(named, cursors, policy), cursors, policy)
        parts = {bucket: rows["url_hash"] for (bucket,), rows in named.group_by("target_bucket")}
        maybe = {
            bucket: hashes.filter(filters[bucket].maybe(hashes)) if bucket in filters else hashes
            for bucket, hashes in parts.items()
        }
        found = _in_frontier(sight, maybe)
        known = dict(found.group_by("bucket").len().iter_rows())
        asked = {b: Asked(len(parts[b]), len(maybe[b]), len(maybe[b]) - known.get(b, 0)) for b in filters if b in parts}
        return Known(found["url_hash"], asked)

    def _large(self, links: pl.DataFrame, cursors: Cursors, policy: Policy) -> list[int]:
        linked = [] if self.exact else links["target_bucket"].unique().sort().to_list()
        return [bucket for bucket in linked if cursors.known_count[bucket] >= policy.seen.filter_from]

    def committed(self, lease: Lease, admitted: pl.DataFrame) -> None:
        """Learn what a round of this lease has admitted, once its commit stands."""
        for bucket, (kept, state) in list(self.kept.items()):
            kept.add(admitted.filter(pl.col("bucket") == bucket)["url_hash"])
            self.kept[bucket] = kept, replace(
                state, round=lease.round, epoch=lease.epochs[bucket], worker=lease.holder
            )  # fmt: skip

    def save(self, lake: Lake) -> None:
        """Leave the filters to whoever holds the buckets next."""
        for bucket, (kept, state) in self.kept.items():
            caching.save(_file(lake, bucket), pack(kept, state))

    def _ready(self, sight: Sight, buckets: list[int], cursors: Cursors, policy: Policy) -> dict[int, Filter]:
        """Filters that hold every URL of the sight."""
        if not buckets:
            return {}
        rate = policy.seen.false_positives
        for bucket in [bucket for bucket in buckets if bucket not in self.kept]:
            if (found := _load(sight.lake, bucket, rate)) is not None:
                self.kept[bucket] = found
        rounds = _rounds(sight, buckets, self.kept, cursors)
        for bucket in buckets:
            of_bucket = [state for state in rounds if state.bucket == bucket]
            if of_bucket:
                self.kept[bucket] = self._in_step(sight, bucket, of_bucket, rate)
            else:  # no round is in sight that it could stand for
                self.kept.pop(bucket, None)
        return {bucket: self.kept[bucket][0] for bucket in buckets if bucket in self.kept}

    def _in_step(self, sight: Sight, bucket: int, rounds: list[State], rate: float) -> tuple[Filter, State]:
        last = max(rounds, key=lambda state: state.round)
        kept, state = self.kept.get(bucket, (None, None))
        if kept is not None and state in rounds and not kept.full:
            if state != last:
                kept.add(_hashes(sight, bucket, pl.col("round") > state.round))
            if not kept.full:
                return kept, last
        made = Filter.of(_hashes(sight, bucket, None), rate), last
        log.info("bucket %d: made a filter of %d known URLs", bucket, made[0].count)
        caching.save(_file(sight.lake, bucket), pack(*made))
        return made


def _in_frontier(sight: Sight, asked: Mapping[int, pl.Series]) -> pl.DataFrame:
    """The exact look-up: bucket and hash of those that have a frontier row."""
    hashes = {bucket: of for bucket, of in asked.items() if len(of)}
    if not hashes:
        return FRONTIER.empty().select("bucket", "url_hash")
    among = pl.col("url_hash").is_in(pl.concat(hashes.values()).implode())
    rows = sight.lake.scan("frontier", buckets=sorted(hashes), where=among, at=sight.at)
    return rows.select("bucket", "url_hash").collect()


def _hashes(sight: Sight, bucket: int, where: pl.Expr | None) -> pl.Series:
    rows = sight.lake.scan("frontier", buckets=[bucket], where=where, at=sight.at)
    return rows.select("url_hash").collect()["url_hash"]


def _rounds(
    sight: Sight, buckets: list[int], kept: Mapping[int, tuple[Filter, State]], cursors: Cursors
) -> list[State]:  # fmt: skip
    """Committed rounds of the buckets: the last ones, and those that filters stand for."""
    oldest = [kept[bucket][1].round for bucket in buckets if bucket in kept]
    since = min([*oldest, *(cursors.links_seen[bucket][bucket] for bucket in buckets)]) - 1
    lake = sight.lake
    rows = lake.scan("rounds", buckets=buckets, since=since, at=sight.at).select("bucket", "round", "epoch", "worker")
    identity = lake.id
    return [State(identity, lake.buckets, *row) for row in rows.collect().iter_rows()]


def _load(lake: Lake, bucket: int, rate: float) -> tuple[Filter, State] | None:
    path = _file(lake, bucket)
    found = caching.load(path)
    if found is None:
        return None
    try:
        return unpack(found, State(lake.id, lake.buckets, bucket, 0, 0, ""), rate)
    except Unusable as trouble:
        log.warning("the filter %s cannot be used, and is made anew: %s", path, trouble)
        return None


def _file(lake: Lake, bucket: int) -> Path:
    return lake.caches / "seen" / f"b{bucket:03d}.bloom"
