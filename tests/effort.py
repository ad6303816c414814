"""How hard tests try that get better by trying more: kills, random cases, draws.

`make test` tries often enough to find what breaks in common ways, and stays short. `make test-thorough`, which is
the same suite with CRAWL_TESTS=thorough, takes as long as it takes.
"""

import os

THOROUGH = os.environ.get("CRAWL_TESTS") == "thorough"


def times(usual: int, thorough: int) -> int:
    """How often to try."""
    return thorough if THOROUGH else usual
