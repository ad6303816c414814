"""What a server of a web writes down: one JSON line per request, on the server's own clock.

The judge of every promise to hosts: a crawl's own records are compared with it, never the other way
round.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the access log. Times are the server's wall clock in microseconds since 1970."""

    id: int
    host: str
    path: str  # path and query, as in the request line
    started_at: int  # the request's head was complete
    ended_at: int  # the answer's last bytes are about to be handed to the system
    status: int | None  # None: the connection was reset without an answer, as the site was told to
    bytes: int  # of the body, as sent
    user_agent: str
    client: str
    server: str


def rows(log: Path) -> list[Row]:
    """The log so far, in the order the requests ended."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [Row(**json.loads(line)) for line in lines]
