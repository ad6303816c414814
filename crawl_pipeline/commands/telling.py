"""The commands that say how the crawl stands and why: status, funnel, explain, whatif, freshness.

They write nothing.
"""

from datetime import UTC, datetime
from pathlib import Path

import click

from crawl_pipeline.commands.common import as_json, command, is_a_moment, out, policy_file, policy_of, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


@command()
@as_json
def status(lake: str, *, as_json: bool) -> None:
    """Show how the crawl stands: pages, frontier, hosts, what is due, who works."""
    from crawl_pipeline import display, standing

    with progress("counting", quiet=as_json):
        figures = standing.standing(Lake.open(lake))
    print_json(figures) if as_json else display.standing(out, figures)


@command()
@as_json
def funnel(lake: str, *, as_json: bool) -> None:
    """Show what became of all URLs selected and links read, and how politeness was kept."""
    from crawl_pipeline import display, standing

    with progress("counting", quiet=as_json):
        figures = standing.standing(Lake.open(lake))
    print_json(figures) if as_json else display.funnel(out, figures)


@command()
@click.argument("url")
@click.option("--at", callback=is_a_moment, help="Explain the round of this time instead (UTC, if no offset is given).")
@click.option("--round", "number", type=int, help="Explain the round of this number instead.")
@policy_file
@as_json
def explain(
    lake: str, url: str, at: datetime | None, number: int | None, policy_path: Path | None, *, as_json: bool
) -> None:
    """Say what is known of a URL, and why it was or was not fetched; or what a past round made of it, and its draw."""
    from crawl_pipeline import display, explaining

    opened, now = Lake.open(lake), datetime.now(UTC)
    with progress("looking it up", quiet=as_json):
        if at or number is not None:
            found = explaining.explain_past(opened, url, explaining.then(opened, url, at, number, now))
        else:
            found = explaining.explain(opened, policy_of(lake, policy_path), url, now)
    if as_json:
        print_json({"url": found.url, "because": found.because} | found.facts)
        return
    display.explained(out, found.url, found.because, found.facts)


@command()
@click.option("--at", callback=is_a_moment, help="When (UTC, if no offset is given; default: now).")
@click.option("--policy", "path", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="The policy to try.")  # fmt: skip
@click.option("--against", type=click.Path(dir_okay=False, path_type=Path),
              help="Compare with this policy, not with the one in force then.")  # fmt: skip
@as_json
def whatif(lake: str, at: datetime | None, path: Path, against: Path | None, *, as_json: bool) -> None:
    """Show what would have been selected at a time under another policy, against what was. Writes nothing."""
    from crawl_pipeline import display
    from crawl_pipeline import whatif as trying

    opened, now = Lake.open(lake), datetime.now(UTC)
    tried, other = policy_of(lake, path), policy_of(lake, against) if against else None
    with progress("selecting twice from the same picture", quiet=as_json):
        found = trying.whatif(opened, tried, at or now, now, other)
    print_json([compared.figures() for compared in found]) if as_json else display.compared(out, found)


@command()
@policy_file
@as_json
def freshness(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Say how fresh pages are expected to be, how near that is to the best plan, and whether it is expected rightly."""
    from crawl_pipeline import display
    from crawl_pipeline import freshness as reckoning

    with progress("reckoning the freshness of every page", quiet=as_json):
        found = reckoning.reckon(Lake.open(lake), policy_of(lake, policy_path), datetime.now(UTC))
    print_json(found.figures()) if as_json else display.fresh(out, found)
