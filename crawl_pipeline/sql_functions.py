"""Functions that SQL over the lake may call: what robots.txt forbids, what a policy promised a host.

The audit's own eyes: robots.txt is read by `core.second_reading`, which shares nothing with the reader that the crawl
decided by, and numbers come from the policy's text as it was kept with the orders, never from what the scheduler wrote
down. A policy that cannot be read promises nothing that could be judged (null), which whoever asks must count.
"""

from functools import lru_cache

import duckdb
from duckdb.func import FunctionNullHandling
from duckdb.sqltypes import BIGINT, BLOB, DOUBLE, VARCHAR

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.core.second_reading import reading

TERMS = {
    "agent": VARCHAR, "user_agent": VARCHAR, "delay_s": DOUBLE, "download_factor": DOUBLE,
    "download_gap_cap_s": DOUBLE, "crawl_delay_cap_s": DOUBLE, "retry_after_cap_s": DOUBLE,
    "backoff_first_s": DOUBLE, "backoff_cap_s": DOUBLE, "aside_after": BIGINT, "aside_first_s": DOUBLE,
    "aside_cap_s": DOUBLE, "address_gap_s": DOUBLE, "fetches_per_day": BIGINT, "fetches_per_site_day": BIGINT,
}  # fmt: skip
"""What a policy promises one host."""


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to a connection."""
    special = FunctionNullHandling.SPECIAL  # null goes in and may come out
    connection.create_function("robots_forbids", forbids, [BLOB, VARCHAR, VARCHAR], VARCHAR, null_handling=special)
    connection.create_function("robots_delay_s", delay_s, [BLOB, VARCHAR], DOUBLE, null_handling=special)
    connection.execute(
        "create or replace temp macro doubled(first, times, cap) as"
        " if(times > 0, least(first * pow(2, least(times, 60) - 1), cap), 0)"
    )
    connection.create_function(
        "promised", promised, [VARCHAR, VARCHAR], duckdb.struct_type(dict(TERMS)), null_handling=special
    )


def forbids(body: bytes | None, agent: str | None, url: str | None) -> str | None:
    """The line of a robots.txt that forbids a URL, or null."""
    return None if body is None or agent is None or url is None else reading(body, agent).forbids(url)


def delay_s(body: bytes | None, agent: str | None) -> float | None:
    """The Crawl-delay of a robots.txt for a crawler, or null."""
    return None if body is None or agent is None else reading(body, agent).delay_s


def promised(policy_toml: str | None, host: str | None) -> dict[str, object] | None:
    """What a policy promises a host, or null."""
    policy = _policy(policy_toml) if policy_toml is not None else None
    if policy is None or host is None:
        return None
    rules = policy.politeness
    return {
        "agent": policy.agent.name, "user_agent": policy.agent.header, "delay_s": policy.delay_s(host),
        "download_factor": rules.download_factor, "download_gap_cap_s": rules.download_gap_cap_s,
        "crawl_delay_cap_s": rules.crawl_delay_cap_s, "retry_after_cap_s": rules.retry_after_cap_s,
        "backoff_first_s": rules.backoff_first_s, "backoff_cap_s": rules.backoff_cap_s,
        "aside_after": rules.aside_after, "aside_first_s": rules.aside_first_s, "aside_cap_s": rules.aside_cap_s,
        "address_gap_s": policy.address_gap_s,
        "fetches_per_day": policy.fetches_per_day(host),
        "fetches_per_site_day": policy.budget.fetches_per_site_day,
    }  # fmt: skip


@lru_cache(maxsize=100)
def _policy(text: str) -> Policy | None:
    try:
        return policies.load(text)
    except PolicyError:  # of another version, with keys that are no more
        return None
