"""What a round leaves behind: rows for every table, made from a plan and a cut.

Pure: a plan and what came of the lanes in, frames out; the caller writes them and commits. Each frame has the columns
that core.tables declares.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from crawl_pipeline import describing, module_rows, storing, valuing
from crawl_pipeline.contents import Stored
from crawl_pipeline.core import frontier, importance, not_found, orders, recrawl, trust, urls, validators
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.retry_after import http_date
from crawl_pipeline.core.tables import (
    FETCHES,
    HOSTS,
    LINKS,
    ROBOTS,
    ROUNDS,
    TIME,
)  # fmt: skip
from crawl_pipeline.describing import Templates
from crawl_pipeline.fetch.bodies import FoundLinks
from crawl_pipeline.fetch.visits import Cut, HostState, Request, RobotsAnswer, Visit, first
from crawl_pipeline.modules.loading import NONE, Modules
from crawl_pipeline.planning import Asked, Plan, new_hosts

_VISIT: dict[str, pl.DataType | type[pl.DataType]] = {
    "bucket": pl.Int16, "round": pl.Int64, "url_hash": pl.Int64, "host": pl.String, "outcome": pl.String,
    "reason": pl.String, "ended_at": TIME, "robots_until": TIME, "text_hash": pl.Int64, "etag": pl.String,
    "last_modified": pl.String, "host_aside": pl.Boolean, "kind": pl.String, "held_back": pl.String,
    "modified_at": TIME, "named_hash": pl.Int64,
}  # fmt: skip
_TOLD = ["url_hash", "outcome", "reason", "ended_at", "robots_until", "host_aside"]


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a round's time went, in seconds, and when its fetching began and ended."""

    started_at: datetime
    ended_at: datetime
    plan_s: float
    fetch_s: float


def frames(
    plan: Plan, cut: Cut, before: pl.DataFrame, visited_before: pl.DataFrame, buckets: int, policy: Policy,
    stored: Stored, templates: Templates, modules: Modules = NONE,
) -> dict[str, pl.DataFrame]:  # fmt: skip
    """Rows of the logs and of the state, and of the tables of modules that told something.

    before: frontier rows of everything that could be visited; visited_before: their rows of change_frequency; stored:
    contents that need not be stored again; templates: of the hosts, which count the pages of this round.
    """
    # What a host shows for a URL that does not exist is no page, and leads nowhere.
    real = [visit for visit in cut.visits if visit.target.kind != not_found.KIND]
    described = describing.describe(templates, real, visited_before, policy)
    seen = (
        _visits(cut.visits, plan.lease.round)
        .join(described.versions, on="url_hash", how="left", maintain_order="left")
        .with_columns(main_hash=pl.coalesce("main_hash", "named_hash"))
    )
    visits = valuing.valued(seen, before, plan.hosts, plan.spending, policy, plan.now)
    learnt = recrawl.learn(visited_before, visits, policy)
    intervals = recrawl.intervals(visited_before, learnt)
    visited = frontier.advance(before, visits.select(_TOLD), intervals, policy)
    if visited.height != visits.height:
        raise ValueError(f"expected a frontier row for each of {visits.height} visits, found {visited.height}")
    fresh = pl.concat([plan.admitted, plan.changed, plan.brought_forward]).join(visited, on="url_hash", how="anti")
    # What was under way when it was ordered to be forgotten leaves its request behind, and nothing else.
    forgotten = set(before.filter(pl.col("status") == "forgotten")["url_hash"])
    kept = replace(cut, visits=[visit for visit in real if visit.target.url_hash not in forgotten])
    made = {
        "links": _with_cash(
            _remembered(_links(kept, buckets, dict(before.select("host", "tag").iter_rows()), policy), plan),
            plan,
            before,
            policy,
        ),
        "fetches": _fetches(cut.requests, plan),
        "pages": storing.pages(kept.visits, described.pages, stored, plan.lease.round, policy),
        "contents": storing.contents(kept.visits, stored, policy, modules.keepers),
        "robots": _robots(cut.robots),
        "frontier": pl.concat([visited, fresh]),
        "hosts": valuing.told(
            _hosts(plan, cut.hosts, kept.visits, validators.checks(visits, visited_before)),
            learnt,
            visited_before,
            recrawl.compared(visited_before, visits, policy),
        ),
        "change_frequency": learnt,
        "templates": described.templates,
        **module_rows.of_visits(kept.visits, modules, stored, plan.lease.round),
    }
    stamps = {"round": pl.lit(plan.lease.round, pl.Int64), "layer": pl.lit("tail")}
    return {
        name: frame.with_columns(value.alias(column) for column, value in stamps.items() if column in frame.columns)
        for name, frame in made.items()
    }


def _visits(visits: Sequence[Visit], round_: int) -> pl.DataFrame:
    rows = [
        (visit.bucket, round_, visit.target.url_hash, urls.host(visit.target.url), visit.outcome, visit.reason,
         visit.ended_at, visit.robots_until, visit.page.text_hash if visit.page else None, *_validators(visit.request),
         visit.request is not None and visit.request.host_aside, visit.target.kind,
         visit.target.held_back, _modified_at(visit.request), visit.page.named_hash if visit.page else None)
        for visit in visits
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=_VISIT, orient="row")


def _validators(request: Request | None) -> tuple[str | None, str | None]:
    if request is None:
        return None, None
    got = request.exchange
    return validators.sendable(first(got, "etag"), first(got, "last-modified"), got.ended_at)


def _modified_at(request: Request | None) -> datetime | None:
    """When the page was modified, if its answer says so and it is no time of the answer itself."""
    said = _validators(request)[1]
    return http_date(said, request.exchange.ended_at) if said and request else None


def _links(cut: Cut, buckets: int, tags: Mapping[str, str | None], policy: Policy) -> pl.DataFrame:
    """Links of pages and sitemaps, targets of redirects, and the sitemaps that robots.txt names.

    tags: per host the tag of a URL that was to be asked there, and so led to its robots.txt.
    """
    parts = [_page_links([visit for visit in cut.visits if visit.page])]
    rows = [_redirect(visit, buckets) for visit in cut.visits if visit.request and visit.request.location]
    if policy.scope.sitemaps:
        rows += [row for answer in cut.robots for row in _named_sitemaps(answer, buckets, tags.get(answer.host))]
    parts.append(LINKS.frame(rows))
    return pl.concat(parts)


def _remembered(links: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """The links but for those to what was ordered to be forgotten: its name would be in the lake again."""
    if not plan.in_force.forgets:
        return links
    sites = {host: urls.site(host) for host in links["host"].unique()} if plan.in_force.sites else {}
    site = pl.col("host").replace_strict(sites, default=None, return_dtype=pl.String)
    return links.with_columns(site=site).filter(~orders.is_forgotten(plan.in_force)).drop("site")


def _with_cash(links: pl.DataFrame, plan: Plan, before: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Links with what first visits hand on of their rank, once there is a ranking."""
    return links if plan.ranks_seen is None else importance.handed_on(links, before, policy)


def _page_links(visits: Sequence[Visit]) -> pl.DataFrame:
    """One row per link, columns at a time: a page has hundreds."""
    found: list[FoundLinks] = [visit.page.links for visit in visits if visit.page]
    if not any(links.urls for links in found):
        return LINKS.empty()
    sources = pl.DataFrame(
        [(visit.bucket, visit.target.url, visit.target.url_hash, visit.target.tag, visit.target.depth,
          visit.target.kind == "sitemap")
         for visit in visits],
        schema={"source_bucket": pl.Int16, "source_url": pl.String, "source_hash": pl.Int64, "tag": pl.String,
                "depth": pl.Int16, "_of_sitemap": pl.Boolean},
        orient="row",
    )  # fmt: skip
    each = sources[np.repeat(np.arange(len(found)), [len(links.urls) for links in found])]
    kind = pl.Series("kind", [kind for links in found for kind in links.kinds])
    return LINKS.frame(
        each.with_columns(
            pl.Series("url", [url for links in found for url in links.urls]),
            pl.Series("url_hash", [number for links in found for number in links.hashes]),
            pl.Series("host", [host for links in found for host in links.hosts]),
            pl.Series("target_bucket", [bucket for links in found for bucket in links.buckets]),
            pl.Series("nofollow", [nofollow for links in found for nofollow in links.nofollow]),
            pl.Series("lastmod_at", [at for links in found for at in links.lastmod_at], dtype=TIME),
            pl.Series("said_rate", [rate for links in found for rate in links.said_rate], dtype=pl.Float32),
            kind, hops=0,
            # A page's name for itself is no step away from the seed; a page that a sitemap names is one step away,
            # however many indexes lead there. The depth of a sitemap counts indexes.
            depth=pl.when(pl.col("_of_sitemap") & (kind != "sitemap")).then(1)
            .otherwise(pl.col("depth") + (kind != "canonical").cast(pl.Int16)),
        ).drop("_of_sitemap")
    )  # fmt: skip


def _redirect(visit: Visit, buckets: int) -> dict[str, object]:
    """Where a visit was sent on to; a sitemap that has moved is still a sitemap."""
    assert visit.request is not None
    kind = "sitemap" if visit.target.kind == "sitemap" else "redirect"
    return _link(visit.request.location or "", kind, visit.bucket, visit.target.url, buckets) | {
        "depth": visit.target.depth, "hops": visit.target.hops + 1, "tag": visit.target.tag,
    }  # fmt: skip


def _named_sitemaps(answer: RobotsAnswer, buckets: int, tag: str | None) -> list[dict[str, object]]:
    source = f"{answer.origin}/robots.txt"
    return [
        _link(url, "sitemap", answer.bucket, source, buckets) | {"depth": 0, "hops": 0, "tag": tag}
        for url in answer.rules.sitemaps
    ]


def _link(url: str, kind: str, source_bucket: int, source: str, buckets: int) -> dict[str, object]:
    host = urls.host(url)
    return {
        "url": url, "url_hash": urls.url_hash(url), "host": host, "kind": kind, "nofollow": False,
        "target_bucket": urls.bucket(urls.site(host), buckets), "source_bucket": source_bucket,
        "source_url": source, "source_hash": urls.url_hash(source),
    }  # fmt: skip


def _fetches(requests: Sequence[Request], plan: Plan) -> pl.DataFrame:
    worker = plan.lease.holder
    return FETCHES.frame([_fetch(request) | {"policy_id": request.policy_id, "worker": worker,
                          "bucket": request.bucket,
                          "request_id": urls.hash64(f"{worker} {request.exchange.started_at} {request.exchange.url}")}
                          for request in requests])  # fmt: skip


def _fetch(request: Request) -> dict[str, object]:
    got = request.exchange
    return {
        "host": urls.host(got.url), "origin": urls.origin(got.url), "url": got.url,
        "url_hash": urls.url_hash(got.url), "cause": got.cause, "started_at": got.started_at,
        "ended_at": got.ended_at, "first_byte_s": got.first_byte_s, "address": got.address,
        "http_status": got.status, "outcome": request.outcome, "reason": got.reason,
        "content_type": first(got, "content-type"), "wire_bytes": got.wire_bytes, "body_bytes": len(got.body),
        "etag": first(got, "etag"), "last_modified": first(got, "last-modified"),
        "retry_after_s": got.retry_after_s, "location": request.location, "gap_s": request.gap_s,
        "robots_id": request.robots_id, "user_agent": got.user_agent,
    }  # fmt: skip


def _robots(answers: Sequence[RobotsAnswer]) -> pl.DataFrame:
    names = [name for name in ROBOTS.schema if name != "round"]
    return ROBOTS.frame([{name: getattr(answer, name) for name in names} for answer in answers])


def _hosts(
    plan: Plan, states: Sequence[HostState], visits: Sequence[Visit], checks: Mapping[str, tuple[int, int]]
) -> pl.DataFrame:
    """Rows of the hosts that were asked or read, gained URLs, have changed while planning, or are new."""
    gained = dict(plan.admitted.group_by("host").len().iter_rows())
    parked = dict(plan.admitted.filter(status=PARKED).group_by("host").len().iter_rows())
    texts = _texts(plan.hosts, visits)
    by_host = {state.host: state for state in states}
    met = [{"host": state.host, "site": urls.site(state.host), "bucket": state.bucket} for state in states]
    known = pl.concat([plan.hosts, new_hosts(met, plan.hosts, plan.now, plan.lease.round)])
    changed = {*by_host, *checks, *gained, *plan.new_hosts["host"], *(host for host, _ in texts)}
    rows = [
        row | {"known_count": row["known_count"] + gained.get(row["host"], 0),
               "parked_count": (row["parked_count"] or 0) + parked.get(row["host"], 0)}
        | (_asked(row, by_host[row["host"]]) if row["host"] in by_host else {})
        | _checked(row, checks.get(row["host"], (0, 0)))
        for row in trust.told(known.filter(pl.col("host").is_in(list(changed))), texts).iter_rows(named=True)
    ]  # fmt: skip
    return HOSTS.frame(rows)


def _texts(hosts: pl.DataFrame, visits: Sequence[Visit]) -> list[tuple[str, int]]:
    """Host and text hash of the pages of a round; of sites that a seed names there is no need to know."""
    open_ = set(hosts.filter(~pl.col("seeded").any().over("site"))["host"])
    pages = [(urls.host(visit.target.url), visit.page.text_hash) for visit in visits if visit.page]
    return [(host, number) for host, number in pages if number is not None and host in open_]


def _checked(row: Mapping[str, Any], more: tuple[int, int]) -> dict[str, object]:
    counts = validators.counted(row["validators_checked"] or 0, row["validators_lied"] or 0, more)
    return dict(zip(("validators_checked", "validators_lied"), counts, strict=True))


def _asked(row: Mapping[str, Any], state: HostState) -> dict[str, object]:
    pace, day = state.pace, max([*state.asked, *([row["day"]] if row["day"] else [])], default=None)
    so_far = row["day_count"] if row["day"] == day else 0
    return {
        "next_allowed_at": state.next_allowed_at, "crawl_delay_s": pace.crawl_delay_s, "download_s": pace.download_s,
        "backoff_s": pace.backoff_s, "aside_s": pace.aside_s, "troubled_at": pace.troubled_at,
        "calm_count": pace.calm_count, "failures": pace.failures,
        "fetched_count": int(str(row["fetched_count"])) + state.asked_count, "day": day,
        "day_count": so_far + (state.asked.get(day, 0) if day else 0),
        "addresses": list(state.addresses) or row["addresses"],
        "robots": _answers(row["robots"] or [], state),
    }  # fmt: skip


def _answers(stored: Sequence[Mapping[str, Any]], state: HostState) -> list[dict[str, object]]:
    """The newest robots.txt answer of each origin; a lane that another host's robots.txt led to knows none of them."""
    kept = {answer["origin"]: dict(answer) for answer in stored}
    return list((kept | {
        answer.origin: {"origin": answer.origin, "robots_id": answer.robots_id, "state": answer.state,
                        "expires_at": answer.expires_at}
        for answer in state.robots
    }).values())  # fmt: skip


def ledger(
    plan: Plan, cut: Cut, selected: Mapping[int, int], made: Mapping[str, pl.DataFrame], timings: Timings,
    policy: Policy, buckets: int,
) -> pl.DataFrame:  # fmt: skip
    """Rows of `rounds`: one per leased bucket."""
    outcomes = _tally(
        [(visit.bucket, visit.outcome, 1) for visit in cut.visits]
        + [(bucket, "carried", count) for bucket, count in cut.carried.items()]
    )
    refused, left_out = _tally(plan.refused.iter_rows()), _tally(plan.left_out.iter_rows())
    due, next_due = _due_after(plan, made["frontier"], timings.ended_at)
    links_to = {
        bucket: np.bincount(links["target_bucket"].to_numpy(), minlength=buckets).tolist()
        for (bucket,), links in made["links"].group_by("source_bucket")
    }
    counts = {name: dict(made[table].group_by("bucket").len().iter_rows()) for name, table in
              (("request_count", "fetches"), ("page_count", "pages"), ("content_count", "contents"))}  # fmt: skip
    admitted = dict(plan.admitted.group_by("bucket").len().iter_rows())
    parked = _parked(plan)
    wire = dict(made["fetches"].group_by("bucket").agg(pl.col("wire_bytes").sum()).iter_rows())
    return ROUNDS.frame(
        [
            {
                "bucket": bucket, "round": plan.lease.round, "policy_id": policy.id, "seed": plan.lease.round,
                "started_at": timings.started_at, "ended_at": timings.ended_at,
                "selected_count": selected.get(bucket, 0),
                "outcomes": outcomes.get(bucket, []), "left_out": left_out.get(bucket, []),
                "links_read_count": plan.links_read.get(bucket, 0), "admitted_count": admitted.get(bucket, 0),
                "refused": refused.get(bucket, []), "wire_bytes": wire.get(bucket, 0),
                "links_to": links_to.get(bucket, [0] * buckets), "links_seen": plan.cursors.links_seen[bucket],
                "orders_seen": plan.cursors.orders_seen[bucket], "ranks_seen": plan.ranks_seen,
                "known_count": plan.cursors.known_count[bucket],
                "parked_count": parked.get(bucket, 0),
                "due_count": due.get(bucket, 0), "next_due_at": next_due.get(bucket),
                "plan_s": timings.plan_s, "fetch_s": timings.fetch_s, "note": _note(bucket, selected, left_out),
            } | _seen(plan, bucket) | valuing.spent(plan, bucket, cut.visits) | {
                name: by_bucket.get(bucket, 0) for name, by_bucket in counts.items()
            }
            for bucket in plan.lease.buckets
        ]
    )  # fmt: skip


def _parked(plan: Plan) -> dict[int, int]:
    stored = plan.hosts.select("bucket", count=pl.col("parked_count").fill_null(0))
    new = plan.admitted.filter(status=PARKED).select("bucket", count=pl.lit(1, pl.Int64))
    return dict(pl.concat([stored, new]).group_by("bucket").agg(pl.col("count").sum()).iter_rows())


def _seen(plan: Plan, bucket: int) -> dict[str, int]:
    of = plan.seen_asked.get(bucket, Asked(0, 0, 0))
    return {"seen_asked_count": of.asked, "seen_maybe_count": of.maybe, "seen_false_count": of.false}


def _tally(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[dict[str, object]]]:
    sums: dict[int, dict[str, int]] = {}
    for bucket, name, count in rows:
        of_bucket = sums.setdefault(bucket, {})
        of_bucket[name] = of_bucket.get(name, 0) + count
    return {
        bucket: [{"name": name, "count": count} for name, count in sorted(of_bucket.items())]
        for bucket, of_bucket in sums.items()
    }


def _due_after(plan: Plan, changed: pl.DataFrame, now: datetime) -> tuple[dict[int, int], dict[int, datetime]]:
    """How many URLs are due when the round ends, and when the next one falls due, per bucket."""
    left = plan.due.join(changed, on="url_hash", how="anti")
    dates = pl.concat([left.select("bucket", "due_at"), changed.select("bucket", "due_at")]).drop_nulls()
    due = dict(dates.filter(pl.col("due_at") <= now).group_by("bucket").len().iter_rows())
    soonest = dict(dates.group_by("bucket").agg(pl.col("due_at").min()).iter_rows())
    for bucket, count in plan.due_unread.items():
        due[bucket] = due.get(bucket, 0) + count
    for bucket, later in plan.next_due_at.items():
        soonest[bucket] = min(soonest.get(bucket, later), later)
    return due, soonest


def _note(bucket: int, selected: Mapping[int, int], left_out: Mapping[int, list[dict[str, object]]]) -> str | None:
    if selected.get(bucket, 0):
        return None
    waits = ", ".join(f"{part['count']} {part['name']}" for part in left_out.get(bucket, []))
    return f"nothing could be asked: {waits}" if waits else "nothing due"
