"""When a host may be asked again.

The promise: one request at a time, and after each a gap from its end to the next start of at least
    max(configured delay, factor x last download, Crawl-delay, Retry-After) + back-off.
The state is a value that travels with the host through rounds, workers and crashes; `after` is the only rule that
moves it. Nothing here sleeps, reads a clock or draws: times are seconds handed in.
"""

from dataclasses import dataclass, replace

from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.policy import Policy


@dataclass(frozen=True, slots=True)
class HostPace:
    """What must be remembered of a host to stay polite to it."""

    crawl_delay_s: float | None = None
    backoff_s: float = 0.0
    calm_count: int = 0
    failures: int = 0
    download_s: float = 0.0


def after(
    pace: HostPace, outcome: str, download_s: float, retry_after_s: float | None, policy: Policy, host: str
) -> tuple[HostPace, float]:
    """Give the host's new pace and the gap in seconds from the request's end to the next start."""
    pace = _moved(pace, outcome, policy)
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
    )
    return max(reasons) + pace.backoff_s


def _moved(pace: HostPace, outcome: str, policy: Policy) -> HostPace:
    """Double the back-off with trouble, halve it after enough calm answers."""
    rules = policy.politeness
    if OUTCOMES[outcome].host_trouble:
        doubled = min(max(rules.backoff_first_s, 2 * pace.backoff_s), rules.backoff_cap_s)
        return replace(pace, backoff_s=doubled, calm_count=0, failures=pace.failures + 1)
    calm = pace.calm_count + 1 if pace.backoff_s else 0
    if calm < rules.calm_answers:
        return replace(pace, calm_count=calm, failures=0)
    halved = pace.backoff_s / 2 if pace.backoff_s >= rules.backoff_first_s else 0.0
    return replace(pace, backoff_s=halved, calm_count=0, failures=0)
