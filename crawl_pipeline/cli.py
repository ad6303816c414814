"""The command `crawl`: a person's way in. Each command opens the lake, calls one function and shows its result.

Dagster is imported only by the commands that need it, so that all others start at once.
"""

import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from crawl_pipeline import __version__, corpus, ordering, past, server_log
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import settings
from crawl_pipeline.core.orders import OrderError, Tag
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.demo import DemoError
from crawl_pipeline.lake import (
    WEEK,
    Lake,
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
    RetentionTooShort, corpus.QueryError, corpus.ReportError, past.NotThen, server_log.LogError,
)  # fmt: skip

out = Console(highlight=False, soft_wrap=True)


def _is_a_time(context: click.Context, option: click.Parameter, minutes: float) -> float:
    if not 0 < minutes <= 100_000:
        raise click.BadParameter(f"expected minutes within 0 and 100000, found {minutes}")
    return minutes


def _is_a_moment(context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
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


@command()
@click.option(
    "--buckets", default=16, show_default=True, help="Host buckets; a power of two; `crawl rebucket` changes it."
)
@click.option("--agent", help="The crawler's name: letters, - and _.")
@click.option("--contact", help="URL or mailto: address where a site owner reaches you.")
@policy_file
def init(lake: str, buckets: int, agent: str | None, contact: str | None, policy_path: Path | None) -> None:
    """Make a lake, and a policy in which every default is explained."""
    path = _policy_path(lake, policy_path)
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
@click.argument("urls", nargs=-1)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.File(encoding="utf-8-sig"),
    help="File with a URL per line; - reads stdin.",
)
@click.option("--tag", help="Name of the seed list; inherited by all that is found from it.")
@click.option("--topic", help="What the list of this tag is about.")
@click.option("--region", help="Where the hosts of the list are, such as eu.")
@click.option("--band", type=int, help="Priority class at which its pages start; 1 is most urgent, and the default.")
def seed(
    lake: str, urls: tuple[str, ...], files: tuple[Any, ...], tag: str | None, topic: str | None, region: str | None,
    band: int | None,
) -> None:  # fmt: skip
    """Order URLs to be crawled; all of them or, if one is wrong, none. A tag keeps its topic, region and band."""
    try:
        lines = [line.strip() for file in files for line in file]
    except UnicodeDecodeError as error:
        raise click.ClickException(f"expected a file of URLs in UTF-8, found other bytes: {error}") from error
    hrefs = [*urls, *(line for line in lines if line and not line.startswith("#"))]
    if not hrefs:
        raise click.UsageError("name at least one URL, or a --file with URLs")
    facts = Tag(topic, region, band)
    count = ordering.seed(Lake.open(lake), hrefs, tag=tag, facts=facts, now=datetime.now(UTC))
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    out.print(escape(f"ordered {seeds}; the next round of their buckets takes them up: crawl --lake {lake} run"))


@command()
@click.option("--minutes", callback=_is_a_time, default=5.0, show_default=True,
              help="Time budget; ends sooner when nothing falls due.")  # fmt: skip
@click.option("--buckets", "chosen", help="Buckets to work on, such as 0-3,7 (default: all that are free).")
@policy_file
@as_json
def run(lake: str, minutes: float, chosen: str | None, policy_path: Path | None, *, as_json: bool) -> None:
    """Lease buckets and run crawl rounds. Ctrl-C ends in order: commits, and gives the lease back."""
    from crawl_pipeline import display, worker

    opened, policy = Lake.open(lake), _policy(lake, policy_path)
    buckets = _numbers(chosen, opened.buckets) if chosen else None
    tell = (lambda done: None) if as_json else display.RoundLines(out)
    worked = worker.run(opened, policy, buckets=buckets, seconds=minutes * 60, tell=tell)
    if as_json:
        _print_json({"worker": worked.worker, "buckets": worked.buckets, "rounds": len(worked.rounds),
                     "stopped": worked.stopped, "outcomes": display.tally(worked.rows, "outcomes"),
                     "refused": display.tally(worked.rows, "refused")})  # fmt: skip
    else:
        out.print(f"stopped: {worked.stopped}")


@command()
@as_json
def status(lake: str, *, as_json: bool) -> None:
    """Show how the crawl stands: pages, frontier, hosts, what is due, who works."""
    from crawl_pipeline import display, standing

    figures = standing.standing(Lake.open(lake))
    _print_json(figures) if as_json else display.standing(out, figures)


@command()
@as_json
def funnel(lake: str, *, as_json: bool) -> None:
    """Show what became of all URLs selected and links read, and how politeness was kept."""
    from crawl_pipeline import display, standing

    figures = standing.standing(Lake.open(lake))
    _print_json(figures) if as_json else display.funnel(out, figures)


@command()
@click.argument("url")
@click.option(
    "--at", callback=_is_a_moment, help="Explain the round of this time instead (UTC, if no offset is given)."
)
@click.option("--round", "number", type=int, help="Explain the round of this number instead.")
@policy_file
@as_json
def explain(
    lake: str, url: str, at: datetime | None, number: int | None, policy_path: Path | None, *, as_json: bool
) -> None:
    """Say what is known of a URL, and why it was or was not fetched; or what a past round made of it, and its draw."""
    from crawl_pipeline import display, explaining

    opened, now = Lake.open(lake), datetime.now(UTC)
    if at or number is not None:
        found = explaining.explain_past(opened, url, explaining.then(opened, url, at, number, now))
    else:
        found = explaining.explain(opened, _policy(lake, policy_path), url, now)
    if as_json:
        _print_json({"url": found.url, "because": found.because} | found.facts)
        return
    display.explained(out, found.url, found.because, found.facts)


@command()
@click.option("--at", callback=_is_a_moment, help="When (UTC, if no offset is given; default: now).")
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
    tried, other = _policy(lake, path), _policy(lake, against) if against else None
    found = trying.whatif(opened, tried, at or now, now, other)
    _print_json([compared.figures() for compared in found]) if as_json else display.compared(out, found)


@command()
@click.argument("query")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values, with a header.")
@as_json
def sql(lake: str, query: str, *, as_csv: bool, as_json: bool) -> None:
    """Run one SELECT over the lake's tables (DuckDB); `show tables` and `describe TABLE` list what is there."""
    from crawl_pipeline import display

    rows = corpus.query(Lake.open(lake), query)
    if as_json:
        _print_json(rows.to_dicts())
    elif as_csv:
        click.echo(display.flat(rows).write_csv(), nl=False)
    else:
        display.rows(out, rows)


@command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--where", default="true", help="A condition in SQL over `pages`, such as \"host = 'www.example.org'\".")
def extract(lake: str, folder: Path, where: str) -> None:
    """Write stored bodies into a folder, each content once, with a list of pages: of each page the newest version."""
    from crawl_pipeline import extracting

    pages, files = extracting.extract(Lake.open(lake), folder, where)
    click.echo(f"{pages:,} pages, {files:,} files: {folder / extracting.LIST}")


@command()
@as_json
def reports(lake: str, *, as_json: bool) -> None:
    """Judge the lake by every SQL test; exit code 1 if a promise does not hold."""
    results = corpus.run_tests(Lake.open(lake))
    if as_json:
        _print_json([{"name": r.name, "sentence": r.sentence, "holds": r.holds, "offending": r.offending.to_dicts()}
                     for r in results])  # fmt: skip
    else:
        for result in results:
            mark = "[green]holds[/]" if result.holds else f"[red]{result.offending.height} offend[/]"
            out.print(f"{mark}  {result.sentence}")
    sys.exit(0 if all(result.holds for result in results) else 1)


@command()
@click.option("--access-log", "log", type=click.Path(dir_okay=False, path_type=Path),
              help="Judge by this log of a server that was crawled: JSON lines, see docs/politeness.md.")  # fmt: skip
@click.option("--client", help="With --access-log: only lines of this client address, ours.")
@as_json
def audit(lake: str, log: Path | None, client: str | None, *, as_json: bool) -> None:
    """Judge every promise to hosts, by our own log or by a server's; exit code 1 if one was broken."""
    from crawl_pipeline import auditing, display

    opened = Lake.open(lake)
    if log is None:
        found = auditing.audit(opened)
    else:
        seen = server_log.read(log, client)
        both = server_log.known_to_both(opened, seen)
        found = auditing.audit_server(server_log.as_lake(opened, seen), both, seen.height)
    _print_json(found.figures()) if as_json else display.audited(out, found)
    sys.exit(0 if found.holds else 1)


@command()
@policy_file
@as_json
def duplicates(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Find pages that are nearly the same among those that are new, over all buckets; can be killed and repeated."""
    from crawl_pipeline import display
    from crawl_pipeline import duplicates as finding

    opened = Lake.open(lake)
    tell = (lambda found: None) if as_json else (lambda found: out.print(finding.line(found)))
    found = finding.find(opened, _policy(lake, policy_path), tell=tell)
    if as_json:
        _print_json(asdict(found) | finding.standing(opened))
        return
    display.duplicates(out, finding.standing(opened), finding.largest(opened))
    for texts, url in finding.crowds(opened, found).select("texts", "url").iter_rows():
        out.print(f"{texts:,} texts share a key with {escape(url or '?')}: a template, or an error page")


@command()
@policy_file
@as_json
def freshness(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Say how fresh pages are expected to be, how near that is to the best plan, and whether it is expected rightly."""
    from crawl_pipeline import display
    from crawl_pipeline import freshness as reckoning

    found = reckoning.reckon(Lake.open(lake), _policy(lake, policy_path), datetime.now(UTC))
    _print_json(found.figures()) if as_json else display.fresh(out, found)


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

    there = policy_path is not None or _policy_path(lake, None).exists()
    policy = _policy(lake, policy_path) if orphans and there else None
    done = maintenance.maintain(Lake.open(lake), policy, hours=vacuum_hours)
    _print_json(done.figures()) if as_json else display.maintained(out, done)


@command()
@click.argument("buckets", type=int)
@policy_file
@as_json
def rebucket(lake: str, buckets: int, policy_path: Path | None, *, as_json: bool) -> None:
    """Give the lake another number of BUCKETS, a power of two. Stop all workers first; can be killed and repeated."""
    from crawl_pipeline import rebucketing

    opened, policy = Lake.open(lake), _policy(lake, policy_path)
    tell = (lambda step: None) if as_json else (lambda step: out.print(escape(step)))
    try:
        done = rebucketing.rebucket(opened, policy, buckets, tell=tell)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        _print_json(asdict(done))
        return
    out.print(f"{done.before} → {done.after} buckets: {done.moved_hosts:,} of {done.hosts:,} hosts moved, with "
              f"{done.moved_urls:,} of {done.urls:,} URLs, in {done.seconds:.1f} s")  # fmt: skip
    out.print(f"for Dagster: set CRAWL_BUCKETS={done.after} and reload the definitions")


@command()
@click.argument("hosts", nargs=-1, required=True)
def pause(lake: str, hosts: tuple[str, ...]) -> None:
    """Order that hosts are not asked until they are resumed."""
    _ordered(ordering.pause(Lake.open(lake), hosts, paused=True, now=datetime.now(UTC)))


@command()
@click.argument("hosts", nargs=-1, required=True)
def resume(lake: str, hosts: tuple[str, ...]) -> None:
    """Order that paused hosts may be asked again."""
    _ordered(ordering.pause(Lake.open(lake), hosts, paused=False, now=datetime.now(UTC)))


@command()
@scopes
def recrawl(lake: str, urls: tuple[str, ...], hosts: tuple[str, ...], sites: tuple[str, ...]) -> None:
    """Order that known URLs are visited again now, whatever came of them before; politeness and quotas hold."""
    _expect_some(urls, hosts, sites)
    _ordered(ordering.recrawl(Lake.open(lake), hrefs=urls, hosts=hosts, sites=sites, now=datetime.now(UTC)))


@command()
@scopes
def forget(lake: str, urls: tuple[str, ...], hosts: tuple[str, ...], sites: tuple[str, ...]) -> None:
    """Order that URLs, known or not, are neither asked for nor shown until a seed lifts that. Deletes no bytes."""
    _expect_some(urls, hosts, sites)
    _ordered(ordering.forget(Lake.open(lake), hrefs=urls, hosts=hosts, sites=sites, now=datetime.now(UTC)))


@command(name="set")
@click.argument("key")
@click.argument("value")
@click.option("--host", help="Set a key of this host's section: delay_s, urls and so on.")
@policy_file
def set_key(lake: str, key: str, value: str, host: str | None, policy_path: Path | None) -> None:
    """Order a key of the policy, such as politeness.delay_s, to be something else from the next round on."""
    opened, rules = Lake.open(lake), _policy(lake, policy_path)
    made = ordering.set_key(opened, rules, key, value, host=host, now=datetime.now(UTC))
    out.print(f"ordered; running workers obey from their next round on, under policy {made.id}")


@command(name="unset")
@click.argument("key")
@click.option("--host", help="Take back a key of this host's section.")
def unset_key(lake: str, key: str, host: str | None) -> None:
    """Order that a key is again what the policy file says."""
    ordering.unset_key(Lake.open(lake), key, host=host, now=datetime.now(UTC))
    out.print("ordered; running workers obey from their next round on")


@command()
@policy_file
@as_json
def policy(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Show the policy in force, as TOML: what the file says, and what was set by whom."""
    told = ordering.in_force(Lake.open(lake)).settings.values()
    made = settings.overlay(_policy(lake, policy_path), told)
    if as_json:
        _print_json({"policy_id": made.id, "policy": made.model_dump(mode="json"), "set": [
            {"key": one.key, "host": one.host, "value": one.value, "order": one.order, "ordered_by": one.ordered_by,
             "ordered_at": one.ordered_at} for one in told]})  # fmt: skip
        return
    click.echo(f"# policy {made.id}")
    for one in told:
        click.echo(f"# set by order {one.order} of {one.ordered_by} at {one.ordered_at:%F %T} UTC: {one}")
    click.echo(f"\n{policies.render(made)}", nl=False)


@command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("demo-lake"),
              show_default=True, help="Where lake, policy and access log go; replaces an earlier demo.")  # fmt: skip
@click.option("--minutes", callback=_is_a_time, default=3.0, show_default=True, help="Time budget of the crawl.")
def demo(lake: str, folder: Path, minutes: float) -> None:
    """Crawl a web of real pages on loopback through Dagster, and report."""
    from crawl_pipeline import demo as demo_web

    demo_web.run(folder, minutes, out)


@command()
@click.option("--port", default=3000, show_default=True, help="Where Dagster's UI listens on this machine.")
def ui(lake: str, port: int) -> None:
    """Open Dagster's UI on the lake (for the demo's lake, with the demo's web beside it)."""
    from crawl_pipeline import demo as demo_web

    Lake.open(lake)
    _policy(lake, None)
    sys.exit(demo_web.open_ui(lake, port, out))


@command()
@policy_file
@as_json
def doctor(lake: str, policy_path: Path | None, *, as_json: bool) -> None:
    """Check what a crawl needs: Python, packages, the lake, its leases, the policy, name servers."""
    from crawl_pipeline import display, doctoring

    findings = doctoring.examine(lake, _policy_path(lake, policy_path), datetime.now(UTC))
    if as_json:
        _print_json([{"what": f.what, "well": f.well, "found": f.found} for f in findings])
    else:
        for finding in findings:
            mark = "[green]well[/]" if finding.well else "[red]ill [/]"
            out.print(f"{mark}  {finding.what}: {escape(display.printable(finding.found))}")
    sys.exit(0 if all(finding.well for finding in findings) else 1)


@command()
@click.argument("names", nargs=-1, required=True)
def release(lake: str, names: tuple[str, ...]) -> None:
    """Stop to hold URL patterns for traps: each HOST/PATTERN as `explain` and the view `traps` show it, or a HOST.

    The next round of the bucket obeys; a released pattern is not blocked again for traps.released_s.
    """
    _ordered(ordering.release(Lake.open(lake), names, now=datetime.now(UTC)))


def _expect_some(urls: tuple[str, ...], hosts: tuple[str, ...], sites: tuple[str, ...]) -> None:
    if not (urls or hosts or sites):
        raise click.UsageError("name at least one URL, --host or --site")


def _ordered(count: int) -> None:
    orders = "1 order; it holds from the next round of its bucket on"
    out.print(f"gave {orders if count == 1 else f'{count} orders; each holds from the next round of its bucket on'}")


def _policy_path(lake: str, given: Path | None) -> Path:
    if given is not None:
        return given
    return Path("policy.toml") if "://" in lake else Path(lake) / "policy.toml"


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there in full or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    begun.write_text(text, encoding="utf-8")
    begun.replace(path)


def _policy(lake: str, given: Path | None) -> Policy:
    path = _policy_path(lake, given)
    if not path.exists():
        raise PolicyError(
            f"expected a policy at {path}, found none: make one with `crawl init`, or name it with --policy"
        )
    try:
        return policies.load(path.read_text(encoding="utf-8"))
    except (PolicyError, OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {error}") from error


def _numbers(text: str, buckets: int) -> list[int]:
    """Read bucket numbers such as 0-3,7."""
    try:
        spans = [part.partition("-") for part in text.split(",")]
        chosen = {n for low, dash, high in spans for n in range(int(low), int(high if dash else low) + 1)}
    except ValueError:
        chosen = set()
    if not chosen or not chosen <= set(range(buckets)):
        raise click.BadParameter(f"expected buckets such as 0-3,7 within 0-{buckets - 1}, found {text!r}")
    return sorted(chosen)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return list(value) if isinstance(value, (tuple, set)) else str(value)
