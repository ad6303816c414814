"""Call a module, in a process that may be killed, and check what it gives: rows of its table, or why there are none.

Runs where modules run. A call is bounded from inside by an alarm and by what the process may allocate; whoever started
the process bounds it from outside too, for native code hears no alarm. Invariants: what leaves here is a frame of the
declared columns or a reason, never anything a module made; and it leaves once, whatever processes a module forks.
"""

import ctypes
import gc
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl

from crawl_pipeline.core.declared_tables import KEPT, PLACE
from crawl_pipeline.core.tables import Column
from crawl_pipeline.modules.declaring import Content, Declaration, Limits, ReadModule, RoundModule, Unusable
from crawl_pipeline.modules.loading import Spec, make

MOST_CHARACTERS = 500
"""Of a reason."""
PR_SET_PDEATHSIG = 1
"""linux/prctl.h."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one call of a module gave: rows, or why there are none."""

    module: str
    rows: pl.DataFrame | None = None
    failure: str | None = None
    spent: bool = False
    """The process has no memory left: it is better begun anew."""


class _OutOfTime(BaseException):
    """The alarm went: no Exception, so that a module's own `except Exception` lets it pass."""


def prepare(specs: Sequence[Spec]) -> None:
    """Import and make the modules, so that no call has to wait for that; what fails here fails again when called."""
    with _one_process():
        for spec in specs:
            try:
                make(spec)
            except (Exception, SystemExit):
                continue
    _data_bytes_at_first()


def read_all(contents: Sequence[Content], spec: Spec, limits: Limits) -> list[Told]:
    """Call a module with each content in turn; after `limits.seconds` those that are left are left to another call."""
    began, told = time.monotonic(), list[Told]()
    for content in contents:
        told.append(_bounded(spec, limits, lambda content=content: read(content, spec, limits)))
        if told[-1].spent or time.monotonic() - began >= limits.seconds:
            break
    return told


def round_once(frames: Mapping[str, pl.DataFrame], spec: Spec, limits: Limits) -> Told:
    """Call a module with a round's rows."""
    return _bounded(spec, limits, lambda: of_round(frames, spec, limits))


def read(content: Content, spec: Spec, limits: Limits) -> Told:
    """Call a module with one content, without an alarm."""
    if len(content.body) > limits.body_bytes:
        return Told(spec.name, failure=f"the body has {len(content.body)} bytes, over its limit of {limits.body_bytes}")

    def call() -> pl.DataFrame:
        module = make(spec)
        assert isinstance(module, ReadModule)
        return own_rows(module.read(content), module.declares, ())

    return _checked(spec.name, limits, call)


def of_round(frames: Mapping[str, pl.DataFrame], spec: Spec, limits: Limits) -> Told:
    """Call a module with a round's rows, without an alarm."""

    def call() -> pl.DataFrame:
        module = make(spec)
        assert isinstance(module, RoundModule)
        found = own_rows(module.round(frames), module.declares, ("url_hash",))
        strangers = found.join(frames["pages"], on="url_hash", how="anti")
        if strangers.height:
            raise Unusable(f"{strangers.height} rows are not about pages of the round: url_hash is none of theirs")
        return found

    return _checked(spec.name, limits, call)


def _checked(name: str, limits: Limits, call: Any) -> Told:
    try:
        rows = call()
    except Unusable as reason:
        return Told(name, failure=_short(str(reason)))
    except MemoryError:
        return Told(name, failure=f"it took over {limits.memory_bytes} bytes of memory", spent=True)
    except _OutOfTime:
        raise
    except BaseException as fault:  # SystemExit and the like too: a module does not end its process, let alone ours
        return Told(name, failure=_short(_in_words(fault)))
    size = rows.estimated_size()
    if size > limits.result_bytes:
        return Told(name, failure=f"its rows have {size} bytes, over its limit of {limits.result_bytes}")
    return Told(name, rows)


def own_rows(given: object, declares: Declaration, besides: Sequence[str]) -> pl.DataFrame:
    """The rows a module gave, in the types of its own columns; Unusable says what they were instead."""
    filled_in = {*PLACE, *(KEPT if declares.keeps_bodies else ())} - set(besides)
    columns = [column for column in declares.as_table.columns if column.name not in filled_in]
    schema = {column.name: column.dtype for column in columns}
    if isinstance(given, pl.DataFrame):
        rows: pl.DataFrame = given
    else:
        plain = _plain(given, columns)
        rows = pl.DataFrame([_series(column, [row.get(column.name) for row in plain]) for column in columns])
    unknown = [name for name in rows.columns if name not in schema]
    if unknown:
        raise Unusable(f"expected rows of the columns {list(schema)}, found {unknown} too")
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
    rows = rows.with_columns(absent).select(pl.col(name).cast(dtype, strict=True) for name, dtype in schema.items())
    if any(rows[name].null_count() for name in besides):
        raise Unusable(f"expected a value in each row for {list(besides)}, found null")
    return rows


def _series(column: Column, values: list[object]) -> pl.Series:
    try:
        return pl.Series(column.name, values, dtype=column.dtype, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise Unusable(f"expected {column.dtype} in the column {column.name}, found another type: {error}") from error


def _plain(given: object, columns: Sequence[Column]) -> list[Mapping[str, object]]:
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise Unusable(f"expected rows, found {type(given).__name__}")
    rows, names = list(given), {column.name for column in columns}
    for row in rows:
        if not isinstance(row, Mapping):
            raise Unusable(f"expected rows that map columns to values, found {type(row).__name__}")
        if not names.issuperset(row):
            raise Unusable(f"expected rows of the columns {sorted(names)}, found {sorted(map(str, row))}")
    return rows


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)  # once: who swallows it is killed from outside
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _bounded(spec: Spec, limits: Limits, call: Any) -> Told:
    try:
        with _one_process(), _alarm(limits.seconds), _memory(limits.memory_bytes):
            told: Told = call()
    except _OutOfTime:
        return Told(spec.name, failure=out_of_time(limits))
    return told


def out_of_time(limits: Limits) -> str:
    """Why there are no rows of a call that took too long."""
    return f"not done within {limits.seconds:g} s"


@contextmanager
def _one_process() -> Iterator[None]:
    """End whatever a module has forked when it comes back: only one process may answer."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)


def let_go_when_forked() -> None:
    """In the process of modules, before any is imported: what they fork shall not outlive it, nor hold its pipes open.

    Whoever waits for a process waits until nobody holds its pipes: a forgotten child would hang the worker.
    """
    inherited = _open_files()

    def let_go() -> None:
        for number in inherited:
            with suppress(OSError):
                os.close(number)
        _end_with_parent()

    os.register_at_fork(after_in_child=let_go)


def _open_files() -> list[int]:
    """Files that are open, but for the three that every process has."""
    try:
        return [number for name in os.listdir("/dev/fd") if (number := int(name)) > 2]
    except OSError:
        return []


def _end_with_parent() -> None:
    """Have this process killed when the one that forked it ends, where the system can do that (prctl(2), Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _memory(more: int) -> Iterator[None]:
    """Let the process allocate no more than this on top of what it had at first (RLIMIT_DATA, on Linux)."""
    first = _data_bytes_at_first()
    if first is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = first + more if before[1] == resource.RLIM_INFINITY else min(before[1], first + more)
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        gc.collect(0)


@cache
def _data_bytes_at_first() -> int | None:
    """What the process had allocated when it was asked for the first time; None where that cannot be told."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def _in_words(fault: BaseException) -> str:
    try:
        return f"{type(fault).__name__}: {fault}"
    except Exception:  # whose own text breaks
        return type(fault).__name__


def _short(reason: str) -> str:
    printable = reason.encode("utf-8", "replace").decode("utf-8")
    return printable if len(printable) <= MOST_CHARACTERS else f"{printable[:MOST_CHARACTERS]}..."
