"""The commands that hand out what was fetched: sql and extract. They write nothing into the lake."""

import re
from datetime import datetime
from pathlib import Path

import click

from crawl_pipeline import corpus, moments, reports
from crawl_pipeline.commands.common import as_json, command, is_a_moment, out, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


@command()
@click.argument("query")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values, with a header.")
@click.option("--at", callback=is_a_moment, help="The lake as it was at this time (UTC, if no offset is given).")
@click.option("--round", "number", type=int, help="The lake as it was once this round was committed.")
@as_json
def sql(
    lake: str, query: str, at: datetime | None, number: int | None, *, as_csv: bool, as_json: bool
) -> None:  # fmt: skip
    """Run one SELECT over the lake's tables (DuckDB); `show tables` and `describe TABLE` say what is there."""
    from crawl_pipeline import display

    with (
        progress("reading the lake", quiet=as_json),
        reports.connect(moments.of(Lake.open(lake), at=at, round=number)) as connection,
    ):
        rows = corpus.read(connection, _with_meanings(query))
    if as_json:
        print_json(rows.to_dicts())
    elif as_csv:
        click.echo(display.flat(rows).write_csv(), nl=False)
    else:
        display.rows(out, rows)


LISTED = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
DESCRIBED = re.compile(r"\s*desc(?:ribe)?\s+(?:(\w+)\.)?(\w+)\s*;?\s*", re.IGNORECASE)


def _with_meanings(query: str) -> str:
    """Have tables and columns listed with what they mean, which DuckDB knows and leaves out."""
    if LISTED.fullmatch(query):
        return (
            "select view_name as name, comment as meaning from duckdb_views() "
            "where schema_name = 'main' and not internal order by name"
        )
    if not (asked := DESCRIBED.fullmatch(query)):
        return query
    schema, name = (asked[1] or "main").lower(), asked[2].lower()
    return (
        f"select column_name, column_type, comment as meaning from (describe {schema}.{name}) join duckdb_columns() "
        f"using (column_name) where schema_name = '{schema}' and table_name = '{name}' order by column_index"
    )


@command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--where", default="true", help="A condition in SQL over `pages`, such as \"host = 'www.example.org'\".")
def extract(lake: str, folder: Path, where: str) -> None:
    """Write stored bodies into a folder, each content once, with a list of pages: of each page the newest version."""
    from crawl_pipeline import extracting

    with progress(f"writing bodies into {folder}"):
        pages, files = extracting.extract(Lake.open(lake), folder, where)
    click.echo(f"{pages:,} pages, {files:,} files: {folder / extracting.LIST}")
