"""How hard tests try that get better by trying more: kills, random cases, draws.

`make test` tries often enough to find what breaks in common ways, and stays short. `make test-thorough`, which is
the same suite with CRAWL_TESTS=thorough, takes as long as it takes.
"""

import os
from typing import TypeVar

import pytest

Case = TypeVar("Case")

THOROUGH = os.environ.get("CRAWL_TESTS") == "thorough"


long = pytest.mark.skipif(not THOROUGH, reason="takes long: make test-thorough")
"""Marks a test of ten seconds or more whose subject others look at too, less deeply."""


def times(usual: int, thorough: int) -> int:
    """How often to try."""
    return thorough if THOROUGH else usual


def some(cases: list[Case], usual: int = 1) -> list[Case]:
    """The first cases of several that differ little; all of them where it is to be thorough."""
    return cases if THOROUGH else cases[:usual]
