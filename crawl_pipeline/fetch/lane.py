"""One host's turn: the only place that asks a host for anything.

`HostLane.ask` waits for the turn, sends one request, and moves the host's pace; whoever wants something of the host,
a page, its robots.txt, a redirect of another host's robots.txt, passes through it. What to ask is decided elsewhere.

Invariant: requests of one lane never overlap, none starts before `allowed_at`, and none at or after `stop_at()`; of all
hosts of a site no more are asked at once than there are places, and none out of the turn of its address.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime

import httpx
import trio

from crawl_pipeline.core import outcome, politeness, redirects, robots, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.exchange import Clock, Exchange, Limits, ListLog, Wanted, exchange
from crawl_pipeline.fetch.transport import BROKE_WHILE_KEPT
from crawl_pipeline.fetch.turns import NoTurn, Turn
from crawl_pipeline.fetch.visits import HostQueue, HostState, Request, RobotsAnswer, Target

VALIDATORS = ("If-None-Match", "If-Modified-Since")


class HostLane:
    """A host while it is being asked: its list, its pace, its robots.txt answers, its connection."""

    def __init__(
        self,
        queue: HostQueue,
        transport: httpx.AsyncBaseTransport,
        policy: Policy,
        clock: Clock,
        cut_off: Callable[[Request], None],
        stop_at: Callable[[], float],
        place: trio.CapacityLimiter,
        address_turn: Turn,
    ) -> None:
        self.host, self.bucket, self.pace = queue.host, queue.bucket, queue.pace
        self.robots = dict(queue.robots)
        self.targets: deque[Target] = deque()
        self.running = False
        self.allowed_at = trio.current_time() + _seconds_until(queue.next_allowed_at, clock.now())
        self._transport, self._policy, self._clock, self._cut_off = transport, policy, clock, cut_off
        self._stop_at, self._place, self._address_turn = stop_at, place, address_turn
        self._turn = trio.Lock()
        self._sleeps: set[trio.CancelScope] = set()
        self._addresses: dict[str, None] = {}
        self._asked = Counter[date]()
        self._touched = False
        self._last: Request | None = None

    def __repr__(self) -> str:
        wait_s = max(0.0, self.allowed_at - trio.current_time())
        return f"<HostLane {self.host}: {len(self.targets)} to ask, next in {wait_s:.1f} s>"

    async def ask(self, url: str, cause: str, wanted: Wanted, headers: dict[str, str]) -> Request:
        """Send one request when the host may be asked, and promise when the next one will be.

        Remote trouble is an outcome. Requests that tell nothing of the URL are handed to `cut_off`, with their promise:
        one cut off by cancellation; one on a kept connection that broke, after which the URL is asked for once more,
        when the host may be asked again. Raises NoTurn if the work ends first.
        """
        async with self._turn:
            request = await self._asked_in_turn(url, cause, wanted, headers)
            if request.exchange.reason == BROKE_WHILE_KEPT:
                self._cut_off(request)
                request = await self._asked_in_turn(url, cause, wanted, headers)
            return request

    async def _asked_in_turn(self, url: str, cause: str, wanted: Wanted, headers: dict[str, str]) -> Request:
        log = ListLog()
        if not await self.turn_comes():
            raise NoTurn
        async with self._place:
            if not await self.turn_comes():
                raise NoTurn
            try:
                await exchange(
                    self._transport, url, cause=cause, headers={"User-Agent": self._policy.agent.header} | headers,
                    limits=limits(self._policy, cause), clock=self._clock, wanted=wanted, log=log,
                    turn=self._address_turn,
                )  # fmt: skip
            except trio.Cancelled:
                if not log.rows:  # it still waited for its turn
                    raise
                self._cut_off(self._settled(log.rows[-1], "carried", cause))
                raise
        name = outcome_of(log.rows[-1], wanted)
        if name == "not_modified" and headers.keys().isdisjoint(VALIDATORS):
            name = "client_error"  # it was not asked whether it had changed
        return self._settled(log.rows[-1], name, cause)

    async def turn_comes(self, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Sleep until the host may be asked; False when the work ends first, or when woken and it is wanted no more.

        At once, if that is known already.
        """
        while wanted() and max(self.allowed_at, trio.current_time()) < self._stop_at():
            if self.allowed_at <= trio.current_time():
                return True
            with trio.CancelScope() as sleep:
                self._sleeps.add(sleep)
                if self.allowed_at - trio.current_time() > self._policy.fetch.keep_alive_s:
                    await self.close()
                await trio.sleep_until(self.allowed_at)
            self._sleeps.discard(sleep)
        return False

    def wake(self) -> None:
        """Have sleepers look again whether they may still ask."""
        for sleep in self._sleeps:
            sleep.cancel()

    def robots_in_force(self, origin: str) -> RobotsAnswer | None:
        """The origin's robots.txt answer, unless it is unknown or too old."""
        answer = self.robots.get(origin)
        return answer if answer is not None and answer.expires_at > self._clock.now() else None

    def learn(self, answers: Mapping[str, RobotsAnswer]) -> None:
        """Take over robots.txt answers of origins of which none is known here: a lane may have begun without any."""
        for origin, answer in answers.items():
            self.robots.setdefault(origin, answer)

    def keep_robots(self, answer: RobotsAnswer) -> None:
        """Obey a new robots.txt answer from now on: a Crawl-delay counts from the last request, whatever it was for."""
        self.robots[answer.origin] = answer
        delays = [kept.rules.crawl_delay_s for kept in self.robots.values() if kept.rules.crawl_delay_s is not None]
        self.pace = replace(self.pace, crawl_delay_s=max(delays, default=None))
        self._touched = True
        self._lengthen()

    def obey(self, policy: Policy) -> None:
        """Ask by this policy from the next request on: a longer gap counts from the last, a shorter from the next."""
        self._policy = policy
        if not self._turn.locked():  # else the request under way will promise its own
            self._lengthen()

    def _lengthen(self) -> None:
        """Wait longer after the last request, if what is known now asks for that; never less than was promised."""
        if (last := self._last) is not None:
            gap_s = politeness.gap_s(self.pace, last.exchange.retry_after_s, self._policy, self.host)
            if gap_s > last.gap_s:
                self.allowed_at += gap_s - last.gap_s
                last.gap_s, self._touched = gap_s, True

    @property
    def untold(self) -> bool:
        """Whether something has changed of which `take_state` has not told."""
        return self._touched

    @property
    def unreported(self) -> int:
        """Pages asked for, or being asked for, that `take_state` has not told of."""
        return self._asked.total() + self._turn.locked()

    def take_state(self) -> HostState | None:
        """The host as it stands, if it was asked since the last call."""
        if not self._touched:
            return None
        state = HostState(
            self.host, self.bucket, self.pace, self._clock.at(self.allowed_at), tuple(self.robots.values()),
            tuple(self._addresses), dict(self._asked),
        )  # fmt: skip
        self._touched, self._asked = False, Counter()
        return state

    async def close(self) -> None:
        """Close the host's connection; the next request opens a new one."""
        close_host = getattr(self._transport, "close_host", None)
        if close_host is not None:
            await close_host(self.host)

    def _settled(self, got: Exchange, name: str, cause: str) -> Request:
        download_s = (got.ended_at - got.started_at).total_seconds()
        # Chance that can be drawn again: the same host and end of request give the same number.
        chance = (urls.hash64(f"{self.host} {got.ended_at.isoformat()}") % 2**32) / 2**32
        self.pace, gap_s = politeness.after(
            self.pace, name, download_s, got.retry_after_s, self._policy, self.host, got.ended_at, chance,
            began=got.status is not None,
        )  # fmt: skip
        self.allowed_at = trio.current_time() + gap_s
        self._touched = True
        self._asked[got.started_at.date()] += cause != "robots"
        if got.address:
            self._addresses[got.address] = None
        location = redirects.target(got.values("location"), got.url).url if name == "redirected" else None
        aside = self.pace.aside_s > 0
        self._last = Request(
            self.bucket, self.host, got, name, gap_s, self._policy.id, location=location, host_aside=aside
        )
        return self._last


def limits(policy: Policy, cause: str) -> Limits:
    """The limits of one request; of robots.txt the first 500 KiB are read, however long it is (RFC 9309 2.5)."""
    fetch = policy.fetch
    wire_mb, body_mb = (policy.sitemap.body_mb,) * 2 if cause == "sitemap" else (fetch.wire_mb, fetch.body_mb)
    return Limits(
        total_s=fetch.total_s, connect_s=fetch.connect_s, read_s=fetch.read_s, header_bytes=fetch.header_kb * 1024,
        wire_bytes=robots.READ_BYTES if cause == "robots" else int(wire_mb * 1e6),
        body_bytes=int(body_mb * 1e6), cut=cause == "robots",
    )  # fmt: skip


def outcome_of(got: Exchange, wanted: Wanted) -> str:
    """Name the outcome of an exchange; a page that must still be read counts as fetched until then."""
    if got.failure is not None:
        return got.failure
    assert got.status is not None  # an exchange without a failure has an answer
    name = outcome.of_status(got.status, has_retry_after=got.retry_after_s is not None)
    if name == "fetched" and not wanted(got.status, got.headers):
        return "not_html"
    if name == "redirected" and redirects.target(got.values("location"), got.url).url is None:
        return "redirect_error"
    return name


def _seconds_until(moment: datetime | None, now: datetime) -> float:
    return max(0.0, (moment - now).total_seconds()) if moment is not None else 0.0
