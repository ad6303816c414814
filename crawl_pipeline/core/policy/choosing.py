"""Sections about choosing: what belongs to the crawl, what its rounds select, when a page is visited again."""

from typing import Literal

from crawl_pipeline.core.policy.keys import MOST, Count, Ending, Patterns, PositiveFloat, PositiveInt, Section, key


class Scope(Section):
    """Which URLs belong to the crawl."""

    follow: Literal["sites", "hosts", "everywhere"] = key(
        "sites", "links are followed within: sites (of seeds), hosts (of seeds), everywhere")  # fmt: skip
    include: Patterns = key(
        [], "URL patterns (* any text), as URLs are written in ASCII; if given, a URL must match one"
    )
    exclude: Patterns = key([], "URL patterns (* any text) that are never asked for")
    depth: Count = key(16, "links between a seed and the furthest page")
    hops: Count = key(5, "redirects in a row that are followed")
    nofollow: bool = key(True, "obey nofollow of links, pages and X-Robots-Tag")
    noindex: bool = key(True, "do not keep body and text of pages that say noindex")
    no_training: Literal["record", "no_body"] = key(
        "record", "what a page with the preference train-ai=n (Content-Usage) means to us: record, which it always is; "
        "no_body, do not keep its body and text either")  # fmt: skip
    sitemaps: bool = key(True, "read the sitemaps that robots.txt names")


class Budget(Section):
    """How much of one host or site is taken; what bounds every trap in the end."""

    urls_per_host: PositiveInt = key(100_000, "known URLs of one host")
    urls_per_site: PositiveInt = key(1_000_000, "known URLs of one site")
    fetches_per_host_day: PositiveInt = key(20_000, "pages asked of one host in a UTC day")
    fetches_per_day: Count = key(
        0, "pages asked for in a day by all workers together, evenly over the day; 0: as many as politeness allows"
    )
    fetches_per_site_day: PositiveInt = key(100_000, "pages asked of all hosts of one site in a UTC day")
    trust_first: PositiveInt = key(
        500, "URLs, and pages in a day, that a host or site which no seed names has at once; trust adds to them"
    )
    trust_first_share: float = key(0.001, "or this share of the whole, if that is more; 1: all of it", ge=0, le=1)
    trust_growth: float = key(
        10.0, "URLs, and pages in a day, that each different text adds: a host stalls if fewer than one in so many "
        "pages is new", ge=0, le=MOST)  # fmt: skip
    url_length: PositiveInt = key(2_000, "characters of a canonical URL")
    path_depth: PositiveInt = key(12, "non-empty path segments")
    query_parameters: Count = key(10, "parameters in the query")
    repeated_segment: PositiveInt = key(3, "times one path segment may stand in a URL")
    repeats_in_a_row: PositiveInt = key(
        2, "times in a row that a path segment may stand; several segments that make six or more in all, once less; "
        "numbers are free")  # fmt: skip
    skip_extensions: list[Ending] = key(
        ["7z", "avi", "bin", "bmp", "bz2", "css", "csv", "deb", "dmg", "doc", "docx", "eot", "exe", "flac", "gif",
         "gz", "ico", "iso", "jar", "jpeg", "jpg", "js", "json", "m4a", "m4v", "mov", "mp3", "mp4", "mpeg", "mpg",
         "msi", "ogg", "otf", "pdf", "png", "ppt", "pptx", "rar", "rpm", "svg", "swf", "tar", "tgz", "tif", "tiff",
         "ttf", "wav", "webm", "webp", "whl", "wmv", "woff", "woff2", "xls", "xlsx", "xz", "zip", "zst"],
        "file name endings that are not asked for, in lower case, without the dot",
    )  # fmt: skip


class Round(Section):
    """How long a round is and how much it may hold."""

    seconds: PositiveFloat = key(25.0, "s; longest time between two commits; a commit is the checkpoint")
    ahead_s: float = key(
        10.0, "s; a fetch list lasts so much longer than a round: hosts are asked on while it is written and the next "
        "one planned", ge=0, le=MOST)  # fmt: skip
    shortest_s: PositiveFloat = key(
        2.0, "s; a round may be cut after this when its hosts lose time because they have been asked all"
    )
    lease_s: PositiveFloat = key(120.0, "s; a bucket's lease, renewed by each round; outlasts a round and its commit")
    urls: PositiveInt = key(20_000, "URLs on one fetch list at most: bounds memory")
    body_mb: PositiveFloat = key(256.0, "MB of decoded bodies a round may hold before it is cut: bounds memory")
    hosts: PositiveInt = key(1_000, "hosts asked at the same time")
    floor: float = key(
        0.1, "share of a list, and of each host's part, that new URLs have for sure, and visits to known pages too; "
        "the rest goes to what is worth most", gt=0, le=0.5)  # fmt: skip


class Bands(Section):
    """Priority classes: the share of draws each band gets while all have URLs waiting."""

    weights: list[PositiveFloat] = key(
        [16.0, 8.0, 4.0, 2.0, 1.0], "weight of band 1, 2, ...: low bands are served in proportion, never starved",
        min_length=1, max_length=100)  # fmt: skip
    depth_share: float = key(0.7, "share of the score kept per link of distance from a seed", gt=0, le=1)


class Rank(Section):
    """How important a page is by the links that lead to it: what `crawl rank` makes of them."""

    same_host: float = key(0.3, "what a link within a host counts; one from another host counts 1", ge=0, le=1)
    full_at: PositiveFloat = key(
        16.0, "rank from which a page has full importance (score 1); 1 is a page that nothing links to"
    )


class Seen(Section):
    """How it is found out which linked URLs are known."""

    filter_from: Count = key(
        5_000_000, "known URLs of a bucket from which on a Bloom filter is asked first; 18 to 14 bits of memory per URL"
    )
    false_positives: float = key(
        0.001, "share of new URLs that a filter may think known: they are looked up in vain", gt=0, le=0.1
    )


class Recrawl(Section):
    """When a page that was fetched is visited again."""

    again: bool = key(True, "pages are visited again when they fall due; false: each page once")
    only: bool = key(False, "only what was asked for before is asked for; what is new waits")
    objective: Literal["binary", "harmonic"] = key(
        "binary", "what visits are to buy: binary, days in which copies equal their pages; harmonic, fewer changes "
        "missed, which never gives up on pages that change fast")  # fmt: skip
    first_s: PositiveFloat = key(604_800.0, "s; wait after the first fetch")
    shortest_s: PositiveFloat = key(3_600.0, "s; never sooner")
    longest_s: PositiveFloat = key(7_776_000.0, "s; never later")
    forget_s: PositiveFloat = key(
        15_552_000.0, "s; what visits have taught counts half after this: habits change (half a year costs nothing)"
    )
    lastmod: bool = key(
        True, "what sitemaps say of changes counts, of hosts whose dates have proved right: it brings visits forward, "
        "and pages of which nothing is said wait longer")  # fmt: skip
    gone_s: list[PositiveFloat] = key(
        [86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 31_536_000.0],
        "s; a page that is gone is looked at again after the first of these; found gone again and again after the "
        "next, and then after the last each time", min_length=1, max_length=20)  # fmt: skip
    never_s: PositiveFloat = key(
        2_592_000.0, "s; at least as long waits what never was a page here, or is refused rather than gone"
    )


class Sitemap(Section):
    """When sitemaps are read again, and how the URLs that they name take their turns."""

    first_s: PositiveFloat = key(86_400.0, "s; wait after the first reading")
    shortest_s: PositiveFloat = key(3_600.0, "s; never sooner")
    longest_s: PositiveFloat = key(604_800.0, "s; never later: news in a sitemap that seldom changes waits so long")
    body_mb: PositiveFloat = key(50.0, "MB of a sitemap, before and after content decoding (sitemaps.org: at most 50)")
    depth: Count = key(3, "indexes between a sitemap and the one that robots.txt names")
    share: float = key(
        0.5, "share of the requests a host can be asked for in a portion's time that go to URLs new from its sitemaps",
        gt=0, le=1)  # fmt: skip
    portion_s: PositiveFloat = key(
        600.0, "s; new URLs of sitemaps fall due in portions so far apart, the most recently modified first"
    )
