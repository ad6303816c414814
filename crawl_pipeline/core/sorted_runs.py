"""Find the places of many keys at once: a multimap from 64-bit keys to numbers, as a few sorted arrays.

A log-structured merge tree (O'Neil et al., 1996): what is added becomes a sorted run, and a run is merged with the one
before as long as that is less than FANOUT times as long. So n additions cost n log n in all, a look-up searches a
handful of runs, and nothing is ever deleted: whoever asks judges what is found.

Where arrays live is not decided here: `Room` gives them, in memory or in files that are mapped.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

FANOUT = 3

Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


class Room(Protocol):
    """Gives arrays by name."""

    def grow(self, name: str, dtype: type[np.generic], length: int, width: int = 1) -> npt.NDArray[Any]:
        """Give the array of that name with so many rows, those it had among them; what is new is 0."""
        ...

    def drop(self, name: str) -> None:
        """Forget an array."""
        ...


@dataclass(slots=True)
class Memory:
    """Arrays in memory."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def grow(self, name: str, dtype: type[np.generic], length: int, width: int = 1) -> npt.NDArray[Any]:
        """Give the array of that name with so many rows."""
        grown = np.zeros((length, width) if width > 1 else length, dtype)
        had = self.arrays.get(name)
        if had is not None:
            grown[: min(len(had), length)] = had[:length]
        self.arrays[name] = grown
        return grown

    def drop(self, name: str) -> None:
        """Forget an array."""
        self.arrays.pop(name, None)


@dataclass(slots=True)
class SortedRuns:
    """A multimap from keys to places."""

    room: Room
    name: str
    numbers: list[int] = field(default_factory=list)
    runs: list[tuple[Numbers, Places]] = field(default_factory=list)

    def add(self, keys: Numbers, places: Places) -> None:
        """Add pairs."""
        if not len(keys):
            return
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        while self.runs and len(self.runs[-1][0]) < FANOUT * len(keys):
            keys, places = _merged(self.runs.pop(), (keys, places))
            self._drop(self.numbers.pop())
        self.numbers.append(max(self.numbers, default=0) + 1)
        self.runs.append(self._kept(self.numbers[-1], keys, places))

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Number and length of every run: what is needed to find them again in a room that outlives this."""
        return [(number, len(keys)) for number, (keys, _) in zip(self.numbers, self.runs, strict=True)]

    def find_again(self, lengths: Iterable[tuple[int, int]]) -> None:
        """Take up runs that a room still has."""
        for number, length in lengths:
            self.numbers.append(number)
            self.runs.append(self._arrays(number, length))

    def _kept(self, number: int, keys: Numbers, places: Places) -> tuple[Numbers, Places]:
        kept = self._arrays(number, len(keys))
        kept[0][:], kept[1][:] = keys, places
        return kept

    def _arrays(self, number: int, length: int) -> tuple[Numbers, Places]:
        keys = self.room.grow(f"{self.name}.{number}.keys", np.int64, length)
        return keys, self.room.grow(f"{self.name}.{number}.places", np.int32, length)

    def _drop(self, number: int) -> None:
        self.room.drop(f"{self.name}.{number}.keys")
        self.room.drop(f"{self.name}.{number}.places")

    def find(self, keys: Numbers) -> tuple[npt.NDArray[np.int64], Places]:
        """Give, for every pair whose key is asked for, the number of the key in `keys` and the place."""
        order = np.argsort(keys, kind="stable")  # neighbours in a run are read together
        asked, which, places = keys[order], list[Numbers](), list[Places]()
        for run_keys, run_places in self.runs:
            there, first, counts = _stretches(run_keys, asked)
            at = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            which.append(np.repeat(order[there], counts))
            places.append(run_places[at])
        if not which:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        return np.concatenate(which), np.concatenate(places)

    def counts(self, keys: Numbers) -> npt.NDArray[np.int64]:
        """Give how many pairs each key has."""
        found = np.zeros(len(keys), np.int64)
        for run_keys, _ in self.runs:
            there, _, counts = _stretches(run_keys, keys)
            found[there] += counts
        return found


def _stretches(run: Numbers, keys: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Which of the keys a run has; where each begins, and how often it is there."""
    first = np.searchsorted(run, keys)
    there = np.flatnonzero(run[np.minimum(first, len(run) - 1)] == keys)
    first = first[there]
    return there, first, np.searchsorted(run, keys[there], "right") - first


def _merged(a: tuple[Numbers, Places], b: tuple[Numbers, Places]) -> tuple[Numbers, Places]:
    keys, places = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(keys, kind="stable")
    return keys[order], places[order]
