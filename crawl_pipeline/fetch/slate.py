"""Hand batches to a worker process and back through shared memory: pipes take large bodies in small bites.

One slate belongs to one batch at a time: the asker writes on it, the process reads it and writes its answer over it.
What does not fit goes through the process's pipe as usual. Nothing here knows what is written.
"""

import pickle
from collections.abc import Callable
from functools import lru_cache
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Any, Self

SIZE = 16 << 20
"""Bytes of a slate; memory is only taken for what is written."""


class Slate:
    """A piece of shared memory, gone when its block ends or its owner dies."""

    def __init__(self, size: int = SIZE) -> None:
        self._memory = SharedMemory(create=True, size=size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()
        self._memory.unlink()

    def write(self, value: object) -> "tuple[str, int] | object":
        """Give what to send to the process: where the value stands on the slate, or the value if it does not fit."""
        written = _write(self._memory, value)
        return value if written is None else (self._memory.name, written)

    def read(self, answer: "int | Any") -> Any:
        """Give what the process answered: on the slate, or itself."""
        return _read(self._memory, answer) if isinstance(answer, int) else answer


def on_slate(function: Callable[..., Any], sent: Any, *arguments: Any) -> Any:
    """In the process: call the function with what was sent, and write its result over it."""
    if not isinstance(sent, tuple):
        return function(sent, *arguments)
    memory, length = _memory(sent[0]), sent[1]
    result = function(_read(memory, length), *arguments)
    written = _write(memory, result)
    return result if written is None else written


def _read(memory: SharedMemory, length: int) -> Any:
    assert memory.buf is not None  # until it is closed
    return pickle.loads(memory.buf[:length])


def _write(memory: SharedMemory, value: object) -> int | None:
    pickled = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    if memory.buf is None or len(pickled) > memory.size:
        return None
    memory.buf[: len(pickled)] = pickled
    return len(pickled)


@lru_cache(maxsize=4)
def _memory(name: str) -> SharedMemory:
    return SharedMemory(name)
