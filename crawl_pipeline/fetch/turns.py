"""Turns at addresses: a request starts at an address only when core.slots says so, one start after the other.

Hosts that share an address wait in one line for it, in the order they came. Nothing is known here of other workers:
their slots are others. Whether a host may be asked at all is the lane's matter.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import trio

from crawl_pipeline.core.slots import Slots

Turn = Callable[[str], Awaitable[float]]
"""Called with the address that is about to be asked, before each connection and request; gives the moment of the start,
in Trio's time; raises NoTurn."""


class NoTurn(Exception):
    """The host, or its address, may not be asked before the end of the work; never leaves this package."""


async def at_once(address: str) -> float:
    """Wait for nothing."""
    return trio.current_time()


@dataclass(slots=True)
class _Line:
    turn: trio.Lock = field(default_factory=trio.Lock)
    last: float | None = None


class AddressTurns:
    """The lines before all addresses of one worker."""

    def __init__(self, slots: Slots, wall_s: Callable[[], float], stop_at: Callable[[], float]) -> None:
        self._slots, self._wall_s, self._stop_at = slots, wall_s, stop_at
        self._lines: dict[str, _Line] = {}

    async def come(self, address: str) -> float:
        """Sleep until a request may start at the address, which it then must; raise NoTurn if the work ends first.

        Gives the moment from which on it has started. The next one counts from a later one: on a busy machine time
        passes between any two lines.
        """
        line = self._lines.setdefault(address, _Line())
        async with line.turn:
            while (wait_s := self._wait_s(address, line)) > 0:
                if trio.current_time() + wait_s >= self._stop_at():
                    raise NoTurn
                await trio.sleep(wait_s)
            if (started := trio.current_time()) >= self._stop_at():
                raise NoTurn
            line.last = self._wall_s()
            return started

    def obey(self, gap_s: float) -> None:
        """Keep this gap from the next start on."""
        self._slots = replace(self._slots, gap_s=gap_s)

    def forget_old(self) -> None:
        """Let go of lines in which nobody stands and whose last start binds nobody any more."""
        now, gap_s = self._wall_s(), self._slots.gap_s
        for address, line in list(self._lines.items()):
            if not line.turn.locked() and (line.last is None or line.last + gap_s <= now):
                del self._lines[address]

    def _wait_s(self, address: str, line: _Line) -> float:
        now = self._wall_s()
        # Microseconds are as fine as the wall clock goes: less than one is no wait.
        return max(0.0, self._slots.next_start(address, now, line.last) - now - 1e-6)
