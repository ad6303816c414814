"""Try what every commit of the lake relies on: of two writers who saw the same version exactly one may write the next.

A store without conditional writes (or a file system without exclusive creation) passes all other checks and then loses
commits. Tried for real, in a small table of its own beside the lake's, which no reader looks at.
"""

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from crawl_pipeline.lake.delta import store
from crawl_pipeline.lake.erasing import listed

NAME = "_doctor"
ROWS = pa.table({"tried": pa.array([1], pa.int8())})
ONCE = CommitProperties(max_commit_retries=0)


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of it: trouble in words, empty if commits are safe; and how long a commit took."""

    trouble: str
    commit_s: float = 0.0


def probe(root: str, options: Mapping[str, str]) -> Probed:
    """Write, and write again as somebody who has not seen that: the second one must be refused."""
    uri, given = f"{root}/{NAME}", dict(options)
    try:
        deltalake.DeltaTable.create(uri, ROWS.schema, mode="ignore", storage_options=given)
        first, second = (deltalake.DeltaTable(uri, storage_options=given) for _ in range(2))
        began = time.perf_counter()
        write_deltalake(first, ROWS, mode="append", commit_properties=ONCE)
        took = time.perf_counter() - began
        return Probed(_overwrites(second), took)
    except (DeltaError, OSError) as trouble:
        return Probed(f"nothing can be written: {trouble}")
    finally:
        _clear(uri, given)


def _clear(uri: str, options: Mapping[str, str]) -> None:
    """Leave nothing behind, on a disk or in an object store."""
    if "://" not in uri:
        shutil.rmtree(uri, ignore_errors=True)
        return
    with suppress(DeltaError, OSError):
        folder = store(uri, options)
        for file in listed(folder):
            folder.delete_file(file.path)


def _overwrites(stale: deltalake.DeltaTable) -> str:
    try:
        write_deltalake(stale, ROWS, mode="append", commit_properties=ONCE)
    except CommitFailedError:
        return ""
    return (
        "two writers could commit the same version, so that one of them is lost: use a store with conditional writes "
        "(put if none match), or a file system with exclusive creation"
    )
