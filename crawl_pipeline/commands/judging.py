"""The commands that judge the lake by its promises: reports and audit. They exit with 1 if one was broken."""

import sys
from pathlib import Path

import click

from crawl_pipeline import reports as sql
from crawl_pipeline import server_log
from crawl_pipeline.commands.common import as_json, command, out, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


@command()
@as_json
def reports(lake: str, *, as_json: bool) -> None:
    """Judge the lake by every SQL test; exit code 1 if a promise does not hold."""
    with progress("judging the lake by every SQL test", quiet=as_json):
        results = sql.run_tests(Lake.open(lake))
    if as_json:
        print_json([{"name": r.name, "sentence": r.sentence, "holds": r.holds, "offending": r.offending.to_dicts()}
                     for r in results])  # fmt: skip
    else:
        for result in results:
            mark = "[green]holds[/]" if result.holds else f"[red]{result.offending.height} offend[/]"
            out.print(f"{mark}  {result.sentence}")
        holding = sum(result.holds for result in results)
        out.print(f"{holding} of {len(results)} sentences hold" + ("" if holding == len(results) else ASK))
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
    with progress("judging every request", quiet=as_json) as step:
        if log is None:
            found = auditing.audit(opened)
        else:
            step(f"read {log}")
            seen = server_log.read(log, client)
            step("find what both logs know")
            both = server_log.known_to_both(opened, seen)
            step("judge")
            found = auditing.audit_server(server_log.as_lake(opened, seen), both, seen.height)
    if as_json:
        print_json(found.figures())
    else:
        display.audited(out, found)
        kept = sum(not finding.violations for finding in found.findings)
        out.print(f"{kept} of {len(found.findings)} promises were kept, in {found.requests:,} requests")
    sys.exit(0 if found.holds else 1)


ASK = "; the rows that offend: crawl reports --json"
