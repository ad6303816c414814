"""The command `crawl`: a person's way in. Importing this module gives `main` with every command of `commands/`.

Dagster is imported only by the commands that need it, so that all others start at once.
"""

from crawl_pipeline.commands import (
    erasing,
    exporting,
    judging,
    lake,
    orders,
    ranks,
    reading,
    report,
    serving,
    settings,
    telling,
    work,
)
from crawl_pipeline.commands.common import main

COMMANDS = (erasing, exporting, judging, lake, orders, ranks, reading, report, serving, settings, telling, work)
"""Each adds its commands to `main` when it is imported."""

__all__ = ["COMMANDS", "main"]
