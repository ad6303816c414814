"""Clusters of nearly equal texts: stars round a representative, the same in whatever order texts came.

A text is known by its exact hash; pages with equal texts hold one text. Two texts are linked if they share a band of
their MinHashes and `fingerprint.near` says so. Texts are looked at in the order of their hashes: one that is linked to
no representative becomes one itself, any other joins the representative it is most like (of equals, that of the smaller
hash). So a member was always compared with its representative, and chains A~B~C join nothing else.

The rule names one clustering of any set of texts. It is the greedy independent set of a graph in a random order, for
hashes are random, and then a text that comes or goes changes the part of one text, on average (Censor-Hillel,
Haramaty, Karnin, PODC 2016). `apply` follows those changes, and looks at nothing else.

A key that more than `crowd` texts share is a template or an error page. Its texts are compared with the one of the
smallest hash only, pairs are not enumerated, and it is told (`Crowd`).

Invariant: after `apply`, clusters are those that the rule gives for the texts that are there, whatever was before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from crawl_pipeline.core import fingerprint
from crawl_pipeline.core.sorted_runs import Memory, Numbers, Places, Room, SortedRuns

CROWD = 1_000
"""Texts that may share a key before it counts as crowded."""
PAIRS = 65_536
"""Pairs compared at a time: bounds memory."""
STEP = 4_096
"""Texts taken at a time: bounds memory."""
WIDTH, FIRST = 128, 1_024
NOBODY = -1

CHANGED = pl.Schema(
    {"main_hash": pl.Int64, "cluster_id": pl.Int64, "similarity": pl.Float32, "cluster_before": pl.Int64}
)
MERGED = pl.Schema({"cluster_before": pl.Int64, "cluster_id": pl.Int64, "similarity": pl.Float32})


@dataclass(frozen=True, slots=True)
class Crowd:
    """A key that very many texts share, and the hash of the one that all were compared with."""

    key: int
    texts: int
    main_hash: int


@dataclass(frozen=True, slots=True)
class Applied:
    """What a change of texts came to: texts with another cluster (null: none, it is gone), and clusters that were
    joined to others because their representatives are nearly the same."""

    changed: pl.DataFrame
    merged: pl.DataFrame


@dataclass(slots=True)
class _Crowded:
    count: int
    head: int


_Candidates = tuple[Places, Places]
"""Texts and others that may be linked to them, pair by pair."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Texts and what they are linked to, with how like they are."""

    of: Places
    to: Places
    like: npt.NDArray[np.float32]


@dataclass(slots=True)
class Clusters:
    """Texts, their signatures and their clusters. A text has a place, by which arrays hold what is known of it."""

    room: Room = field(default_factory=Memory)
    crowd: int = CROWD
    size: int = 0
    crowds: dict[int, _Crowded] = field(default_factory=dict)
    places: SortedRuns = field(init=False)
    bands: SortedRuns = field(init=False)
    members: SortedRuns = field(init=False)
    hashes: Numbers = field(init=False)
    words: Places = field(init=False)
    simhashes: Numbers = field(init=False)
    minhashes: npt.NDArray[np.uint32] = field(init=False)
    head: Places = field(init=False)
    like: npt.NDArray[np.float32] = field(init=False)
    holders: Places = field(init=False)
    """Pages that hold a text; kept for whoever adds and takes away."""

    def __post_init__(self) -> None:
        self.places, self.bands = SortedRuns(self.room, "places"), SortedRuns(self.room, "bands")
        self.members = SortedRuns(self.room, "members")
        self._lengthen(max(self.size, FIRST))

    @property
    def record(self) -> dict[str, Any]:
        """What is needed beside the arrays to go on later, as plain values."""
        crowds = [(key, crowd.count, crowd.head) for key, crowd in self.crowds.items()]
        runs = {runs.name: runs.lengths for runs in (self.places, self.bands, self.members)}
        return {"size": self.size, "crowd": self.crowd, "crowds": crowds, "runs": runs}

    @classmethod
    def recorded(cls, room: Room, record: dict[str, Any]) -> "Clusters":
        """Go on with arrays that a room still has."""
        crowds = {key: _Crowded(count, head) for key, count, head in record["crowds"]}
        clusters = cls(room, record["crowd"], record["size"], crowds)
        for runs in (clusters.places, clusters.bands, clusters.members):
            runs.find_again(record["runs"][runs.name])
        return clusters

    # What is known.

    def _reserve(self, texts: int) -> None:
        """Make room for so many texts, and half as many again when it has to grow."""
        if texts > len(self.hashes):
            self._lengthen(texts + texts // 2)

    def _lengthen(self, length: int) -> None:
        self.hashes = self.room.grow("hashes", np.int64, length)
        self.words = self.room.grow("words", np.int32, length)
        self.simhashes = self.room.grow("simhashes", np.int64, length)
        self.minhashes = self.room.grow("minhashes", np.uint32, length, WIDTH)
        self.head = self.room.grow("head", np.int32, length)
        self.like = self.room.grow("like", np.float32, length)
        self.holders = self.room.grow("holders", np.int32, length)

    def at(self, hashes: pl.Series) -> Places:
        """Places of texts that are there, NOBODY for others."""
        keys = hashes.to_numpy().astype(np.int64)
        found = np.full(len(keys), NOBODY, np.int32)
        which, places = self.places.find(keys)
        there = self.head[places] != NOBODY
        found[which[there]] = places[there]
        return found

    def of(self, hashes: pl.Series) -> pl.DataFrame:
        """Cluster and likeness of texts, null for those that are not there, in their order."""
        at = self.at(hashes)
        there = at != NOBODY
        heads = self.head[at]
        return pl.DataFrame(
            {"main_hash": hashes, "cluster_id": self.hashes[heads], "similarity": self.like[at]}
        ).select(
            "main_hash", pl.when(pl.lit(pl.Series(there))).then(pl.col("cluster_id", "similarity"))
        )  # fmt: skip

    def signatures(self, at: Places) -> pl.DataFrame:
        """Signatures of texts by their places, as `fingerprint` takes them."""
        minhash = pl.Series("minhash", stored_minhash(self.minhashes[at]))
        enough = pl.col("token_count") >= fingerprint.FEWEST
        return pl.DataFrame(
            {"token_count": self.words[at], "main_hash": self.hashes[at], "simhash": self.simhashes[at],
             "minhash": minhash}
        ).with_columns(pl.when(enough).then(pl.col("simhash", "minhash")))  # fmt: skip

    def signatures_of(self, hashes: pl.Series) -> pl.DataFrame:
        """Signatures of texts in their order, null for those that are not there."""
        at = self.at(hashes)
        return self.signatures(at).select(pl.when(pl.lit(pl.Series(at != NOBODY))).then(pl.all()))

    def likeness(self, hashes: pl.Series, signatures: pl.DataFrame) -> pl.Series:
        """Likeness of texts that are there and others, one by one; 0 where it cannot be told."""
        own = self.signatures_of(hashes)
        like = fingerprint.likeness(own, signatures)
        same = own["main_hash"] == signatures["main_hash"]
        return pl.select(pl.when(same).then(1.0).otherwise(like).fill_null(0.0)).to_series()

    def held(self, hashes: pl.Series) -> pl.Series:
        """How many pages hold each text; 0 for texts that are not there."""
        at = self.at(hashes)
        return pl.Series("holders", np.where(at == NOBODY, 0, self.holders[at]), dtype=pl.Int32)

    def hold(self, hashes: pl.Series, holders: pl.Series) -> None:
        """Set how many pages hold texts that are there."""
        self.holders[self.at(hashes)] = holders.to_numpy()

    # Changes.

    def apply(self, added: pl.DataFrame, gone: pl.Series) -> Applied:
        """Add texts (as in fingerprint.SCHEMA) that were not there, and take away others."""
        added = added.unique("main_hash", keep="first", maintain_order=True)
        steps = [self._step(part, gone if not number else gone.clear()) for number, part in enumerate(_parts(added))]
        changed = pl.concat([step.changed for step in steps])
        # The last word about a text, with the cluster it had at first.
        whole = changed.group_by("main_hash", maintain_order=True).agg(
            pl.col("cluster_id", "similarity").last(), pl.col("cluster_before").first()
        )
        return Applied(whole.cast(CHANGED), pl.concat([step.merged for step in steps]))

    def _step(self, added: pl.DataFrame, gone: pl.Series) -> Applied:
        left = np.unique(self.at(gone))
        left = left[left != NOBODY]
        were = self.hashes[self.head[left]]
        new = self._placed(added)
        orphans = self._members(left[self.head[left] == left])
        self.head[left] = NOBODY
        orphans = orphans[self.head[orphans] != NOBODY]
        moved = self._settle(np.unique(np.concatenate([new, orphans, self._crowding(new, left)])))
        taken = pl.DataFrame({"main_hash": self.hashes[left], "cluster_before": were}).with_columns(
            cluster_id=None, similarity=None
        )
        changed = pl.concat([taken.select(list(CHANGED)).cast(CHANGED), moved])
        return Applied(changed, _merged(moved, set(were.tolist())))

    def _placed(self, added: pl.DataFrame) -> Places:
        """Give texts a place, the one they had if they were here before; their keys become known."""
        keys = added["main_hash"].to_numpy().astype(np.int64)
        which, had = self.places.find(keys)
        back = np.zeros(len(keys), np.bool_)
        back[which] = True
        fresh = np.arange(self.size, self.size + int((~back).sum()), dtype=np.int32)
        self._reserve(self.size + len(fresh))
        self.size += len(fresh)
        rows = added.filter(pl.Series(~back))
        self.hashes[fresh] = keys[~back]
        self.words[fresh] = rows["token_count"].fill_null(0).to_numpy()
        self.simhashes[fresh] = rows["simhash"].fill_null(0).to_numpy()
        has = rows["minhash"].is_not_null().to_numpy()
        if has.any():
            self.minhashes[fresh[has]] = fingerprint.values(rows["minhash"].drop_nulls())
        self.head[fresh] = NOBODY
        self.places.add(self.hashes[fresh].copy(), fresh)
        of, keys = self._keys(fresh)
        self.bands.add(keys, of)
        return np.concatenate([fresh, had])

    def _keys(self, at: Places) -> tuple[Places, Numbers]:
        """Every key of texts, with the place of the text."""
        at = at[self.words[at] >= fingerprint.FEWEST]
        if not len(at):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        keys = fingerprint.bands(pl.Series(stored_minhash(self.minhashes[at]))).explode().to_numpy().astype(np.int64)
        return np.repeat(at, fingerprint.BANDS), keys

    def _members(self, heads: Places) -> Places:
        """Texts that have one of these as representative, itself not among them."""
        which, found = self.members.find(heads.astype(np.int64))
        true = (self.head[found] == heads[which]) & (found != heads[which])
        return np.unique(found[true])

    # Crowded keys.

    def _crowding(self, new: Places, left: Places) -> Places:
        """Keep count of crowded keys; give the texts whose links are others now. The new ones have no cluster yet."""
        (new_of, new_keys), (left_of, left_keys) = self._keys(new), self._keys(left)
        asked = np.unique(np.concatenate([new_keys, left_keys]))
        big = asked[(self.bands.counts(asked) > self.crowd) | np.isin(asked, _crowded_keys(self.crowds))]
        dirty = [np.empty(0, np.int32)]
        for key in big.tolist():
            came, went = new_of[new_keys == key], left_of[left_keys == key]
            if self._recount(key, came, went):
                dirty.append(self._sharing(key, new))
        return np.concatenate(dirty)

    def _recount(self, key: int, came: Places, went: Places) -> bool:
        """Bring one key up to date; tell whether other pairs are compared for it now."""
        was = self.crowds.get(key)
        if was is None:
            there = self._sharing(key, came)
            if len(there) > self.crowd:
                self.crowds[key] = _Crowded(len(there), self._smallest(there))
            return len(there) > self.crowd
        was.count += len(came) - len(went)
        if was.count <= self.crowd:
            del self.crowds[key]
            return True
        before = was.head
        heads = [was.head] if self.head[was.head] != NOBODY else self._sharing(key, came).tolist()
        was.head = self._smallest(np.array([*heads, *came.tolist()], np.int32))
        return was.head != before

    def _sharing(self, key: int, new: Places) -> Places:
        """Texts with a key that are there, the new ones included."""
        found = np.unique(self.bands.find(np.array([key], np.int64))[1])
        there: Places = found[(self.head[found] != NOBODY) | np.isin(found, new)]
        return there

    def _smallest(self, at: Places) -> int:
        return int(at[np.argmin(self.hashes[at])])

    def crowded(self) -> Iterator[Crowd]:
        """All crowded keys."""
        for key, crowd in self.crowds.items():
            yield Crowd(key, crowd.count, int(self.hashes[crowd.head]))

    # The rule, applied to the texts that a change may move.

    def _settle(self, moving: Places) -> pl.DataFrame:
        """Let texts join or lead anew, and all that this moves, until nothing moves.

        A text's candidates are looked up when it first moves: a search among all keys is what grows with the corpus.
        """
        pairs = self._candidates(moving)
        while True:
            state = _greedy(moving, self.hashes, self._smaller(moving, pairs), self.head)
            heads = np.array([state[place][0] for place in moving.tolist()], np.int32)
            was_head, is_head = self.head[moving] == moving, heads == moving
            more = np.concatenate(
                [self._members(moving[was_head & ~is_head]), self._larger(moving[is_head & ~was_head], moving, pairs)]
            )
            more = np.setdiff1d(more, moving)
            if not len(more):
                return self._move(moving, heads, np.array([state[place][1] for place in moving.tolist()], np.float32))
            pairs = _joined(pairs, self._candidates(more))
            moving = np.union1d(moving, more)

    def _move(self, moving: Places, heads: Places, like: npt.NDArray[np.float32]) -> pl.DataFrame:
        before = self.head[moving].copy()
        other = before != heads
        has = before != NOBODY
        self.head[moving], self.like[moving] = heads, like
        joined = other & (heads != moving)
        self.members.add(heads[joined].astype(np.int64), moving[joined])
        rows = pl.DataFrame(
            {"main_hash": self.hashes[moving], "cluster_id": self.hashes[heads], "similarity": like,
             "cluster_before": pl.Series(self.hashes[before])}
        ).with_columns(pl.when(pl.lit(pl.Series(has))).then("cluster_before"))  # fmt: skip
        return rows.filter(pl.Series(other)).select(list(CHANGED)).cast(CHANGED)

    def _smaller(self, moving: Places, pairs: _Candidates) -> _Pairs:
        """Links of these texts to smaller ones that lead, or that move themselves."""
        of, to = pairs
        right = (self.hashes[to] < self.hashes[of]) & ((self.head[to] == to) | np.isin(to, moving))
        return self._linked(of[right], to[right])

    def _larger(self, heads: Places, moving: Places, pairs: _Candidates) -> Places:
        """Texts that new representatives take from others: those that led, and those that are more like them."""
        of, to = _joined(pairs, self._led_crowds(heads))
        right = (
            np.isin(of, heads) & (self.hashes[to] > self.hashes[of]) & (self.head[to] != NOBODY) & ~np.isin(to, moving)
        )
        links = self._linked(of[right], to[right])
        led = self.head[links.to]
        better = (links.like > self.like[links.to]) | (
            (links.like == self.like[links.to]) & (self.hashes[links.of] < self.hashes[led])
        )
        return np.unique(links.to[(led == links.to) | better])

    def _candidates(self, at: Places) -> _Candidates:
        """Pairs of these texts and others that share a key; of a crowded key only those with its smallest text."""
        of, keys = self._keys(at)
        crowded = np.isin(keys, _crowded_keys(self.crowds))
        which, to = self.bands.find(keys[~crowded])
        heads = np.array([self.crowds[key].head for key in keys[crowded].tolist()], np.int32)
        return _joined((of[~crowded][which], to), (of[crowded], heads))

    def _led_crowds(self, heads: Places) -> _Candidates:
        """Pairs of those of these texts that are the smallest of a crowded key, and all others that share it."""
        leading = set(heads.tolist())
        led = [(crowd.head, self._sharing(key, np.empty(0, np.int32)))
               for key, crowd in self.crowds.items() if crowd.head in leading]  # fmt: skip
        return _joined(*((np.full(len(others), head, np.int32), others) for head, others in led))

    def _linked(self, of: Places, to: Places) -> _Pairs:
        """Those of the pairs that are nearly the same."""
        bits = np.bitwise_xor(self.simhashes[of], self.simhashes[to])
        close = pl.Series(bits).bitwise_count_ones().to_numpy() <= fingerprint.BITS
        both = np.unique(of[close].astype(np.int64) << 32 | to[close])
        of, to = (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.int32)
        found = [self._verified(of[at : at + PAIRS], to[at : at + PAIRS]) for at in range(0, len(of), PAIRS)]
        return _Pairs(*(np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in found)])
                        for name, dtype in (("of", np.int32), ("to", np.int32), ("like", np.float32))))  # fmt: skip

    def _verified(self, of: Places, to: Places) -> _Pairs:
        a, b = self.signatures(of), self.signatures(to)
        near = fingerprint.near(a, b).to_numpy()
        like = fingerprint.likeness(a.filter(near), b.filter(near))
        return _Pairs(of[near], to[near], like.fill_null(0.0).to_numpy().astype(np.float32))


def _joined(*parts: _Candidates) -> _Candidates:
    of, to = zip((np.empty(0, np.int32),) * 2, *parts, strict=True)
    return np.concatenate(of), np.concatenate(to)


def _greedy(moving: Places, hashes: Numbers, links: _Pairs, head: Places) -> dict[int, tuple[int, float]]:
    """Say of each text, in the order of their hashes, which representative it has, and how like that is."""
    state: dict[int, tuple[int, float]] = {place: (place, 1.0) for place in moving.tolist()}
    # The one it is most like comes first, of equals that of the smallest hash.
    order = np.lexsort((hashes[links.to], -links.like, hashes[links.of]))
    columns = (column[order].tolist() for column in (links.of, links.to, links.like))
    for of, to, like in zip(*columns, strict=True):
        leads = state[to][0] == to if to in state else head[to] == to
        if leads and state[of][0] == of:
            state[of] = (to, like)
    return state


def _merged(moved: pl.DataFrame, gone: Iterable[int]) -> pl.DataFrame:
    """Clusters whose representative is there and follows another one now."""
    led = (pl.col("main_hash") == pl.col("cluster_before")) & (pl.col("cluster_id") != pl.col("main_hash"))
    return moved.filter(led & ~pl.col("main_hash").is_in(list(gone))).select(list(MERGED)).cast(MERGED)


def _parts(added: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The texts a step at a time, one step at least."""
    yield from (added.slice(at, STEP) for at in range(0, max(added.height, 1), STEP))


def _crowded_keys(crowds: dict[int, Any]) -> Numbers:
    return np.fromiter(crowds, np.int64, len(crowds))


def stored_minhash(minhashes: npt.NDArray[np.uint32]) -> pl.Series:
    """MinHashes as they are stored: 128 numbers of 32 bits, little endian."""
    rows = np.ascontiguousarray(minhashes, "<u4")
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * 4 * WIDTH
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows)]
    return pl.Series(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), buffers))
