"""Ask for an origin's robots.txt, politely, and say what its answer forbids.

One request serves all who need it: the lane asks before its first page and keeps the answer until it expires. Redirects
are followed on the spot (RFC 9309 2.3.1.2), each hop in the turn of the host it leads to. If that host is not ours to
ask, since it is paused or another worker's, nobody knows what the file forbids: then everything is.
"""

from collections.abc import Callable
from datetime import timedelta

from crawl_pipeline.core import blocks, robots, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.exchange import Exchange
from crawl_pipeline.fetch.follow import Followed, follow
from crawl_pipeline.fetch.lane import HostLane
from crawl_pipeline.fetch.turns import NoTurn
from crawl_pipeline.fetch.visits import Request, RobotsAnswer
from crawl_pipeline.fetch.wire import Headers

NOT_REACHED = ("dns_error", "address_refused")
"""Failures before anything was sent: often a mistake at our end, looked at again as soon as any URL."""


def refusal(answer: RobotsAnswer, url: str) -> tuple[str, str] | None:
    """Outcome and reason if the answer forbids the URL, else None."""
    if answer.state == "disallow_all":
        return "robots_unreachable", answer.reason or f"robots.txt answered {answer.http_status or 'nothing'}"
    verdict = answer.rules.verdict(url)
    return None if verdict.allowed else ("disallowed", verdict.line or "robots.txt")


async def ask(
    origin: str, lane: HostLane, lane_of: Callable[[str], HostLane | str], policy: Policy
) -> tuple[RobotsAnswer | None, list[Request]]:
    """Get the robots.txt of an origin of the lane's host; the lane obeys the answer from then on.

    `lane_of` gives the lane of a host that a redirect leads to, or says why we may not ask it. No answer if the work
    ends before the turn of such a host.
    """
    requests: list[Request] = []

    def lane_at(host: str) -> HostLane | str:
        return lane if host == lane.host else lane_of(host)

    async def ask_hop(url: str) -> Exchange:
        asked = lane_at(urls.host(url))
        assert isinstance(asked, HostLane)  # else it was barred
        requests.append(await asked.ask(url, "robots", anything, {}))
        if not asked.running:
            await asked.close()
        return requests[-1].exchange

    def barred(url: str) -> str | None:
        if not urls.can_exist(urls.host(url)):
            return "no host name"
        if (blocked := blocks.of_url(url, policy.block)) is not None:
            return blocked
        led_to = lane_at(urls.host(url))
        return led_to if isinstance(led_to, str) else None

    try:
        followed = await follow(ask_hop, robots.robots_url(origin), policy.robots.hops, barred)
    except NoTurn:
        return None, requests
    answer = read_answer(origin, lane.host, lane.bucket, followed, lane.pace.failures, policy)
    lane.keep_robots(answer)
    return answer, requests


def read_answer(origin: str, host: str, bucket: int, followed: Followed, failures: int, policy: Policy) -> RobotsAnswer:
    """What a robots.txt answer means and until when (RFC 9309 2.3.1, 2.4); `failures` of the host in a row."""
    got = followed.last
    state = robots.answer(got.status, followed.failure)
    body = got.body[: robots.READ_BYTES] if state == "rules" else b""
    retry_s = policy.retry.first_s if followed.failure in NOT_REACHED else policy.robots.unreachable_s
    lives_s = robots.lives_s(state, policy.robots.ttl_s, retry_s, failures)
    return RobotsAnswer(
        bucket=bucket, host=host, origin=origin, state=state, http_status=got.status, reason=followed.reason,
        robots_id=urls.hash64(f"{origin} {got.ended_at.isoformat()}"), fetched_at=got.ended_at,
        expires_at=got.ended_at + timedelta(seconds=lives_s), body=body,
        rules=robots.read(body, policy.agent.name, url=robots.robots_url(origin)),
    )  # fmt: skip


def anything(status: int, headers: Headers) -> bool:
    """Want every body: robots.txt and sitemaps come under all media types."""
    return True
