"""Modules that hurt whoever calls them: in the way that a page's URL ends with; on other pages they count letters."""

import os
import signal
import time
from dataclasses import dataclass

import polars as pl

from crawl_pipeline.modules import Content, Declaration, Limits, column

SECONDS = 1.0
"""Long enough for an innocent call on a busy machine."""


def declares(table: str) -> Declaration:
    return Declaration(
        table, "one page that was looked at", ("title", column("letters", pl.Int64, "letters of its text", "letters")),
        ("text/html",), limits=Limits(seconds=SECONDS, memory_bytes=300_000_000, result_bytes=100_000),
    )  # fmt: skip


def busy() -> None:
    while True:
        pass


def deaf() -> None:
    """As native code is: no alarm is heard."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    busy()


def stubborn() -> None:
    while True:
        try:
            busy()
        except BaseException:
            continue


def fail() -> None:
    raise LookupError("no such thing")


def leave() -> None:
    raise SystemExit(3)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even my message")


def mumble() -> None:
    raise Unspeakable


def fork() -> list[dict[str, int]]:
    """And go on in both processes, as a library does that starts one and forgets to end it."""
    os.fork()
    return [{"letters": 1}]


def fork_and_stay() -> list[dict[str, int]]:
    """And leave a process behind that holds whatever it inherited."""
    if os.fork() == 0:
        time.sleep(3_600)
    return [{"letters": 1}]


DEEDS = {
    "busy": busy, "sleeps": lambda: time.sleep(3_600), "deaf": deaf, "stubborn": stubborn,
    "raises": fail, "leaves": leave, "mumbles": mumble,
    "dies": lambda: os.kill(os.getpid(), signal.SIGKILL), "exits": lambda: os._exit(0),
    "eats memory": lambda: bytearray(400_000_000),
    "says a number": lambda: 7, "says text": lambda: "rows", "says words": lambda: ["a", "b"],
    "says what cannot be sent": lambda: [{"letters": lambda: 1}],
    "says another column": lambda: [{"colour": "red"}],
    "says another type": lambda: [{"letters": "many"}],
    "says too much": lambda: [{"title": "x" * 200_000}],
    "never stops saying": lambda: iter(lambda: {"letters": 1}, None),
    "forks": fork, "forks and stays": fork_and_stay,
    "says a frame of another shape": lambda: pl.DataFrame({"colour": ["red"]}),
}  # fmt: skip


@dataclass(frozen=True)
class Hurtful:
    """Does what the URL says, if that hurts; else counts letters."""

    table: str = "hurt"

    @property
    def declares(self) -> Declaration:
        return declares(self.table)

    def read(self, content: Content):
        deed = content.url.rpartition("/")[2].replace("-", " ")
        if deed in DEEDS:
            return DEEDS[deed]()
        return [{"title": content.title, "letters": len(content.text or "")}]


@dataclass(frozen=True)
class HurtfulRound:
    """The same with a round's rows, whatever they are."""

    deed: str = "raises"

    @property
    def declares(self) -> Declaration:
        return declares("hurt_rounds")

    def round(self, frames):
        if self.deed == "well":
            return frames["pages"].select("url_hash", "title", letters=pl.lit(1, pl.Int64))
        if self.deed == "strangers":
            return [{"url_hash": 1, "letters": 2}]
        return DEEDS[self.deed]()


class NeedsWhatIsMissing:
    """There, and not to be made: what it needs is not installed."""

    def __init__(self) -> None:
        import no_such_package  # noqa: F401, PLC0415
