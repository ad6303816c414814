"""What a module says of itself, what it is given, and what it gives back.

Plain values and two protocols; nothing is loaded or called here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import polars as pl

from crawl_pipeline.core import declared_tables
from crawl_pipeline.core.tables import Column, Table

Phase = Literal["read", "round"]
Row = Mapping[str, object]


class Unusable(Exception):
    """Raised by a module that can make nothing of what it was given; its message is the reason that is recorded."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call of a module may take; whatever passes a limit costs that result."""

    seconds: float = 5.0
    """For one answer, or for one round."""
    body_bytes: int = 10_000_000
    """Larger bodies are not handed over."""
    memory_bytes: int = 1_000_000_000
    """That the process may take on top of what it has before the call."""
    result_bytes: int = 20_000_000
    """Of all rows together."""


def column(name: str, dtype: pl.DataType | type[pl.DataType], meaning: str, unit: str = "") -> Column:
    """A column that only this module's table has: its name, type, meaning and unit."""
    return Column(name, dtype() if isinstance(dtype, type) else dtype, unit, meaning)


@dataclass(frozen=True)
class Declaration:
    """What a module wants and what it writes.

    Each row of its table is about one URL: `bucket`, `round`, `url`, `url_hash`, `host` and `fetched_at` come first and
    are filled in. Then come `columns`: new ones, and names of columns that other tables have too, such as `title`.
    """

    table: str
    one_row_is: str
    columns: Sequence[Column | str]
    content_types: tuple[str, ...]
    """Media types, such as image/png or image/*, of the answers that are handed over."""
    images: bool = False
    """Pictures in pages (the src of img) are links to be followed, where their names do not end as other files do."""
    endings: tuple[str, ...] = ()
    """References to files with these endings, such as pdf, are followed though `budget.skip_extensions` has them."""
    frames: tuple[str, ...] = ("pages",)
    """For `round`: the tables whose rows of the round are handed over, without bodies."""
    keeps_bodies: bool = False
    """For `read`: bodies that rows are about are stored, once each, in `contents`; `content_round` and `body_hash`,
    which are columns then and filled in too, find them there."""
    limits: Limits = Limits()

    @cached_property
    def as_table(self) -> Table:
        """Its table; ValueError if it cannot be one."""
        kept = declared_tables.KEPT if self.keeps_bodies else ()
        return declared_tables.declared(self.table, self.one_row_is, (*kept, *self.columns))

    def wants(self, media_type: str) -> bool:
        """Whether answers of this media type are handed over."""
        kind = media_type.partition("/")[0]
        return media_type in self.content_types or f"{kind}/*" in self.content_types or "*/*" in self.content_types


@dataclass(frozen=True, slots=True)
class Content:
    """One answer as a module is given it; what only pages have is None for anything else."""

    url: str
    media_type: str
    body: bytes
    """After content decoding."""
    body_hash: bytes
    text: str | None = None
    """Visible text, a line per block."""
    title: str | None = None
    lang: str | None = None


@runtime_checkable
class Module(Protocol):
    """What every module has."""

    @property
    def declares(self) -> Declaration:
        """What it wants and what it writes."""
        ...


@runtime_checkable
class ReadModule(Module, Protocol):
    """Called with each answer of a wanted type."""

    def read(self, content: Content, /) -> Iterable[Row]:
        """Give rows of its own columns about this answer: none, one or many."""
        ...


@runtime_checkable
class RoundModule(Module, Protocol):
    """Called with a round's rows before they are committed."""

    def round(self, frames: Mapping[str, pl.DataFrame], /) -> pl.DataFrame | Iterable[Mapping[str, Any]]:
        """Give rows of its own columns and `url_hash`, which must be that of a page of this round."""
        ...
