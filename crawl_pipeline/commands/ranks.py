"""The command that ranks what is known: rank."""

from dataclasses import asdict
from pathlib import Path

import click

from crawl_pipeline.commands.common import as_json, command, out, policy_file, policy_of, print_json
from crawl_pipeline.lake import Lake


@command()
@click.option("--again", is_flag=True, help="Rank though nothing was asked since the last ranking.")
@policy_file
@as_json
def rank(lake: str, policy_path: Path | None, *, again: bool, as_json: bool) -> None:
    """Rank what is known by the links that lead to it, over all buckets; can be killed and repeated."""
    from crawl_pipeline import display, ranking

    opened = Lake.open(lake)
    found = ranking.rank(opened, policy_of(lake, policy_path), again=again)
    if as_json:
        print_json(asdict(found))
        return
    out.print(ranking.line(found))
    if found.number:
        display.ranks(out, ranking.best(opened, 10), ranking.best_hosts(opened, 10))
