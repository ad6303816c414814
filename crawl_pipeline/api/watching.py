"""The latest pulse of the lake, taken for all who look at once, as rounds are committed.

Invariant: however many look, the lake is looked at once a second at the most, and its pulse is taken for at most a
fifth of the time.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from crawl_pipeline import pulse
from crawl_pipeline.lake import Lake
from crawl_pipeline.pulse import Pulse

LOOK_S, STALE_S = 1.0, 15.0
"""How often the lake is looked at, and when figures are taken anew though nothing was committed; in seconds."""
REST = 4.0
"""Times what a pulse took is rested after it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A pulse and its number: the same number is the same pulse."""

    number: int
    pulse: Pulse


class Watch:
    """Gives the latest pulse; safe to share between threads."""

    def __init__(self, lake: Callable[[], Lake]) -> None:
        self._lake, self._lock = lake, threading.Lock()
        self.pages = 0
        """Pages that are open; counted in the server's loop alone."""
        self.stopping = False
        self._taken: Taken | None = None
        self._seen: tuple[int, int] = (-1, -1)
        self._looked = self._made = self._rest = 0.0

    def stop(self) -> None:
        """Let all who look on go."""
        self.stopping = True

    def latest(self) -> Taken:
        """The latest pulse, at most a second or STALE_S old: as something was committed meanwhile or not."""
        with self._lock:
            began = time.monotonic()
            if self._taken is not None and began < self._looked + max(LOOK_S, self._rest):
                return self._taken
            lake, self._looked = self._lake(), began
            versions = lake.versions()
            seen = (versions["rounds"], versions["orders"])
            if self._taken is None or seen != self._seen or began > self._made + STALE_S:
                number = self._taken.number + 1 if self._taken else 0
                self._taken, self._seen = Taken(number, pulse.pulse(lake, datetime.now(UTC))), seen
                self._made = time.monotonic()
                self._rest = REST * (self._made - began)
            return self._taken
