"""What all commands share: the group `crawl`, its common options, expected errors as one message, the policy's file.

A command opens the lake, calls one function and shows its result; this module never decides what is shown. Nothing here
imports Dagster, so that commands start at once.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from crawl_pipeline import __version__, corpus, moments, past, reports, server_log
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.orders import OrderError
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.demo import DemoError
from crawl_pipeline.lake import (
    LakeBusy,
    LakeExists,
    LakeMismatch,
    LakeMissing,
    LakeUnwritable,
    LeaseHeld,
    LeaseLost,
    Overtaken,
    RetentionTooShort,
)

OURS = (
    PolicyError, DemoError, OrderError, LakeBusy, LakeExists, LakeMissing, LakeMismatch, LakeUnwritable, LeaseHeld,
    LeaseLost, Overtaken,
    RetentionTooShort, corpus.QueryError, reports.ReportError, past.NotThen, moments.NoSuchMoment, server_log.LogError,
)  # fmt: skip

out = Console(highlight=False, soft_wrap=True)


def is_a_time(context: click.Context, option: click.Parameter, minutes: float) -> float:
    """Refuse a budget of minutes without sense."""
    if not 0 < minutes <= 100_000:
        raise click.BadParameter(f"expected minutes within 0 and 100000, found {minutes}")
    return minutes


def is_a_moment(context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """Read a time as a person types it; without an offset it is UTC."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment and moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # too large an offset at either end of time
        raise click.BadParameter(f"expected a time such as 2026-03-01T12:00, found {text!r}") from error


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON value for programs.")
policy_file = click.option(
    "--policy", "policy_path", type=click.Path(dir_okay=False, path_type=Path), envvar="CRAWL_POLICY",
    help="The policy (default: policy.toml in the lake's folder).",
)  # fmt: skip


def scopes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The URLs, hosts and sites that an order is about."""
    function = click.option("--site", "sites", multiple=True, help="All hosts of a site (registrable domain).")(
        function
    )
    function = click.option("--host", "hosts", multiple=True, help="All URLs of a host.")(function)
    return click.argument("urls", nargs=-1)(function)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crawl")
@click.option("--lake", default="lake", envvar="CRAWL_LAKE", show_default=True, show_envvar=True,
              help="Folder or s3:// address of the lake.")  # fmt: skip
@click.pass_context
def main(context: click.Context, lake: str) -> None:
    """Crawl politely in rounds, into a Delta lake.

    First time: `crawl init`, fill in the policy, `crawl seed URL`, `crawl run`.
    """
    context.obj = lake


def command(**settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """A subcommand whose expected errors are one message and exit code 1, never a traceback."""

    def wrap(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            try:
                return function(*arguments, **options)
            except OURS as error:
                raise click.ClickException(str(error)) from error

        return main.command(**settings)(click.pass_obj(run))

    return wrap


def policy_path_of(lake: str, given: Path | None) -> Path:
    """Where the policy of a lake is."""
    if given is not None:
        return given
    return Path("policy.toml") if "://" in lake else Path(lake) / "policy.toml"


def policy_of(lake: str, given: Path | None) -> Policy:
    """Read the policy of a lake."""
    path = policy_path_of(lake, given)
    if not path.exists():
        raise PolicyError(
            f"expected a policy at {path}, found none: make one with `crawl init`, or name it with --policy"
        )
    try:
        return policies.load(path.read_text(encoding="utf-8"))
    except (PolicyError, OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {error}") from error


def print_json(value: object) -> None:
    """Print one value for programs."""
    click.echo(json.dumps(value, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return list(value) if isinstance(value, (tuple, set)) else str(value)
