"""Arrays in files of the caches, mapped into memory: as large as they like, while only what is touched is read.

They hold no truth. Unlike other caches they are changed in place, so they count only while a stamp lies beside them: it
is taken away before the first change (`take`) and comes back, with what it stands for, after the last (`leave`). A
process that was killed in between leaves arrays without a stamp, which are begun anew.
"""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crawl_pipeline.lake import caching

_STAMP = "stamp.json"


@dataclass(frozen=True, slots=True)
class MappedFiles:
    """A room for arrays (core.sorted_runs.Room) in one folder."""

    folder: Path

    def grow(self, name: str, dtype: type[np.generic], length: int, width: int = 1) -> npt.NDArray[Any]:
        """Give the array of that name with so many rows, those it had among them; what is new is 0."""
        path, shape = self.folder / name, (length, width) if width > 1 else (length,)
        size = length * width * np.dtype(dtype).itemsize
        with path.open("ab") as file:
            if file.tell() < size:
                file.truncate(size)
        return np.memmap(path, dtype, "r+", shape=shape) if length else np.zeros(shape, dtype)

    def drop(self, name: str) -> None:
        """Forget an array; who has it mapped still reads it."""
        with suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def take(self) -> dict[str, Any] | None:
        """What the arrays stand for, which counts for nothing from now on; None if that is not known."""
        content = caching.load(self.folder / _STAMP)
        with suppress(FileNotFoundError):
            (self.folder / _STAMP).unlink()
        if content is None:
            return None
        stamp: dict[str, Any] = json.loads(content)
        return stamp

    def begin(self) -> None:
        """Begin anew, without arrays."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)

    def leave(self, stamp: dict[str, Any]) -> None:
        """Say what the arrays stand for."""
        caching.save(self.folder / _STAMP, json.dumps(stamp).encode())
