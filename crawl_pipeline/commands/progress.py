"""Say what takes long while it does: a spinner on a terminal, plain lines elsewhere, nothing with --json.

All of it goes to stderr, so that what a command prints stays whole. Invariant: what ends within two seconds says
nothing.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

QUIET_S = 2.0
"""Until when nothing is said."""
AGAIN_S = 30.0
"""After how long a step that goes on is named again, where there is no spinner."""
LOOK_S = 0.2

Step = Callable[[str], None]


@contextmanager
def progress(what: str, *, quiet: bool = False, after_s: float = QUIET_S) -> Iterator[Step]:
    """Tell that `what` is going on for as long as the block runs; what is given names the step it is at."""
    if quiet:
        yield lambda step: None
        return
    said, ended = _Said(what), threading.Event()
    teller = threading.Thread(target=_spin if sys.stderr.isatty() else _write, args=(said, ended, after_s), daemon=True)
    teller.start()
    try:
        yield said.step
    finally:
        ended.set()
        teller.join()


class _Said:
    """What is going on, and since when."""

    def __init__(self, what: str) -> None:
        self._what, self._at, self._began = what, "", time.monotonic()

    def step(self, at: str) -> None:
        """Begin a step."""
        self._at = at

    @property
    def text(self) -> str:
        """It in words."""
        return f"{self._what}: {self._at}" if self._at else self._what

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._began


def _spin(said: _Said, ended: threading.Event, after_s: float) -> None:
    if ended.wait(after_s):
        return
    with Console(stderr=True, highlight=False).status("") as status:
        while not ended.wait(LOOK_S):
            status.update(f"{escape(said.text)} [dim]{said.seconds:.0f} s[/]")


def _write(said: _Said, ended: threading.Event, after_s: float) -> None:
    if ended.wait(after_s):
        return
    told, at = "", 0.0
    while not ended.wait(LOOK_S):
        if said.text != told or said.seconds > at + AGAIN_S:
            told, at = said.text, said.seconds
            print(f"{told} ({at:.0f} s)", file=sys.stderr, flush=True)
