"""Modules: how other kinds of content, and other analyses, attach to a crawl. This is the public way in.

A module is a class whose instances say what they want and what they write (`declares`), and have one of two methods:
`read`, called in a process of its own with one answer of a wanted type; `round`, called there with a round's rows
before they are committed. The policy names the modules that are used (`[modules]`); packages register theirs under the
entry point group `crawl_pipeline.modules`. docs/modules.md shows one in thirty lines.

What a module raises, breaks or never finishes costs its own result: a row of `module_failures` says so, and the page
is stored as ever. Invariant: a module never runs in the process that fetches, or in one that reads pages.
"""

from crawl_pipeline.core.tables import TIME, Column
from crawl_pipeline.modules.declaring import (
    Content,
    Declaration,
    Limits,
    Module,
    ReadModule,
    RoundModule,
    Row,
    Unusable,
    column,
)

__all__ = [
    "TIME", "Column", "Content", "Declaration", "Limits", "Module", "ReadModule", "RoundModule", "Row", "Unusable",
    "column",
]  # fmt: skip
