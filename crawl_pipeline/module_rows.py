"""What modules leave behind in a round: rows of their own tables, and of `module_failures` where there are none.

Pure: what they told in, frames out; the bodies that they keep are stored by `storing`. Invariant: every row names the
URL, bucket and round it belongs to, and every call that gave no rows has a row that says why.
"""

from collections.abc import Iterable, Sequence

import polars as pl

from crawl_pipeline import storing
from crawl_pipeline.contents import Stored
from crawl_pipeline.core import declared_tables, urls
from crawl_pipeline.core.tables import MODULE_FAILURES
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lease
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.modules.loading import Modules

_PLACE = tuple(name for name in declared_tables.PLACE if name != "round")


def of_visits(visits: Iterable[Visit], modules: Modules, stored: Stored, round_: int) -> dict[str, pl.DataFrame]:
    """Rows of what modules made of single answers, by table."""
    if not modules.ready:
        return {}
    rows: dict[str, list[pl.DataFrame]] = {}
    failures: list[dict[str, object]] = []
    for visit in visits:
        place, kept = _place(visit), _kept(visit, stored, round_)
        for told in visit.page.told if visit.page else ():
            table = modules.tables[told.module]
            if told.rows is None:
                failures.append(place | {"module": told.module, "phase": "read", "reason": told.failure})
            elif told.rows.height:
                values = place | (kept if told.module in modules.keepers else {})
                placed = told.rows.with_columns(pl.lit(value).alias(name) for name, value in values.items())
                rows.setdefault(table.name, []).append(table.frame(placed))
    return _made({name: pl.concat(frames) for name, frames in rows.items()}, failures)


def of_round(answers: Sequence[Told], pages: pl.DataFrame, modules: Modules, lease: Lease) -> dict[str, pl.DataFrame]:
    """Rows of what modules made of the round's rows; who told none is named in one of the round's buckets."""
    where = pages.select(_PLACE).unique("url_hash", keep="first", maintain_order=True)
    made, failures = dict[str, pl.DataFrame](), list[dict[str, object]]()
    for told in answers:
        table = modules.tables[told.module]
        if told.rows is None:
            failures.append(
                {"bucket": lease.buckets[0], "module": told.module, "phase": "round", "reason": told.failure}
            )
        elif told.rows.height:
            made[table.name] = table.frame(told.rows.join(where, on="url_hash", how="inner", maintain_order="left"))
    return _stamped(_made(made, failures), lease)


def of_absent(modules: Modules, lease: Lease) -> dict[str, pl.DataFrame]:
    """A row for each module that does not load here, in one of the round's buckets."""
    failures = [{"bucket": lease.buckets[0], "module": one.name, "phase": "load", "reason": one.reason}
                for one in modules.absent]  # fmt: skip
    return _stamped(_made({}, failures), lease)


def together(*parts: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """All rows by table."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pl.concat([part[name] for part in parts if name in part]) for name in names}


def _stamped(rows: dict[str, pl.DataFrame], lease: Lease) -> dict[str, pl.DataFrame]:
    return {name: frame.with_columns(round=pl.lit(lease.round, pl.Int64)) for name, frame in rows.items()}


def _made(rows: dict[str, pl.DataFrame], failures: Sequence[dict[str, object]]) -> dict[str, pl.DataFrame]:
    return rows | ({MODULE_FAILURES.name: MODULE_FAILURES.frame(failures)} if failures else {})


def _place(visit: Visit) -> dict[str, object]:
    target = visit.target
    values = (visit.bucket, target.url, target.url_hash, urls.host(target.url), visit.ended_at)
    return dict(zip(_PLACE, values, strict=True))


def _kept(visit: Visit, stored: Stored, round_: int) -> dict[str, object]:
    """Where the body of an answer is kept."""
    page, request = visit.page, visit.request
    if page is None or request is None:
        return {}
    values = (page.body_hash, len(request.exchange.body), stored.get(storing.key(page), round_))
    return dict(zip(declared_tables.KEPT, values, strict=True))
