"""Say what is known of one URL, and why it was or was not fetched.

Reads the lake and asks the same rules that admission and selection ask; writes nothing and decides nothing new.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline import dates, ordering, past, ranked, whatif
from crawl_pipeline.core import (
    admission,
    blocks,
    not_found,
    parameters,
    robots,
    second_reading,
    selection,
    settings,
    traps,
    trust,
    urls,
    validators,
)
from crawl_pipeline.core.orders import InForce
from crawl_pipeline.core.outcome import ORPHAN, OUTCOMES, PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import LINKS
from crawl_pipeline.lake import Lake
from crawl_pipeline.past import NotThen, Then
from crawl_pipeline.planning import Plan, dropping, marking

LATEST = 5
"""How many requests and sources are shown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Facts about a URL, and one sentence that says why."""

    url: str
    because: str
    facts: dict[str, Any] = field(default_factory=dict)


def explain(lake: Lake, policy: Policy, href: str, now: datetime) -> Explanation:
    """Explain a URL as a person typed it. `policy`: what the policy file says."""
    try:
        url = urls.canonical(href)
    except urls.NotCrawlable as refusal:
        return Explanation(href, f"it is not a URL that can be crawled: {refusal}")
    host = urls.host(url)
    bucket = urls.bucket(urls.site(host), lake.buckets)
    known = _rows(lake, "frontier", bucket, url)
    hosts = lake.scan("hosts", buckets=[bucket]).collect()
    facts: dict[str, Any] = {"canonical": url, "bucket": bucket, "host": _one(hosts.filter(pl.col("host") == host))}
    facts["found on"] = _sources(lake, url)
    facts["orders"], in_force = ordering.about(lake, url), ordering.in_force(lake)
    facts["set"] = [str(one) for one in in_force.settings.values() if one.host in (None, host)]
    policy = settings.overlay(policy, in_force.settings.values())
    unobeyed = _unobeyed(lake, bucket, facts["orders"])
    facts["robots.txt"] = _robots(lake, bucket, url, policy)
    if known.is_empty():
        unknown = _why_dropped(lake, bucket, url) or _why_unknown(lake, policy, url, hosts, in_force, facts)
        return Explanation(url, _until_then(unobeyed, unknown), facts)
    facts["frontier"] = _one(known)
    facts["importance"] = ranked.because(lake, known.row(0, named=True), in_force, policy)
    facts["requests"] = _requests(lake, url)
    facts["changes"] = _one(_rows(lake, "change_frequency", bucket, url))
    facts["pattern"] = _pattern(lake, bucket, url, policy)
    facts["not found"] = _not_found(lake, bucket, url)
    facts["duplicates"] = _duplicates(lake, url)
    facts["validators"] = _validators(facts["changes"], facts["host"], policy)
    facts["due because"] = dates.because(lake, known.row(0, named=True), facts["changes"], hosts, policy, now)
    barred = blocks.of_url(url, policy.block)
    why = _why_forgotten(facts) or (
        f"it is known, and {barred}: not asked for until the policy no longer says so" if barred is not None else None
    )
    why = why or _why_held(lake, known.row(0, named=True), policy, now)
    why = why or _why_known(known.row(0, named=True), hosts, policy, now)
    return Explanation(url, _until_then(unobeyed, why), facts)


def _pattern(lake: Lake, bucket: int, url: str, policy: Policy) -> str | None:
    """The URL's pattern, what its pages were worth, and what is done about it."""
    row = marking.pattern_of(lake, bucket, url)
    return None if row is None else traps.in_words(row, policy)


def _not_found(lake: Lake, bucket: int, url: str) -> list[str] | None:
    """What the host shows for URLs that do not exist, and whether the page is that; None if it was not asked."""
    probes = lake.scan("patterns", buckets=[bucket], where=pl.col("probed_url").is_not_null())
    asked = probes.filter(pl.col("host") == urls.host(url)).select("probed_url", "answer", "location").collect()
    if asked.is_empty():
        return None
    once = lake.once_in([bucket])
    pages = lake.scan("pages", buckets=once, url_hashes=_hashes(url)).sort("round").select("soft404").collect()
    is_soft = bool(len(pages)) and bool(pages["soft404"][-1])
    says = ["the page is like that"] if is_soft else []
    return [not_found.in_words(*row) for row in asked.iter_rows()] + says


def _why_dropped(lake: Lake, bucket: int, url: str) -> str | None:
    """As which URL a page is known, if this one differs from it in what does not matter."""
    host = urls.host(url)
    rest = parameters.bare(url, names := dropping.of_host(lake, bucket, host))
    if rest == url or lake.scan("frontier", buckets=[bucket], url_hashes=_hashes(rest)).collect().is_empty():
        return None
    mine = [f"{host}{parameters.MARK}{name}" for name in names if parameters.bare(url, [name]) != url]
    takes = ", ".join(f"`crawl release '{name}'`" for name in mine)
    return f"it {parameters.HELD}, and is known as {rest}; {takes} takes it back"


def _why_held(lake: Lake, row: dict[str, Any], policy: Policy, now: datetime) -> str | None:
    """Why a URL that waits is held for a trap, if it is."""
    if row["outcome"] is not None or row["due_at"] is None or row["due_at"] > now:
        return None
    if said := _why_dropped(lake, row["bucket"], row["url"]):
        return f"it is left out: {said}"
    found = marking.pattern_of(lake, row["bucket"], row["url"])
    if found is None or found["action"] != traps.BLOCKED:
        path = marking.held_path(lake, row["bucket"], row["url"], policy)
        return path and (
            f'it waits: {traps.HELD_PATH} ({path}, whatever its parameters; `crawl sql "select * from patterns"` has '
            f"the counts of each); `crawl release {row['host']}` takes it back"
        )
    return (
        f"it waits: {traps.HELD_BACK} since {found['acted_at']:%F %T} UTC ({traps.in_words(found, policy)}); another "
        f"share of the pattern is looked at from {found['probe_at']:%F %T} UTC on; `crawl release "
        f"'{found['host']}{found['pattern']}'` takes it back"
    )


def _unobeyed(lake: Lake, bucket: int, given: list[dict[str, Any]]) -> str | None:
    """What a person ordered of the URL since its bucket last looked."""
    seen = lake.scan("rounds", buckets=[bucket]).select(pl.col("orders_seen").max()).collect().item()
    new = [order for order in given if order["order"] > (-1 if seen is None else seen)]
    return f"the next round of bucket {bucket} obeys {ordering.in_words(new[-1])}" if new else None


def _until_then(unobeyed: str | None, why: str) -> str:
    return f"{unobeyed}; until then: {why}" if unobeyed else why


def _duplicates(lake: Lake, url: str) -> dict[str, Any] | None:
    """The cluster of a page, and what that means for it; None if no clustering has read it."""
    own = _one(lake.scan("clusters", url_hashes=_hashes(url)).collect())
    if own is None:
        return None
    count = pl.len().alias("pages")
    pages = lake.scan("clusters", where=pl.col("cluster_id") == own["cluster_id"]).select(count).collect().item()
    told = {
        name: own[name] for name in ("canonical", "reason", "similarity", "cluster_id", "since_at", "doubts", "misses")
    }
    return {"why": _why_clustered(own, pages), "pages": pages} | told


def _why_clustered(row: dict[str, Any], pages: int) -> str:
    if row["canonical"] is None:
        return "no other page is like it"
    if row["canonical"] == row["url"]:
        return f"it counts for {pages} pages that are nearly the same: {row['reason'].removeprefix('canonical: ')}"
    return f"it has the {row['reason']} as {row['canonical']}, so it is visited less often (duplicates.weight)"


def _why_forgotten(facts: dict[str, Any]) -> str | None:
    if facts["frontier"]["status"] != "forgotten":
        return None
    said = [ordering.in_words(order) for order in facts["orders"] if order["kind"] == "forget"]
    return f"it is forgotten, by {said[-1]}: neither asked for nor shown until a seed lifts that"


def then(lake: Lake, href: str, at: datetime | None, number: int | None, now: datetime) -> Then:
    """The round that a number names, or that was the one of the URL's bucket at a time."""
    if number is not None:
        return past.of_round(lake, number)
    try:
        bucket = urls.bucket(urls.site(urls.host(urls.canonical(href))), lake.buckets)
    except urls.NotCrawlable:
        bucket = 0
    return next(found for found in past.at_time(lake, at or now, now) if bucket in found.buckets)


def explain_past(lake: Lake, href: str, then: Then, against: Policy | None = None) -> Explanation:
    """Explain what a past round made of a URL; `against`: the policy of that time, if no snapshot of it was kept."""
    try:
        url = urls.canonical(href)
    except urls.NotCrawlable as refusal:
        return Explanation(href, f"it is not a URL that can be crawled: {refusal}")
    bucket, number = urls.bucket(urls.site(urls.host(url)), lake.buckets), urls.url_hash(url)
    if bucket not in then.buckets:
        raise NotThen(f"expected a round of bucket {bucket}, found one of {list(then.buckets)}: name a time instead")
    policy = against or past.policy_of(lake, then)
    made = past.plan(lake, then, policy)
    known = lake.scan("frontier", buckets=[bucket], url_hashes=_hashes(url), at=past.versions(lake, then))
    row = _one(pl.concat([made.changed, known.collect(), made.admitted]).filter(url_hash=number))
    draw = _draw(made, number, policy, then.seed)
    facts: dict[str, Any] = {
        "canonical": url, "bucket": bucket, "round": then.round or None, "planned": then.now, "policy": policy.id,
        "host": _one(made.hosts.filter(pl.col("host") == urls.host(url))), "frontier": row, "draw": draw,
        "requests": _requests(lake, url, then.round),
    }  # fmt: skip
    in_hand = number in past.in_hand(lake, then)
    because = "it was being asked or read already" if in_hand else _why_then(lake, made, row, number, policy)
    return Explanation(url, because, facts)


def _draw(made: Plan, number: int, policy: Policy, seed: int) -> dict[str, Any] | None:
    """How a due URL was drawn: the number made of its hash and the round's seed, over its band's weight."""
    row = _one(made.judged.filter(url_hash=number))
    if row is None:
        return None
    weights = policy.bands.weights
    uniform = selection.uniform(made.judged.filter(url_hash=number)["url_hash"].to_numpy(), seed)[0]
    return {"seed": seed, "uniform": float(uniform), "weight": weights[min(max(row["band"], 1), len(weights)) - 1],
            "draw": row["draw"], "discovery": row["discovery"], "worth": row["worth"],
            "rank at its host": row["rank"], "quota of its host": row["quota"]}  # fmt: skip


def _why_then(lake: Lake, made: Plan, row: dict[str, Any] | None, number: int, policy: Policy) -> str:
    listed = whatif.verdicts(made).filter(url_hash=number)
    if listed.height:
        return f"it was selected: {listed['why'][0]}"
    if row is not None and row["due_at"] is not None and row["due_at"] <= made.now:
        left_out = whatif.why_left_out(made).filter(url_hash=number)["why"]
        return f"it was {left_out[0] if len(left_out) else whatif.BEHIND}"
    if row is not None and row["status"] == PARKED:
        return f"it was known and parked: {_parked(row, made.hosts, policy)}"
    if row is not None:
        when = f"before {row['due_at']:%F %T} UTC" if row["due_at"] else "by itself"
        return f"it was known and not due {when} ({row['status']}, its last outcome was {row['outcome']})"
    seen = lake.scan("links", url_hashes=pl.Series([number])).filter(pl.col("round") < made.lease.round)
    if seen.select(pl.len()).collect().item() == 0:
        return "it was not known: no link to it had been written"
    refusal = whatif.refusals(lake, pl.Series([number]), made, policy, made.lease.buckets)[number]
    return f"it was not known: {refusal}"


def _why_known(row: dict[str, Any], hosts: pl.DataFrame, policy: Policy, now: datetime) -> str:
    if row["status"] == PARKED:
        return f"it is parked, until trust has grown: {_parked(row, hosts, policy)}"
    if row["outcome"] is not None and (row["due_at"] is None or row["due_at"] > now):
        again = f"; due again {row['due_at']:%F %T} UTC" if row["due_at"] else "; not due again by itself"
        said = f" ({row['reason']})" if row["reason"] else ""
        return (
            f"{_why_orphan(row)}its last fetch came to {row['outcome']}: {OUTCOMES[row['outcome']].says}{said}{again}"
        )
    if row["outcome"] is None and row["due_at"] is not None and row["due_at"] > now:
        return f"only a sitemap names it: it waits for its turn in the host's line, until {row['due_at']:%F %T} UTC"
    before = f" after {row['outcome']}" if row["outcome"] else ""
    host = hosts.filter(pl.col("host") == row["host"])
    if host["paused"].any():
        return f"it waits{before}: a person paused its host"
    left = selection.left_today(hosts, policy, now)
    _, quota, wait = selection.quota(host, left, policy, now).row(0)
    site_is_full = not left.sites[host["site"].item()]
    if quota == 0 or site_is_full:
        held = wait if quota == 0 else "site's day is full"
        until = selection.turns(host.select("host"), hosts, policy, now)[0]
        days = f" ({_stands(hosts, row['host'], policy, '_day')})" if held.endswith("day is full") else ""
        return f"it waits{before}: {held}{days}, until {until:%F %T} UTC"
    return f"it waits{before} in band {row['band']} for the next round of bucket {row['bucket']}"


def _validators(known: dict[str, Any] | None, host: dict[str, Any] | None, policy: Policy) -> str:
    """Whether the validators of a page are sent with its next visit, and if not why."""
    if known is None or (known["etag"] is None and known["last_modified"] is None):
        return "none known that could be sent"
    if not policy.fetch.conditional:
        return "not sent: fetch.conditional is off"
    checked, lied = ((host or {}).get(name) or 0 for name in ("validators_checked", "validators_lied"))
    if validators.is_caught(checked, lied):
        return f"not sent: of {checked} answers of the host that would have been a 304, {lied} had another text"
    return f"sent, but for {policy.fetch.unconditional:.0%} of visits, drawn by URL and round"


def _why_orphan(row: dict[str, Any]) -> str:
    if row["status"] != ORPHAN:
        return ""
    named = "neither robots.txt nor an index names it" if row["kind"] == "sitemap" else "no page links to it"
    return f"{named} any more; "


def _why_unknown(
    lake: Lake, policy: Policy, url: str, hosts: pl.DataFrame, in_force: InForce, facts: dict[str, Any]
) -> str:
    """Judge the links that led to the URL by the rules of admission; if there are none, a link that might."""
    site, bucket = pl.lit(urls.site(urls.host(url))).alias("site"), facts["bucket"]
    links = lake.scan("links", url_hashes=_hashes(url)).collect()
    refused = admission.judge(links.with_columns(site), hosts, policy, in_force)["refusal"].drop_nulls().unique().sort()
    if len(refused):
        return f"{links.height} links to it were refused: {', '.join(refused)}"
    unread = _unread(lake, bucket, links)
    if unread:
        return f"{unread} of {links.height} links to it wait to be admitted by the next round of bucket {bucket}"
    if links.height:
        return f"{links.height} links to it were refused: {_full(hosts, urls.host(url), policy)}"
    seeded = any(order["kind"] == "seed" for order in facts["orders"])
    kind, depth, named = ("seed", 0, "a seed names it") if seeded else ("link", 1, "no seed names it")
    made_up = {"url": url, "url_hash": urls.url_hash(url), "host": urls.host(url), "kind": kind, "depth": depth,
               "hops": 0, "nofollow": False}  # fmt: skip
    refusal = admission.judge(LINKS.frame([made_up]).with_columns(site), hosts, policy, in_force)["refusal"][0]
    would = f"; a {kind} to it would be refused: {refusal}" if refusal else ""
    return f"{named} and no page that was read links to it{would}"


def _parked(row: dict[str, Any], hosts: pl.DataFrame, policy: Policy) -> str:
    return f"{row['reason']} ({_stands(hosts, row['host'], policy)})"


def _stands(hosts: pl.DataFrame, host: str, policy: Policy, of: str = "") -> str:
    """Where a host and its site stand with their budgets of URLs or of a day."""
    return trust.in_words(trust.limits(hosts, policy).filter(host=host).row(0, named=True), of)


def _full(hosts: pl.DataFrame, host: str, policy: Policy) -> str:
    """Which budget a link met that no rule refuses."""
    row = trust.limits(hosts, policy).filter(host=host).row(0, named=True)
    full = [per for per in trust.PER if row[f"{per}_known"] >= row[f"{per}_full"]]
    met = f"over budget.urls_per_{full[0]}" if full else "a budget was full that has room now; a new link would do"
    return f"{met} ({trust.in_words(row)})"


def _unread(lake: Lake, bucket: int, links: pl.DataFrame) -> int:
    """How many of these links the bucket's last round has not read."""
    last = lake.scan("rounds", buckets=[bucket]).sort("round").select("links_seen").last().collect()["links_seen"]
    seen = dict(enumerate(last[0])) if len(last) else {}
    cursor = pl.col("source_bucket").replace_strict(seen, default=0, return_dtype=pl.Int64)
    return links.filter(pl.col("round") > cursor).height


def _sources(lake: Lake, url: str) -> list[dict[str, Any]]:
    links = lake.scan("links", url_hashes=_hashes(url)).sort("round").head(LATEST)
    return links.select("source_url", "kind", "depth", "nofollow", "tag").collect().to_dicts()


def _requests(lake: Lake, url: str, round_: int | None = None) -> list[dict[str, Any]]:
    """The latest requests, whatever bucket the host was in then."""
    buckets = lake.once_in([urls.bucket(urls.site(urls.host(url)), lake.buckets)])
    found = lake.scan("fetches", buckets=buckets, url_hashes=_hashes(url)).collect().sort("started_at")
    sent = (found if round_ is None else found.filter(pl.col("round") == round_)).tail(LATEST)
    return sent.select("started_at", "cause", "address", "http_status", "outcome", "reason", "robots_id").to_dicts()


def _robots(lake: Lake, bucket: int, url: str, policy: Policy) -> dict[str, Any] | None:
    """The newest robots.txt answer for the URL, the line that decides, and what the audit's own reader makes of it."""
    answers = lake.scan("robots", buckets=[bucket], where=pl.col("origin") == urls.origin(url)).collect()
    answers = answers.sort("fetched_at").tail(1)
    if answers.is_empty():
        return None
    answer = answers.row(0, named=True)
    said = {name: answer[name] for name in ("robots_id", "fetched_at", "http_status", "state")}
    if answer["state"] != "rules":
        return said
    verdict = robots.read(answer["body"] or b"", policy.agent.name).verdict(url)
    second = second_reading.reading(answer["body"] or b"", policy.agent.name).forbids(url)
    return said | {"allowed": verdict.allowed, "line": verdict.line, "second reader allows": second is None}


def _rows(lake: Lake, table: str, bucket: int, url: str) -> pl.DataFrame:
    return lake.scan(table, buckets=[bucket], url_hashes=_hashes(url)).collect()


def _hashes(url: str) -> pl.Series:
    return pl.Series([urls.url_hash(url)])


def _one(rows: pl.DataFrame) -> dict[str, Any] | None:
    return next(rows.drop("bucket", "layer", "layout", strict=False).iter_rows(named=True), None)
