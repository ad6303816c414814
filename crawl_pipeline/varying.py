"""Parameters of URLs that do not matter, learnt from the pages of a round: rows of `patterns` that begin with `?`.

The rule is core.parameters'. What pages of a host said is kept in memory while a worker has its bucket
(planning.earlier). Invariant: the rows are written with the round that saw the pairs, so that each pair counts once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline.core import parameters, traps, urls
from crawl_pipeline.core.parameters import DROPPED, MARK, Known, Pair
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.visits import Visit

_TRIED = 50
"""Pages that came before a parameter was suspicious and whose URL without it is asked for, at most."""
_REFUSALS = frozenset({"gone", "forbidden", "client_error", "redirect_error"})


@dataclass(frozen=True, slots=True)
class Varied:
    """Rows of `patterns`, and pairs of a page and its URL without parameters that do not matter."""

    rows: list[dict[str, Any]]
    named: list[tuple[str, str]]


def learn(
    judged: pl.DataFrame, visits: Sequence[Visit], kept: Mapping[str, Known], known: pl.DataFrame,
    released: pl.DataFrame, now: datetime, policy: Policy,
) -> Varied:  # fmt: skip
    """Judge pairs of pages.

    judged: first visits with their verdicts, in order; visits: all first visits; kept: what pages of each host said, to
    which these are added; known: rows of `patterns` of these hosts; released: patterns that people released.
    """
    before = {(row["host"], row["pattern"]): row for row in _of_parameters(known).iter_rows(named=True)}
    free = {key for key in released.iter_rows() if key in before}
    dropped: dict[str, list[str]] = {}
    for (host, pattern), row in before.items():
        if row["action"] == DROPPED and (host, pattern) not in free:
            dropped.setdefault(host, []).append(pattern.removeprefix(MARK))
    pairs = _telling(_pairs(judged, visits, kept, dropped), before)
    rows = {key: row | _released(now, policy) for key, row in before.items() if key in free}
    count = {host: sum(key[0] == host for key in before) for host in {key[0] for key in pairs}}
    for key, found in pairs.items():
        if key not in before and count[key[0]] >= policy.traps.parameters:
            continue
        count[key[0]] += key not in before
        rows[key] = _row(rows.get(key) or before.get(key), key, found, now, policy)
        if rows[key]["action"] == DROPPED and (key not in before or before[key]["action"] != DROPPED):
            kept[key[0]].drop([key[1].removeprefix(MARK)])
    named = _named(judged, before | rows, policy) + _tried(judged, before, rows, kept, policy)
    return Varied(list(rows.values()), named)


def _of_parameters(known: pl.DataFrame) -> pl.DataFrame:
    return known.filter(pl.col("pattern").str.starts_with(MARK)).drop("bucket", "layer", "layout", "round")


def _pairs(
    judged: pl.DataFrame, visits: Sequence[Visit], kept: Mapping[str, Known], dropped: Mapping[str, list[str]]
) -> dict[tuple[str, str], list[Pair]]:  # fmt: skip
    found: dict[tuple[str, str], list[Pair]] = {}

    def note(host: str, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            found.setdefault((host, f"{MARK}{pair.name}"), []).append(pair)

    evidence = judged.filter(~pl.col("verdict").is_in(["thin", "soft404", "failed"])).drop_nulls("main_hash")
    for host, url, *content_of in evidence.select("host", "url", "main_hash", "text_hash").iter_rows():
        content = parameters.content(content_of)
        names = dropped.get(host, [])
        note(host, kept[host].pairs(url, content, names))
        kept[host].add(url, content)
        kept[host].add(parameters.bare(url, names), content)
    for visit in visits:
        host = urls.host(visit.target.url)
        if host in kept and kept[host].variants:
            note(host, _refused(visit, kept[host]))
    return found


def _telling(
    pairs: Mapping[tuple[str, str], list[Pair]], before: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], list[Pair]]:  # fmt: skip
    """Pairs of one parameter, and of two together of which neither was ever seen to differ alone."""
    alone = {key for key in (*pairs, *before) if parameters.BOTH not in key[1]}
    return {
        (host, pattern): found
        for (host, pattern), found in pairs.items()
        if parameters.BOTH not in pattern
        or alone.isdisjoint((host, f"{MARK}{name}") for name in pattern.removeprefix(MARK).split(parameters.BOTH))
    }


def _refused(visit: Visit, known: Known) -> Iterable[Pair]:
    url = visit.target.url
    if visit.outcome in _REFUSALS:
        return known.refused(url)
    back = visit.request.location if visit.request and visit.outcome == "redirected" else None
    if back is None:
        return ()
    names = {name for name, rest in parameters.without_each(back) if rest == url}
    return [pair for pair in known.refused(url) if pair.name in names]


def _row(
    before: Mapping[str, Any] | None, key: tuple[str, str], pairs: Sequence[Pair], now: datetime, policy: Policy
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = dict(before) if before else dict.fromkeys(traps.COUNTS, 0) | {
        "host": key[0], "pattern": key[1], "shape": key[1], "bare_count": 0, "trap_score": 0.0, "action": traps.NONE,
        "acted_at": now, "listed": False, "released_at": None, "examples": [],
    }  # fmt: skip
    score = parameters.after(row["trap_score"], pairs, policy)
    same = sum(pair.same for pair in pairs)
    bare = (row["bare_count"] or 0) + sum(pair.same and pair.bare for pair in pairs)
    until = row["released_at"] and row["released_at"] + timedelta(seconds=policy.traps.released_s)
    done = parameters.action(score, bare, row["action"], policy, fresh=bool(until and until > now))
    said = [f"{'equal' if pair.same else 'other'}: {pair.url} like {pair.other}" for pair in pairs]
    return row | {
        "trial_count": row["trial_count"] + len(pairs), "exact_count": row["exact_count"] + same, "bare_count": bare,
        "trap_score": score, "action": done, "acted_at": row["acted_at"] if done == row["action"] else now,
        "examples": [*(row["examples"] or []), *said][-traps.EXAMPLES:],
    }  # fmt: skip


def _released(now: datetime, policy: Policy) -> dict[str, Any]:
    return {"trap_score": parameters.steps(policy).clear, "action": traps.CLEARED, "acted_at": now, "released_at": now}


def _named(
    judged: pl.DataFrame, rows: Mapping[tuple[str, str], Mapping[str, Any]], policy: Policy
) -> list[tuple[str, str]]:  # fmt: skip
    """Pages whose URL without what does not matter is to be asked for: once that is shown, and while it is tried."""
    names: dict[str, list[str]] = {}
    for (host, pattern), row in rows.items():
        tried = row["action"] != traps.CLEARED and row["trap_score"] >= parameters.suspicious(policy)
        if row["action"] == DROPPED or tried:
            names.setdefault(host, []).append(pattern.removeprefix(MARK))
    if not names:
        return []
    pages = judged.filter(pl.col("host").is_in(list(names)) & pl.col("url").str.contains("?", literal=True))
    bare = [(url, parameters.bare(url, names[host])) for host, url in pages.select("host", "url").iter_rows()]
    return [(url, rest) for url, rest in bare if url != rest]


def _tried(
    judged: pl.DataFrame, before: Mapping[tuple[str, str], Mapping[str, Any]],
    rows: Mapping[tuple[str, str], Mapping[str, Any]], kept: Mapping[str, Known], policy: Policy,
) -> list[tuple[str, str]]:  # fmt: skip
    """The same of pages that came before, once their parameter becomes suspicious: then none of their copies is asked
    for until that is answered. Named by a page of this round.
    """
    least = parameters.suspicious(policy)
    sources = dict(judged.select("host", "url").unique("host", keep="last").iter_rows())
    found = list[tuple[str, str]]()
    for (host, pattern), row in rows.items():
        was = before.get((host, pattern))
        begins = row["trap_score"] >= least > (was["trap_score"] if was else 0.0)
        if not begins or row["action"] == traps.CLEARED or host not in sources:
            continue
        contents, name = kept[host].contents, pattern.removeprefix(MARK)
        rests = dict.fromkeys(rest for url in contents if (rest := parameters.bare(url, [name])) != url)
        found += [(sources[host], rest) for rest in list(rests)[-_TRIED:] if rest not in contents]
    return found
