"""How a crawl stands: the funnel of its rounds, its politeness, what waits, who works.

Counts and sums over the lake's views; a person, a program and the end of the demo read the same figures.
"""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import polars as pl

from crawl_pipeline import corpus, pulse
from crawl_pipeline.lake import Lake

FIGURES = {
    "rounds": """
        select count(distinct round) as rounds, min(started_at) as first_at, max(ended_at) as last_at,
               sum(selected_count)::bigint as selected, sum(request_count)::bigint as requests,
               sum(page_count)::bigint as pages, sum(wire_bytes)::bigint as wire_bytes,
               sum(links_read_count)::bigint as links_read, sum(admitted_count)::bigint as admitted
        from rounds""",
    "frontier": """
        select count(*) as known, count(*) filter (outcome is null) as never_asked,
               count(*) filter (due_at <= now()) as due_now,
               count(*) filter (due_at <= now() and (hosts.paused or hosts.next_allowed_at > now())) as due_not_yet,
               min(due_at) filter (due_at > now()) as next_due_at,
               coalesce(max(date_diff('second', due_at, now())) filter (due_at <= now()), 0) as longest_overdue_s
        from frontier left join hosts using (host)""",
    "hosts": """
        select count(*) as hosts, count(*) filter (fetched_count > 0) as asked, count(*) filter (paused) as paused,
               count(*) filter (backoff_s > 0) as backing_off
        from hosts""",
    "politeness": """
        with pairs as (
            select gap_s, epoch_us(lead(started_at) over lane - ended_at) / 1e6 as waited_s
            from fetches
            window lane as (partition by host order by started_at)
        )
        select count(*) as pairs, min(waited_s / gap_s) as least, median(waited_s / gap_s) as usual,
               count(*) filter (waited_s < gap_s - 0.001) as too_soon
        from pairs where waited_s is not null and gap_s > 0""",
}

TALLIES = {
    "outcomes": "select item.name, sum(item.count)::bigint as count from rounds, unnest(outcomes) as t(item)"
                " group by 1 order by 2 desc, 1",
    "refused": "select item.name, sum(item.count)::bigint as count from rounds, unnest(refused) as t(item)"
               " group by 1 order by 2 desc, 1",
    "statuses": "select status as name, count(*) as count from frontier group by 1 order by 2 desc, 1",
    "causes": "select cause as name, count(*) as count from fetches group by 1 order by 2 desc, 1",
}  # fmt: skip


def standing(lake: Lake) -> dict[str, Any]:
    """All figures and tallies, by name; times are UTC, sizes bytes, durations seconds."""
    connection = corpus.connect(lake)
    figures: dict[str, Any] = {name: corpus.read(connection, sql).row(0, named=True) for name, sql in FIGURES.items()}
    tallies = {name: dict(corpus.read(connection, sql).iter_rows()) for name, sql in TALLIES.items()}
    stalls = [asdict(stall) for stall in pulse.pulse(lake, datetime.now(UTC)).stalls]
    leases = lake.leases().filter(~pl.col("released"))
    held = leases.select("bucket", "worker", "deadline_at").to_dicts()
    return figures | tallies | {"stalls": stalls, "leases": held, "buckets": lake.buckets, "lake": lake.root}
