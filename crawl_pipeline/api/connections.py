"""A connection of the HTTP API: closed if the head of a request does not come whole in time.

The server's own protocol waits for a head for ever, so that a hundred clients that send a byte and fall silent (slow
loris) would keep everybody out. How long a body may take says the Guard. Invariant: no connection lives on a head that
is not whole for longer than HEAD_S.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """One connection, which must say what it wants."""

    HEAD_S = 10.0
    """From connecting, or from the first byte of a further request, to the end of its head; in seconds."""

    _ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._ends = self.loop.call_later(self.HEAD_S, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come; wait on if it is a part of a head."""
        super().handle_events()
        begun, _ = self.conn.trailing_data
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif begun and self._ends is None:
            self._ends = self.loop.call_later(self.HEAD_S, self.timeout_keep_alive_handler)

    def _wait_no_more(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
