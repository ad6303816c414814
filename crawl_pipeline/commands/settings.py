"""The commands that show the policy in force and order single keys of it: policy, set, unset."""

from datetime import UTC, datetime
from pathlib import Path

import click

from crawl_pipeline import ordering
from crawl_pipeline.commands.common import as_json, command, out, policy_file, policy_of, print_json
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import settings
from crawl_pipeline.lake import Lake


@command()
@policy_file
@as_json
def policy(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Show the policy in force, as TOML: what the file says, and what was set by whom."""
    opened, rules = Lake.open(lake), policy_of(lake, policy_path)
    if as_json:
        print_json(ordering.policy_told(opened, rules))
        return
    told = ordering.in_force(opened).settings.values()
    made = settings.overlay(rules, told)
    click.echo(f"# policy {made.id}")
    for one in told:
        click.echo(f"# set by order {one.order} of {one.ordered_by} at {one.ordered_at:%F %T} UTC: {one}")
    click.echo(f"\n{policies.render(made)}", nl=False)


@command(name="set")
@click.argument("key")
@click.argument("value")
@click.option("--host", help="Set a key of this host's section: delay_s, urls and so on.")
@policy_file
def set_key(lake: str, key: str, value: str, host: str | None, policy_path: Path | None) -> None:
    """Order a key of the policy, such as politeness.delay_s, to be something else from the next round on."""
    opened, rules = Lake.open(lake), policy_of(lake, policy_path)
    made = ordering.set_key(opened, rules, key, value, host=host, now=datetime.now(UTC))
    out.print(f"ordered; running workers obey from their next round on, under policy {made.id}")


@command(name="unset")
@click.argument("key")
@click.option("--host", help="Take back a key of this host's section.")
def unset_key(lake: str, key: str, host: str | None) -> None:
    """Order that a key is again what the policy file says."""
    ordering.unset_key(Lake.open(lake), key, host=host, now=datetime.now(UTC))
    out.print("ordered; running workers obey from their next round on")
