"""The command that hands out what was fetched as a web archive: warc."""

import re
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click
from rich.markup import escape

from crawl_pipeline.commands.common import as_json, command, is_a_moment, out, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


def _are_months(context: click.Context, option: click.Parameter, months: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is no month: it would export nothing, without a word."""
    for month in months:
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
            raise click.BadParameter(f"expected a month such as 2026-03, found {month!r}")
    return months


@command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--month", "months", multiple=True, metavar="YYYY-MM", callback=_are_months,
              help="Only pages of a month; can be repeated.")  # fmt: skip
@click.option("--bucket", "buckets", multiple=True, type=int, help="Only pages of a bucket; can be repeated.")
@click.option("--since", callback=is_a_moment, help="Only pages fetched since a time, such as 2026-03-01T12:00 (UTC).")
@click.option("--mb", default=1_000.0, show_default=True, help="MB after which a file is closed.",
              type=click.FloatRange(min=0, min_open=True))  # fmt: skip
@as_json
def warc(
    lake: str, folder: Path, months: tuple[str, ...], buckets: tuple[int, ...], since: datetime | None, mb: float, *,
    as_json: bool,
) -> None:  # fmt: skip
    """Write pages as WARC/1.1 into FOLDER, with CDXJ beside: what FOLDER lacks. Can be killed and repeated."""
    from crawl_pipeline import exporting

    opened = Lake.open(lake)
    if wrong := set(buckets) - set(range(opened.buckets)):
        raise click.BadParameter(f"expected buckets within 0-{opened.buckets - 1}, found {min(wrong)}")
    try:
        with progress("writing WARC files", quiet=as_json) as step:
            done = exporting.export(opened, folder, months=months, buckets=buckets, since=since,
                                    most=int(mb * 1e6), tell=step)  # fmt: skip
    except exporting.ExportError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(asdict(done))
        return
    out.print(escape(f"{folder}: {len(done.files):,} files, {done.bytes / 1e6:,.1f} MB: {done.responses:,} answers and "
                     f"{done.revisits:,} that repeat one; {done.there:,} were there before"))  # fmt: skip
