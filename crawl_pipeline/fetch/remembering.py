"""What a reading process remembers of pages it has read, so that a copy is not parsed again.

Decides when a remembered page stands for another: same bytes, same fields of the answer, same rules, and a URL from
which its references lead to the same places (core.reach). What comes back is what reading would give, byte for byte.

Bounds: so many pages, none of them large; the one that was not wanted for longest goes first.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from crawl_pipeline.core import reach
from crawl_pipeline.core.reach import Reach

LARGE = 100_000
"""Bytes of a result beyond which it is not remembered."""

Read = TypeVar("Read")


@dataclass(slots=True)
class _Kept(Generic[Read]):
    url: str
    references: tuple[str, ...]
    base: str | None
    read: Read
    reach: Reach | None = None

    def stands_for(self, url: str) -> bool:
        if url == self.url:
            return True
        if self.reach is None:  # most pages are never met again
            self.reach = reach.reach(self.references, self.base)
        return reach.stem(url, self.reach) == reach.stem(self.url, self.reach)


@dataclass(slots=True)
class Memory(Generic[Read]):
    """The pages of one process."""

    kept: OrderedDict[Hashable, _Kept[Read]] = field(default_factory=OrderedDict)

    def recall(self, key: Hashable, url: str) -> Read | None:
        """Give what reading the page at this URL would give, if that is known."""
        kept = self.kept.get(key)
        if kept is None or not kept.stands_for(url):
            return None
        self.kept.move_to_end(key)
        return kept.read

    def keep(
        self, key: Hashable, url: str, references: tuple[str, ...], base: str | None, read: Read, size: int, most: int
    ) -> None:  # fmt: skip
        """Remember a page that was read; `size` is about that of the result, `most` how many are remembered."""
        if size > LARGE or not most:
            return
        self.kept[key] = _Kept(url, references, base, read)
        self.kept.move_to_end(key)
        while len(self.kept) > most:
            self.kept.popitem(last=False)
