"""The commands that make a lake, check it and keep it: init, upgrade, doctor, maintain, rebucket, duplicates."""

import json
import secrets
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.markup import escape

from crawl_pipeline.commands.common import as_json, command, out, policy_file, policy_of, policy_path_of, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.printable import printable
from crawl_pipeline.lake import WEEK, Lake, LakeExists


@command()
@click.option(
    "--buckets", default=16, show_default=True, help="Host buckets; a power of two; `crawl rebucket` changes it."
)
@click.option("--agent", help="The crawler's name: letters, - and _.")
@click.option("--contact", help="URL or mailto: address where a site owner reaches you.")
@policy_file
def init(lake: str, buckets: int, agent: str | None, contact: str | None, policy_path: Path | None) -> None:
    """Make a lake, and a policy in which every default is explained."""
    path = policy_path_of(lake, policy_path)
    text = policies.render()
    for name, value in (("name", agent), ("contact", contact)):
        text = text.replace(f'{name} = ""  # fill in', f"{name} = {json.dumps(value)}") if value else text
    if agent and contact:
        policies.load(text)
    made = "made"
    try:
        opened = Lake.create(lake, buckets)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except LakeExists:
        if path.exists():
            policy_of(lake, policy_path)  # what is still to be filled in is told first
            raise
        made, opened = "kept", Lake.open(lake)  # an init that was killed before it made the policy, or a lost one
    if path.exists():
        out.print(f"kept the policy {escape(str(path))}")
    else:
        try:
            _write_whole(path, text)
        except OSError as error:
            raise click.ClickException(f"expected to write the policy to {path}, found: {error}") from error
        to_do = "" if agent and contact else ": fill in name and contact under \\[agent]"
        out.print(f"made the policy {escape(str(path))}{to_do}")
    if opened.buckets != buckets:
        out.print(f"it was begun with {opened.buckets} buckets before; to change that: crawl rebucket {buckets}")
    out.print(escape(f"{made} the lake {lake} with {opened.buckets} buckets; next: crawl --lake {lake} seed URL"))


@command()
def upgrade(lake: str) -> None:
    """Give a lake that an earlier version made the tables and columns of this one. Stop all workers first."""
    absent = Lake.upgrade(lake, datetime.now(UTC))
    for name in absent:
        out.print(escape(f"added {name}"))
    out.print(
        escape(f"{len(absent)} were absent; {lake} is ready for this version" if absent else "nothing was absent")
    )


@command()
@policy_file
@as_json
def doctor(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Check what a crawl needs: Python, packages, the lake, its store, leases and clock, the policy, name servers."""
    from crawl_pipeline import doctoring

    with progress("examining", quiet=as_json) as step:
        findings = doctoring.examine(lake, policy_path_of(lake, policy_path), datetime.now(UTC), tell=step)
    if as_json:
        print_json([{"what": f.what, "well": f.well, "found": f.found} for f in findings])
    else:
        for finding in findings:
            mark = "[green]well[/]" if finding.well else "[red]ill [/]"
            out.print(f"{mark}  {finding.what}: {escape(printable(finding.found))}")
        ill = [finding.what for finding in findings if not finding.well]
        out.print(f"{len(ill)} of {len(findings)} need you: {', '.join(ill)}" if ill else "all is well")
    sys.exit(0 if all(finding.well for finding in findings) else 1)


@command()
@click.option("--vacuum-hours", default=WEEK, show_default=True,
              help="Delete files that no version of so many hours uses; a week at least.")  # fmt: skip
@click.option("--orphans/--no-orphans", default=True, show_default=True,
              help="Find pages that no page links to any more, and those that one does again.")  # fmt: skip
@policy_file
@as_json
def maintain(lake: str, vacuum_hours: int, policy_path: Path | None, *, orphans: bool, as_json: bool) -> None:
    """Keep the lake small: fold, join small files, sweep, delete old files. Passes over buckets that are held."""
    from crawl_pipeline import display, maintenance

    there = policy_path is not None or policy_path_of(lake, None).exists()
    policy = policy_of(lake, policy_path) if there else None
    with progress("maintaining", quiet=as_json) as step:
        done = maintenance.maintain(Lake.open(lake), policy, hours=vacuum_hours, orphans=orphans, tell=step)
    if as_json:
        print_json(done.figures())
        return
    display.maintained(out, done)
    files = sum(kept.before.files - kept.after.files for kept in done.tables)
    deleted = sum(kept.deleted for kept in done.tables)
    out.print(f"maintained {len(done.buckets)} buckets: {files:,} live files fewer, {deleted:,} old files deleted")


@command()
@click.argument("buckets", type=int)
@policy_file
@as_json
def rebucket(lake: str, buckets: int, policy_path: Path | None, *, as_json: bool) -> None:
    """Give the lake another number of BUCKETS, a power of two. Stop all workers first; can be killed and repeated."""
    from crawl_pipeline import rebucketing

    opened, policy = Lake.open(lake), policy_of(lake, policy_path)
    try:
        with progress("rebucketing", quiet=as_json) as step:
            done = rebucketing.rebucket(opened, policy, buckets, tell=step)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(asdict(done))
        return
    out.print(f"{done.before} → {done.after} buckets: {done.moved_hosts:,} of {done.hosts:,} hosts moved, with "
              f"{done.moved_urls:,} of {done.urls:,} URLs, in {done.seconds:.1f} s")  # fmt: skip
    out.print(f"for Dagster: set CRAWL_BUCKETS={done.after} and reload the definitions")


@command()
@policy_file
@as_json
def duplicates(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Find pages that are nearly the same among those that are new, over all buckets; can be killed and repeated."""
    from crawl_pipeline import display
    from crawl_pipeline import duplicates as finding

    opened = Lake.open(lake)
    with progress("finding duplicates", quiet=as_json) as step:
        found = finding.find(opened, policy_of(lake, policy_path), tell=lambda one: step(finding.line(one)))
    if as_json:
        print_json(asdict(found) | finding.standing(opened))
        return
    display.duplicates(out, finding.standing(opened), finding.largest(opened))
    for texts, url in finding.crowds(opened, found).select("texts", "url").iter_rows():
        out.print(f"{texts:,} texts share a key with {escape(url or '?')}: a template, or an error page")


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there in full or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    begun.write_text(text, encoding="utf-8")
    begun.replace(path)
