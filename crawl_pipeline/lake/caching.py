"""Files beside a lake that spare work and hold no truth: any of them may vanish or be wrong at any time.

Decides where they lie. A lake on a disk has them in its own folder `_caches`, so that they move and go with it; a
lake in an object store has them on the worker's disk. Whoever keeps something here must know it again by its content:
nothing is promised about who wrote a file last.

A file is replaced whole, by a rename: a reader finds the old one or the new one, never half of one. Trouble with the
disk is logged and costs the cache, never the crawl.
"""

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from crawl_pipeline.core.urls import hash64

log = logging.getLogger(__name__)


def folder(root: str) -> Path:
    """Where the caches of a lake are; CRAWL_CACHES names a folder for those of many lakes."""
    given = os.environ.get("CRAWL_CACHES")
    if not given and "://" not in root:
        return Path(root) / "_caches"
    shared = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "crawl"
    return shared / f"{hash64(root) & (1 << 64) - 1:016x}"


def load(path: Path) -> bytes | None:
    """Give what a file holds; None if there is none, or it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as trouble:
        log.warning("the cache %s cannot be read (%s): doing without it", path, trouble)
        return None


def save(path: Path, content: bytes) -> None:
    """Put content in the place of what a file held."""
    written = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(content)
        written.replace(path)
    except OSError as trouble:
        with suppress(OSError):
            written.unlink()
        log.warning("the cache %s cannot be written (%s): doing without it", path, trouble)
