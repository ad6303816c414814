"""Bodies as files: the newest stored version of each page, each content one file, and a list of what is where.

Reads the lake and writes into one folder. Names of files are hashes, never taken from a URL.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from crawl_pipeline import corpus
from crawl_pipeline.lake import Lake

LIST = "pages.csv"
AT_ONCE = 200
"""Bodies in memory at a time."""
_ENDINGS = {"text/html": ".html", "application/xhtml+xml": ".xhtml", "text/plain": ".txt"}

_NEWEST = """
select url, fetched_at, content_type, charset, body_bytes, tag, content_round, body_hash
from pages
where content_round is not null and ({where})
qualify row_number() over (partition by url_hash order by round desc) = 1
order by url
"""


def extract(lake: Lake, folder: Path, where: str = "true") -> tuple[int, int]:
    """Write bodies of pages that satisfy a condition in SQL, and the list; give how many pages and how many files.

    Raise corpus.QueryError if the condition is none.
    """
    pages = corpus.query(lake, _NEWEST.format(where=where))
    contents = pages.unique("body_hash", maintain_order=True)
    names = {
        body_hash: _name(body_hash, kind) for body_hash, kind in contents.select("body_hash", "content_type").rows()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for body_hash, body in _bodies(lake, contents.sort("content_round")):
        (folder / names[body_hash]).write_bytes(body)
    files = pl.Series("file", [names[body_hash] for body_hash in pages["body_hash"]], dtype=pl.String)
    pages.drop("content_round", "body_hash").insert_column(1, files).write_csv(folder / LIST)
    return pages.height, len(names)


def _name(body_hash: bytes, content_type: str | None) -> str:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return f"{body_hash.hex()}{_ENDINGS.get(kind, '')}"


def _bodies(lake: Lake, contents: pl.DataFrame) -> Iterator[tuple[bytes, bytes]]:
    for some in contents.iter_slices(AT_ONCE):
        rounds, hashes = some["content_round"].unique().implode(), some["body_hash"].implode()
        wanted = pl.col("round").is_in(rounds) & pl.col("body_hash").is_in(hashes)
        found = lake.scan("contents", where=wanted).select("body_hash", "body").collect()
        yield from found.unique("body_hash").iter_rows()
