"""Recrawl: what visits teach, what follows from an outcome, and what is due.

State and result of a case become rows; `core.recrawl.learn`, `core.frontier.advance` and `core.politeness.after` move
them as a round does.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from crawl_pipeline import planning
from crawl_pipeline.core import frontier, politeness, prior, recrawl, redirects, sitemap
from crawl_pipeline.core.admission import admit, band
from crawl_pipeline.core.outcome import OUTCOMES, of_status
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, LINKS, ROUNDS, TIME
from crawl_pipeline.core.urls import hash64, host, site, url_hash
from crawl_pipeline.lake import Lake
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input, moment

URL = "https://r.example/page"
NOW = datetime(2026, 7, 1, tzinfo=UTC)
VISIT: dict[str, pl.DataType | type[pl.DataType]] = recrawl.VISIT | {
    "reason": pl.String, "robots_until": TIME, "host_aside": pl.Boolean,
}  # fmt: skip
HOST = {"host": host(URL), "site": site(host(URL)), "bucket": 0, "seeded": True, "paused": False, "day_count": 0}
TOLD = ["url_hash", "outcome", "reason", "ended_at", "robots_until", "host_aside"]
ATTEMPTS = 10
"""Failures in a row after which the cases give a URL up."""
STATES = {"recrawl": "due", "retry": "retry", "next round": "retry", "robots": "retry", "gone": "gone", "never": "dead"}


def policy(schedule: Input, **sections: Json) -> Policy:
    """The schedule of a case as a policy."""
    names = {"min_s": "shortest_s", "max_s": "longest_s", "initial_s": "first_s"}
    times = {names[name]: float(value) for name, value in schedule.items() if name in names}
    agent = {"name": AGENT, "contact": "https://bot.example/"}
    return Policy.model_validate({"agent": agent, "recrawl": times, "retry": {"attempts": ATTEMPTS}} | sections)


def _visit(outcome: str, ended_at: datetime, **columns: Json) -> pl.DataFrame:
    row = {"bucket": 0, "round": 1, "url_hash": url_hash(URL), "host": host(URL), "outcome": outcome,
           "ended_at": ended_at, "robots_until": ended_at + timedelta(days=1), "host_aside": False}  # fmt: skip
    return pl.DataFrame([row | columns], schema=VISIT)


# Histories.


def _learnt(history: Input, rules: Policy) -> dict[str, Json]:
    """Give the row of `change_frequency` after a first fetch at 0 and the visits of the history."""
    version, known = 0, CHANGE_FREQUENCY.empty()
    for place, letter in enumerate("-" + history["pattern"] * history["repeat"]):
        version += letter == "C"
        at = NOW + timedelta(seconds=place * history["step_s"])
        told = {"text_hash": None} if letter == "N" else {"text_hash": version}
        known = recrawl.learn(known, _visit("not_modified" if letter == "N" else "fetched", at, **told), rules)
    return known.row(0, named=True)


def _compare(given: Input) -> dict[str, Json]:
    """The index of importance does not enter the interval: it enters the draw (core.selection)."""
    rules = policy(given["policy"])
    a, b = (float(_learnt(given[name]["history"], rules)["interval_s"]) for name in ("a", "b"))
    return {"order": f"a{_relation(a, b)}b"}


def _relation(new: float, old: float) -> str:
    if abs(new - old) <= 0.01 * max(new, old):
        return "=="
    return "<" if new < old else ">"


def _interval(given: Input) -> dict[str, Json]:
    return {"between_s": _learnt(given["history"], policy(given["policy"]))["interval_s"]}


def _change_rate(given: Input) -> dict[str, Json]:
    """Give the mean of the posterior, the changes spread evenly over the visits."""
    visits, changes = given["visits"], given["changes"]
    pattern = "".join("C" if (n + 1) * changes // visits > n * changes // visits else "U" for n in range(visits))
    row = _learnt({"pattern": pattern, "repeat": 1, "step_s": given["interval_s"]}, policy({}))
    return {"rate_per_s": row["rate"] / prior.DAY_S}


# One result.


@dataclass(frozen=True, slots=True)
class Page:
    """A page as the crawl knows it: its rows of `frontier` and `change_frequency`, and its host's pace."""

    frontier: pl.DataFrame
    known: pl.DataFrame
    pace: HostPace
    gap_s: float = 0.0


def _page(state: Input, rules: Policy) -> Page:
    """Give a state that would lead to the interval of the case: the evidence of its changes, at that mean rate."""
    shape = prior.SHAPE + state.get("changes", 0)
    interval_s = float(state.get("interval_s", rules.recrawl.first_s))
    prior_b = prior.SHAPE / prior.first(rules)
    known = CHANGE_FREQUENCY.frame([{
        "bucket": 0, "round": 1, "url_hash": url_hash(URL), "host": host(URL), "visit_count": state.get("visits", 0),
        "change_count": state.get("changes", 0), "evidence_a": shape - prior.SHAPE,
        "evidence_b": shape * interval_s / prior.DAY_S - prior_b,
        "fetched_at": NOW - timedelta(seconds=interval_s), "interval_s": interval_s, "etag": state.get("etag"),
        "text_hash": hash64(state["content_hash"]) if state.get("content_hash") else None,
        "last_modified": state.get("last_modified"),
    }])  # fmt: skip
    failures = state.get("failures", 0)
    row = {"bucket": 0, "round": 1, "url_hash": url_hash(URL), "url": URL, "host": host(URL), "kind": "link",
           "depth": 1, "hops": 0, "status": "waiting" if failures else "fetched", "attempts": failures,
           "due_at": NOW, "found_at": NOW}  # fmt: skip
    return Page(FRONTIER.frame([row]), known.head(bool(state.get("visits"))), HostPace(failures=failures))


def _outcome(result: Input) -> str:
    error = result.get("error")
    if error:
        robots = "disallowed" if str(error).startswith("robots") else error
        return next(name for name in (robots, f"{robots}_error", "connect_error") if name in OUTCOMES)
    if result.get("truncated"):
        return "truncated"
    return of_status(result["status"], has_retry_after=result.get("retry_after_s") is not None)


def _applied(page: Page, result: Input, ended_at: datetime, rules: Policy) -> Page:
    """Do what a round does with a visit: learn, advance, keep the pace."""
    outcome = _outcome(result)
    text = result.get("content_hash")
    visit = _visit(outcome, ended_at, etag=result.get("etag"), last_modified=result.get("last_modified"),
                   text_hash=hash64(text) if text and outcome == "fetched" else None)  # fmt: skip
    learnt = recrawl.learn(page.known, visit, rules)
    intervals = recrawl.intervals(page.known, learnt)
    pace, gap_s = politeness.after(page.pace, outcome, 0.0, result.get("retry_after_s"), rules, host(URL), ended_at)
    known = learnt if learnt.height else page.known
    return Page(frontier.advance(page.frontier, visit.select(TOLD), intervals, rules), known, pace, gap_s)


def _after(given: Input) -> dict[str, Json]:
    rules = policy(given["policy"])
    state, result = given["state"], given["result"]
    before = _page(state, rules)
    ended_at = NOW + timedelta(seconds=1)
    after = _applied(before, result, ended_at, rules)
    if result.get("same_result_applied_twice"):
        again = _applied(after, result, ended_at, rules)
        after = replace(again, pace=after.pace, gap_s=after.gap_s)  # a host's pace belongs to the request, sent once
    return _told(before, after, _outcome(result), ended_at) | {"schedule": _scheduled(result, rules)} | {
        "content_hash": _spelled(after.known, state, result)
    }  # fmt: skip


def _told(before: Page, after: Page, outcome: str, ended_at: datetime) -> dict[str, Json]:
    url = after.frontier.row(0, named=True)
    old, new = (page.known.row(0, named=True) if page.known.height else {} for page in (before, after))
    due = url["due_at"] and max(url["due_at"], ended_at + timedelta(seconds=after.gap_s))
    next_in_s = (due - ended_at).total_seconds() if due else float("inf")
    changes = new.get("change_count", 0) - old.get("change_count", 0)
    # Trouble leaves the interval as it was and has a wait of its own.
    interval_s = new.get("interval_s", 0.0) if OUTCOMES[outcome].again in ("retry", "next round") else next_in_s
    return {
        "changed": changes > 0, "visits": new.get("visit_count", 0), "changes": new.get("change_count", 0),
        # Of a page in trouble the URL counts, of a host that asks for patience the host.
        "failures": max(url["attempts"], after.pace.failures),
        "state": "dead" if url["status"] == "dead" else STATES[OUTCOMES[outcome].again],
        "interval": _relation(interval_s, old.get("interval_s", interval_s)), "interval_s": new.get("interval_s"),
        "next_in_s": next_in_s, "next": next_in_s, "etag": new.get("etag"), "last_modified": new.get("last_modified"),
    }  # fmt: skip


def _spelled(known: pl.DataFrame, *named: Input) -> str | None:
    """The name in the case of the text that is known now."""
    names = {hash64(each["content_hash"]): each["content_hash"] for each in named if each.get("content_hash")}
    return names.get(known["text_hash"].item()) if known.height else None


def _scheduled(result: Input, rules: Policy) -> list[str]:
    """The URLs that a redirect adds to the frontier."""
    if _outcome(result) != "redirected":
        return []
    target = redirects.target([result["location"]], URL).url
    if target is None:
        return []
    row = {"url": target, "url_hash": url_hash(target), "host": host(target), "kind": "redirect", "nofollow": False,
           "depth": 1, "hops": 1, "target_bucket": 0, "source_bucket": 0}  # fmt: skip
    link = LINKS.frame([row]).with_columns(site=pl.lit(site(host(target))))
    hosts = HOSTS.frame([HOST | {"known_count": 1}])
    return admit(link, pl.Series([url_hash(URL)]), hosts, rules, NOW).rows["url"].to_list()


# Dates.


def _due(given: Input) -> dict[str, Json]:
    """Plan a round over a lake of these pages; all stand on one host that may be asked for every one of them."""
    now, pages = NOW + timedelta(seconds=given["now"]), given["pages"]
    rules = policy({}, round={"urls": given.get("limit") or 20_000}, politeness={"delay_s": 0.001})
    names = {url_hash(f"https://r.example/{page['url']}"): page["url"] for page in pages}
    with tempfile.TemporaryDirectory() as root:
        lake = Lake.create(f"{root}/lake", 1)
        lease = lake.claim([0], "w", now, 600)
        lake.write(lease, "frontier", _frontier(pages, rules))
        lake.write(lease, "hosts", HOSTS.frame([HOST]).drop("round", "layer"))
        ledger = {"bucket": 0, "links_seen": [0], "orders_seen": -1, "known_count": len(pages)}
        lake.commit(lease, ROUNDS.frame([ledger]).drop("round"))
        lease = lake.renew(lease, now, 600)
        plan = planning.plan(lake, lease, planning.read_cursors(lake, lease), rules, now, [], {})
    due = [names[key] for key in plan.fetch_list["url_hash"]]
    return {"due": due, "due_set_size": len(due)}


def _frontier(pages: Sequence[Input], rules: Policy) -> pl.DataFrame:
    most = max((page.get("priority", 1) for page in pages), default=1)
    rows = [
        {"bucket": 0, "url": f"https://r.example/{page['url']}", "host": host(URL), "status": "fetched",
         "url_hash": url_hash(f"https://r.example/{page['url']}"), "attempts": 0, "band": 1,
         "score": page.get("priority", 1) / most,
         "due_at": None if page["next_due"] is None else NOW + timedelta(seconds=page["next_due"])}
        for page in pages
    ]  # fmt: skip
    return FRONTIER.frame(rows).with_columns(band=band(pl.col("score"), rules)).drop("round", "layer")


def _lastmod_hint(given: Input) -> dict[str, Json]:
    """Read the date from a sitemap of a host whose dates have proved right, and have it move the page's date or not."""
    rules, now = policy(given.get("policy", {})), moment(given["now"])
    body = f"<urlset><url><loc>{URL}</loc><lastmod>{given.get('lastmod') or ''}</lastmod></url></urlset>".encode()
    (entry,) = sitemap.read(body, "https://r.example/sitemap.xml").entries
    last = moment(given["last_fetch"])
    row = FRONTIER.frame([{"url": URL, "url_hash": url_hash(URL), "host": host(URL), "bucket": 0, "status": "fetched",
                           "due_at": moment(given["next_due"]), "visited_at": last}])  # fmt: skip
    said = LINKS.frame([{"url_hash": url_hash(URL), "lastmod_at": entry.lastmod}]).select("url_hash", "lastmod_at")
    hosts = HOSTS.frame([HOST | {"sitemap_dates": {"changed": 30, "told": 30, "moved": 30, "foretold": 3}}])
    moved = recrawl.hinted(row, said, hosts, {}, rules, now)
    return {"due": "earlier" if moved.height and moved["due_at"].item() < row["due_at"].item() else "same"}


def _next_due(given: Input) -> dict[str, Json]:
    last = pl.DataFrame({"at": [moment(given["now"]).astimezone(UTC)]}, schema={"at": TIME})
    due_at = last.select(recrawl.due_at(pl.col("at"), pl.lit(float(given["interval_s"])))).item()
    return {"next_due": due_at.strftime("%Y-%m-%dT%H:%M:%SZ")}


ADAPTERS: Adapters = {
    ("recrawl", "compare"): _compare,
    ("recrawl", "interval"): _interval,
    ("recrawl", "change_rate"): _change_rate,
    ("recrawl", "after"): _after,
    ("recrawl", "due"): _due,
    ("recrawl", "lastmod_hint"): _lastmod_hint,
    ("recrawl", "next_due"): _next_due,
}
