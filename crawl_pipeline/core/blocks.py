"""What is never asked: the policy's [block] applied to hosts, URLs and columns of them.

Names and patterns in, a reason or null out; the networks of [block] are the transport's, which knows addresses.
Nothing is remembered: what a list no longer names is asked for again. A host's robots.txt is exempt from `block.urls`,
for it must be read before anything else of the host may be.
"""

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.core.patterns import matches_any
from crawl_pipeline.core.policy import Block

HOSTS, SITES, URLS = "blocked by block.hosts", "blocked by block.sites", "blocked by block.urls"


def rules(block: Block) -> list[tuple[str, pl.Expr]]:
    """Give the refusals of links, which have the columns host, site and url; sets, so that long lists cost nothing."""
    return [
        (HOSTS, pl.col("host").is_in(list(block.host_names))),
        (SITES, pl.col("site").is_in(list(block.site_names))),
        (URLS, matches_any(pl.col("url"), block.urls)),
    ]


def of_host(host: str, site: str, block: Block) -> str | None:
    """Why nothing of the host is asked for, if so."""
    if host in block.host_names:
        return HOSTS
    return SITES if site in block.site_names else None


def of_url(url: str, block: Block) -> str | None:
    """Why a URL is not asked for, if so; robots.txt files stand or fall with their host."""
    host = urls.host(url)
    return of_host(host, urls.site(host), block) or (URLS if of_pattern(url, block) else None)


def of_pattern(url: str, block: Block) -> bool:
    """Tell whether `block.urls` has a pattern for the URL."""
    return bool(pl.select(matches_any(pl.lit(url), block.urls)).item())
