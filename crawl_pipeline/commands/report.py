"""The command `report`: the page that an operator mails."""

from pathlib import Path

import click

from crawl_pipeline.commands.common import command, out
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


@command()
@click.option("--out", "path", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"),
              show_default=True, help="Where to write the page.")  # fmt: skip
def report(lake: str, path: Path) -> None:
    """Write one HTML page with charts and tables, whole by itself: to be mailed, and read on a phone."""
    from crawl_pipeline import report_page

    if "://" not in lake and path.resolve().is_relative_to(Path(lake).resolve()):
        raise click.BadParameter(f"expected a file outside the lake, which an erasure searches, found {path}")
    try:
        with progress("reading the lake and drawing"):
            written = report_page.write(Lake.open(lake), path)
    except report_page.PageUnwritable as error:
        raise click.ClickException(str(error)) from error
    out.print(f"{written}: {written.stat().st_size / 1000:,.0f} kB", markup=False)
