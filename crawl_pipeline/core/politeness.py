"""When a host may be asked again.

The promise: one request at a time, and after each a gap from its end to the next start of at least
    max(configured delay, factor x last download, Crawl-delay, Retry-After, time put aside) + back-off.
The state is a value that travels with the host through rounds, workers and crashes; `after` is the only rule that
moves it. Nothing here sleeps, reads a clock or draws: times are seconds handed in, chance is a number handed in. Chance
only ever lengthens a wait.

A host that fails several times in a row, and for some time, is put aside, longer each time; until it answers, its
failures are its own and not those of the URLs it was asked for. One that has answered minutes ago is there: what fails
are its pages, and they must not hold up the others.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.policy import Policy, Politeness


@dataclass(frozen=True, slots=True)
class HostPace:
    """What must be remembered of a host to stay polite to it."""

    crawl_delay_s: float | None = None
    backoff_s: float = 0.0
    calm_count: int = 0
    failures: int = 0
    download_s: float = 0.0
    aside_s: float = 0.0
    troubled_at: datetime | None = None


def after(
    pace: HostPace, outcome: str, download_s: float, retry_after_s: float | None, policy: Policy, host: str,
    ended_at: datetime, chance: float = 0.0, *, began: bool = False,
) -> tuple[HostPace, float]:  # fmt: skip
    """Give the host's new pace and the gap in seconds from the request's end to the next start.

    `ended_at`: when the request ended; `chance`: a number drawn from [0, 1) for it; `began`: the answer had begun.
    """
    if outcome == "timeout" and began:
        outcome = "carried"  # a page without end tells nothing of the host, whose rest grows by the time it took
    pace = _moved(pace, outcome, policy, ended_at, chance)
    pace = replace(pace, download_s=download_s)
    return pace, gap_s(pace, retry_after_s, policy, host)


def gap_s(pace: HostPace, retry_after_s: float | None, policy: Policy, host: str) -> float:
    """The gap promised after a request: the longest of all reasons to wait, plus the back-off."""
    rules = policy.politeness
    reasons = (
        policy.delay_s(host),
        min(rules.download_factor * pace.download_s, rules.download_gap_cap_s),
        min(pace.crawl_delay_s or 0.0, rules.crawl_delay_cap_s),
        min(retry_after_s or 0.0, rules.retry_after_cap_s),
        pace.aside_s,
    )
    return max(reasons) + pace.backoff_s


def _moved(pace: HostPace, outcome: str, policy: Policy, ended_at: datetime, chance: float) -> HostPace:
    """Double the back-off with trouble, halve it after enough calm answers; a request cut off tells nothing."""
    rules = policy.politeness
    if outcome == "carried":
        return pace
    if OUTCOMES[outcome].host_trouble:
        return _troubled(pace, outcome, rules, ended_at, chance)
    pace = replace(pace, failures=0, aside_s=0.0, troubled_at=None)
    calm = pace.calm_count + 1 if pace.backoff_s else 0
    if calm < rules.calm_answers:
        return replace(pace, calm_count=calm)
    halved = pace.backoff_s / 2 if pace.backoff_s >= rules.backoff_first_s else 0.0
    return replace(pace, backoff_s=halved, calm_count=0)


def _troubled(pace: HostPace, outcome: str, rules: Politeness, ended_at: datetime, chance: float) -> HostPace:
    failures, since = pace.failures + 1, pace.troubled_at or ended_at
    for_long = (ended_at - since).total_seconds() >= rules.aside_first_s
    pace = replace(pace, calm_count=0, failures=failures, troubled_at=since)
    # A host that says 429 is there, and its word counts: it is slowed, not put aside.
    if OUTCOMES[outcome].again == "retry" and failures >= rules.aside_after and for_long:
        # This takes the place of more back-off: a host that is back after a day must not be asked once an hour then.
        aside_s = min(max(rules.aside_first_s, 2 * pace.aside_s), rules.aside_cap_s)
        return replace(pace, aside_s=aside_s)
    doubled = min(max(rules.backoff_first_s, 2 * pace.backoff_s), rules.backoff_cap_s)
    longer = max(pace.backoff_s, doubled * (1 + rules.backoff_jitter * chance))
    return replace(pace, backoff_s=longer, aside_s=0.0)
