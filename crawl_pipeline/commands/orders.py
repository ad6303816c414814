"""The commands that append orders about URLs, hosts and sites: seed, pause, resume, recrawl, forget, release.

`orders` lists them. An order is obeyed by the next round of its bucket; no command here changes the frontier itself.
"""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from rich.markup import escape

from crawl_pipeline import order_log, ordering
from crawl_pipeline.commands.common import as_json, command, out, print_json, scopes
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.core import cdxj
from crawl_pipeline.core.orders import KINDS, Tag
from crawl_pipeline.lake import Lake


@command()
@click.argument("urls", nargs=-1)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.File(encoding="utf-8-sig"),
    help="File with a URL per line; - reads stdin.",
)
@click.option("--cdxj", "indexes", multiple=True, type=click.File(encoding="utf-8"),
              help="Index of a web archive in CDXJ: its web addresses, each once.")  # fmt: skip
@click.option("--tag", help="Name of the seed list; inherited by all that is found from it.")
@click.option("--topic", help="What the list of this tag is about.")
@click.option("--region", help="Where the hosts of the list are, such as eu.")
@click.option("--band", type=int, help="Priority class at which its pages start; 1 is most urgent, and the default.")
def seed(
    lake: str, urls: tuple[str, ...], files: tuple[Any, ...], indexes: tuple[Any, ...], tag: str | None,
    topic: str | None, region: str | None, band: int | None,
) -> None:  # fmt: skip
    """Order URLs to be crawled; all of them or, if one is wrong, none. A tag keeps its topic, region and band."""
    try:
        lines = [line.strip() for file in files for line in file]
        lines += [url for index in indexes for url in cdxj.urls_of(index)]
    except cdxj.NotCdxj as error:
        raise click.ClickException(f"{error}, so nothing was ordered") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"expected a file of URLs in UTF-8, found other bytes: {error}; of what is packed, pipe in the content "
            "(`zcat FILE | crawl seed --cdxj -`)"
        ) from error
    hrefs = [*urls, *(line for line in lines if line and not line.startswith("#"))]
    if not hrefs:
        raise click.UsageError("name at least one URL, a --file with URLs, or a --cdxj index")
    facts = Tag(topic, region, band)
    with progress(f"checking and giving {len(hrefs):,} seeds"):
        count = ordering.seed(Lake.open(lake), hrefs, tag=tag, facts=facts, now=datetime.now(UTC))
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    out.print(escape(f"ordered {seeds}; the next round of their buckets takes them up: crawl --lake {lake} run"))


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


@command()
@click.argument("names", nargs=-1, required=True)
def release(lake: str, names: tuple[str, ...]) -> None:
    """Stop to hold URL patterns for traps: each HOST/PATTERN as `explain` and the view `traps` show it, or a HOST.

    The next round of the bucket obeys; a released pattern is not blocked again for traps.released_s.
    """
    _ordered(ordering.release(Lake.open(lake), names, now=datetime.now(UTC)))


@command()
@click.option("--most", default=20, show_default=True, help="How many, the newest first.")
@click.option("--kind", type=click.Choice(KINDS), help="Only orders of this kind.")
@click.option("--by", help="Only orders of this giver.")
@click.option("--host", help="Only orders about this host or its site.")
@as_json
def orders(lake: str, most: int, kind: str | None, by: str | None, host: str | None, *, as_json: bool) -> None:
    """List what was ordered, by whom and when, and whether it is obeyed."""
    from crawl_pipeline import display

    found = order_log.listed(Lake.open(lake), order_log.Wanted(most, None, kind, by, host))
    if as_json:
        print_json([asdict(entry) for entry in found])
        return
    display.orders(out, found)


def _expect_some(urls: tuple[str, ...], hosts: tuple[str, ...], sites: tuple[str, ...]) -> None:
    if not (urls or hosts or sites):
        raise click.UsageError("name at least one URL, --host or --site")


def _ordered(count: int) -> None:
    orders = "1 order; it holds from the next round of its bucket on"
    out.print(f"gave {orders if count == 1 else f'{count} orders; each holds from the next round of its bucket on'}")
