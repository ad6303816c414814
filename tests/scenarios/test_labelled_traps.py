"""A small web with labels: every kind of trap ends early, every good page that looks like one is fetched."""

import polars as pl
from crawls import Crawl, policy

from crawl_pipeline.testing.trap_web import web
from tests.effort import long

STRANGERS = 10
SLOW = {"drip", "huge"}


@long
def test_traps_end_early_and_the_good_pages_beside_them_are_fetched(tmp_path):
    labelled = web(sites=12, pages=16)
    budget = {"trust_first": STRANGERS, "trust_first_share": 0.0, "trust_growth": 0.0}
    rules = policy(scope={"follow": "everywhere"}, budget=budget, politeness={"delay_s": 2.0}, fetch={"wire_mb": 0.3},
                   round={"seconds": 40.0, "lease_s": 120.0})  # fmt: skip
    crawl = Crawl(tmp_path, *labelled.hosts, rules=rules).seed(*labelled.seeds)

    crawl.work(seconds=480)

    asked = [f"http://{row.host}{row.path}" for row in crawl.web.log]
    counts = {trap.name: sum(map(trap.holds, asked)) for trap in labelled.traps}
    slow = tuple(f"http://www.good{n}.test/" for n, trap in enumerate(labelled.traps) if trap.name in SLOW)
    missing = labelled.good - set(asked)
    assert not [url for url in missing if not url.startswith(slow)]
    assert max(counts[trap.name] for trap in labelled.traps if trap.ends_by == "repeats") <= 50
    assert counts["maze"] <= 2 * STRANGERS
    held = crawl.rows("patterns").filter(action="blocked")
    traps = {f"http://{host}{pattern}" for host, pattern in held.select("host", "pattern").iter_rows()}
    named = pl.Series(sorted(traps)).str.extract(r"test/(\w+)/").drop_nulls()
    assert not set(named) - set(counts)
    crawl.check_accounts()
