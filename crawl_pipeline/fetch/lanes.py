"""One host, one task: ask each host for its URLs, one at a time, never sooner than promised.

A task drains one host's list and sleeps until the host may be asked again; nothing is shared between hosts, so nothing
can be forgotten. Lanes run on while rounds are cut from what they have done: `load` gives them a new fetch list, `cut`
takes what is finished. What to ask is decided elsewhere (core.selection), what a request does to a host's pace in
core.politeness, what an answer means in core.outcome.

Invariant: a loaded target leaves in exactly one cut as a visit, and is counted as carried in every cut before that;
a request leaves in exactly one cut.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from weakref import WeakValueDictionary

import httpx
import trio

from crawl_pipeline.core import urls, usage
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.slots import Slots
from crawl_pipeline.fetch import robots_desk
from crawl_pipeline.fetch.bodies import Body, Result, media_type
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lane import VALIDATORS, HostLane
from crawl_pipeline.fetch.reading import InlineReaders, Readers
from crawl_pipeline.fetch.turns import AddressTurns, NoTurn
from crawl_pipeline.fetch.visits import Cut, Elsewhere, HostQueue, Request, RobotsAnswer, Target, Visit, first
from crawl_pipeline.fetch.wire import Headers

LOOK_S = 0.05
"""How often the wait for a cut looks round, in seconds."""


def nowhere(host: str) -> str:
    """Let no robots.txt lead to another host."""
    return f"nothing is known of {host}"


class Lanes:
    """All lanes of a worker, and what they have done since the last cut."""

    def __init__(
        self,
        nursery: trio.Nursery,
        transport: httpx.AsyncBaseTransport,
        readers: Readers | InlineReaders,
        policy: Policy,
        clock: Clock,
        slots: Slots | None = None,
    ) -> None:
        self.stop_at = float("inf")
        """Trio time from which no request starts: the worker's end, or the lease's."""
        self._nursery, self._transport, self._readers = nursery, transport, readers
        self._policy, self._clock = policy, clock
        self._turns = AddressTurns(
            slots or Slots(policy.address_gap_s), lambda: clock.now().timestamp(), lambda: self.stop_at
        )
        self._places: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        self._lanes: dict[str, HostLane] = {}
        self._dropped: Counter[int] = Counter()
        self._elsewhere: Elsewhere = nowhere
        self._in_hand: dict[int, HostLane] = {}
        self._done: list[Visit] = []
        self._requests: list[Request] = []
        self._robots: list[RobotsAnswer] = []
        self._held_bytes = 0
        self._told_to_wait = False
        self._room = trio.Event()

    def __repr__(self) -> str:
        asking = sum(lane.running for lane in self._lanes.values())
        return f"<Lanes {asking} asking, {self.unasked} unasked, {len(self._in_hand)} in hand, {len(self._done)} done>"

    @property
    def unasked(self) -> int:
        """Targets on lists that have not been asked for."""
        return sum(len(lane.targets) for lane in self._lanes.values())

    @property
    def in_hand(self) -> list[int]:
        """URL hashes that are being asked, being read, or waiting for the next cut."""
        return list(self._in_hand)

    @property
    def idle(self) -> bool:
        """Nothing is being asked or read, and nothing will be."""
        return not any(lane.running for lane in self._lanes.values()) and len(self._in_hand) == len(self._done)

    @property
    def address_gap_s(self) -> float:
        """What is kept between two starts at an address now."""
        return self._policy.address_gap_s

    def obey(self, policy: Policy) -> None:
        """Ask by this policy from the next request of each host on."""
        self._policy = policy
        self._turns.obey(policy.address_gap_s)
        for lane in self._lanes.values():
            lane.obey(policy)

    def load(self, queues: Iterable[HostQueue], elsewhere: Elsewhere = nowhere) -> Counter[int]:
        """Replace every lane's list; count the targets that each bucket now has, those still in hand included.

        `elsewhere`: what the lists were made with of other hosts, should a robots.txt lead to them.
        """
        self._elsewhere = elsewhere
        self._forget_idle()
        for lane in self._lanes.values():
            lane.targets.clear()
        selected, started = self._in_hand_by_bucket(), list[HostLane]()
        asked = self._asked_of_sites()
        for queue in queues:
            lane, site = self._lane(queue), urls.site(queue.host)
            fresh = [target for target in queue.targets if target.url_hash not in self._in_hand]
            most = len(fresh) if queue.left_today is None else max(0, queue.left_today - lane.unreported)
            if queue.site_left_today is not None:
                most = min(most, max(0, queue.site_left_today - asked[site]))
            lane.targets.extend(fresh[:most])
            asked[site] += len(lane.targets)
            selected[queue.bucket] += len(lane.targets)
            if lane.targets and not lane.running:
                self._start(lane)
                started.append(lane)
        for lane in self._lanes.values():
            if not lane.targets:  # its host may wait for hours: nobody waits for it
                lane.wake()
        self._look_ahead(started)
        return selected

    def _in_hand_by_bucket(self) -> Counter[int]:
        return Counter(lane.bucket for lane in self._in_hand.values())

    def _asked_of_sites(self) -> Counter[str]:
        """Pages asked of each site that no cut has told of: while a list was made, the one before was asked on."""
        asked = Counter[str]()
        for host, lane in self._lanes.items():
            if lane.unreported:
                asked[urls.site(host)] += lane.unreported
        return asked

    def cut(self) -> Cut:
        """Take all that is finished, with the state of every host that was asked."""
        for visit in self._done:
            del self._in_hand[visit.target.url_hash]
        carried = self._in_hand_by_bucket() + self._dropped
        for lane in self._lanes.values():
            carried[lane.bucket] += len(lane.targets)
        states = [state for lane in self._lanes.values() if (state := lane.take_state()) is not None]
        cut = Cut(self._done, self._requests, self._robots, states, +carried)
        self._done, self._requests, self._robots, self._held_bytes = [], [], [], 0
        self._told_to_wait = False
        self._dropped.clear()
        self._turns.forget_old()
        self._room.set()
        self._room = trio.Event()
        return cut

    def _forget_idle(self) -> None:
        """Let go of lanes whose host may be asked, and of which all that is known has gone into what was loaded."""
        now, in_hand = trio.current_time(), {lane.host for lane in self._in_hand.values()}
        self._lanes = {
            host: lane for host, lane in self._lanes.items()
            if lane.running or lane.allowed_at > now or host in in_hand or lane.untold
        }  # fmt: skip

    async def worth_cutting(self, patience_s: float, costs_s: float = 0.0) -> None:
        """Wait until a round is worth its commit.

        That is when its time is over, its memory full, nothing left to do. Or, after `patience_s`, when something was
        learnt and half of the hosts have nothing on their lists, or a host has lost so as much time on average as a
        commit and a plan take
        (`costs_s`): who rents until the rent comes to the price pays at most twice what hindsight would have paid. Or
        soon, when a host asked for a longer wait than the lease: should this worker be killed, nothing but a commit
        would make the next one keep it.
        """
        started = looked = trio.current_time()
        lost_s, rules = 0.0, self._policy.round
        while (elapsed := (now := trio.current_time()) - started) < rules.seconds:
            dry = self._dry_hosts(now)
            lost_s, looked = lost_s + dry * (now - looked), now
            waiting = self._waiting_hosts()
            paid = dry >= waiting or lost_s >= costs_s * (dry + waiting)
            worth = dry and self._done and paid and elapsed >= patience_s
            soon = self._told_to_wait and elapsed >= rules.shortest_s
            if self._full or self.idle or worth or soon:
                return
            await trio.sleep(LOOK_S)

    async def finished(self) -> None:
        """Wait until the last request has ended and its body is read; lists are dropped first, sleepers woken."""
        for lane in self._lanes.values():
            self._dropped[lane.bucket] += len(lane.targets)
            lane.targets.clear()
            lane.wake()
        self._room.set()
        while not self.idle:
            await trio.sleep(LOOK_S)

    @property
    def _full(self) -> bool:
        return self._held_bytes >= self._policy.round.body_mb * 1e6

    def _look_ahead(self, started: list[HostLane]) -> None:
        """Have the names of lanes that begin looked up, who is asked first first: few at a time, none twice."""
        prefetch, at_once = getattr(self._transport, "prefetch", None), self._policy.resolver.prefetch
        if prefetch is not None and at_once and started:
            first_first = sorted(started, key=lambda lane: lane.allowed_at)
            self._nursery.start_soon(prefetch, [lane.host for lane in first_first], at_once)

    def _waiting_hosts(self) -> int:
        return sum(bool(lane.targets) for lane in self._lanes.values())

    def _dry_hosts(self, now: float) -> int:
        """Hosts that were asked, may be asked again, and have nothing on their lists."""
        return sum(not (lane.running or lane.targets) and lane.allowed_at <= now for lane in self._lanes.values())

    def _lane(self, queue: HostQueue) -> HostLane:
        lane = self._lanes.get(queue.host)
        if lane is None:
            place = self._places.setdefault(
                urls.site(queue.host), trio.CapacityLimiter(self._policy.politeness.site_requests)
            )
            lane = HostLane(
                queue, self._transport, self._policy, self._clock, self._keep, lambda: self.stop_at, place,
                self._turns.come,
            )  # fmt: skip
            self._lanes[queue.host] = lane
        lane.learn(queue.robots)
        return lane

    def _lane_of(self, host: str) -> HostLane | str:
        """The lane of a host that another host's robots.txt leads to, whether it has URLs to be asked for or not; or
        why there is none.

        Asked anew each time: a host that has a lane may have been paused since.
        """
        known = self._elsewhere(host)
        return known if isinstance(known, str) else self._lane(known)

    def _keep(self, request: Request) -> None:
        self._requests.append(request)
        self._told_to_wait |= (request.exchange.retry_after_s or 0.0) > self._policy.round.lease_s

    async def _drain(self, lane: HostLane) -> None:
        """Ask one host for its URLs until its list is empty or the time is over; then close its connection."""
        more = True
        try:
            while lane.targets and more:
                more = await self._step(lane, lane.targets[0])
        finally:
            with trio.CancelScope(shield=True):
                await lane.close()
            lane.running = False
        if lane.targets and more:  # a new list came while the connection was closed
            self._start(lane)

    def _start(self, lane: HostLane) -> None:
        lane.running = True
        self._nursery.start_soon(self._drain, lane)

    async def _step(self, lane: HostLane, target: Target) -> bool:
        """Bring the head of the list one step on: its refusal, its robots.txt, or its request; False at the end."""
        answer = lane.robots_in_force(urls.origin(target.url))
        if answer is not None and (refusal := robots_desk.refusal(answer, target.url)) is not None:
            self._finish(lane, self._take(lane), *refusal, robots_until=answer.expires_at)
            await trio.lowlevel.checkpoint()
            return True
        if not await self._may_ask(lane):
            return not lane.targets
        # While the lane slept its list may have been replaced: then the new head is looked at first.
        if not lane.targets or lane.targets[0] is not target:
            return True
        # And a robots.txt answer may have grown too old.
        if lane.robots_in_force(urls.origin(target.url)) is not answer or answer is None:
            return await self._ask_robots(lane, target)
        return await self._ask_page(lane, self._take(lane), answer)

    async def _may_ask(self, lane: HostLane) -> bool:
        """Sleep until there is room in memory and the host may be asked; False if the end comes first."""
        while self._full and lane.targets:
            await self._room.wait()
        return await lane.turn_comes(lambda: bool(lane.targets))

    def _take(self, lane: HostLane) -> Target:
        target = lane.targets.popleft()
        self._in_hand[target.url_hash] = lane
        return target

    async def _ask_robots(self, lane: HostLane, target: Target) -> bool:
        answer, requests = await robots_desk.ask(urls.origin(target.url), lane, self._lane_of, self._policy)
        for request in requests:
            self._keep(request)
        if answer is not None:
            self._robots.append(answer)
        return answer is not None

    async def _ask_page(self, lane: HostLane, target: Target, answer: RobotsAnswer) -> bool:
        wanted = robots_desk.anything if target.cause == "sitemap" else self._is_wanted
        try:
            request = await lane.ask(target.url, target.cause, wanted, self._validators(target))
        except NoTurn:
            del self._in_hand[target.url_hash]
            lane.targets.appendleft(target)
            return False
        except trio.Cancelled:
            self._finish(lane, target, "carried", "cut off by the end of the work")
            raise
        request.robots_id = answer.robots_id
        got = request.exchange
        preferred = usage.together(usage.in_header(got.values("content-usage")), answer.rules.preferences(target.url))
        request.usage = usage.written(preferred)
        if request.outcome != "fetched":
            self._finish(lane, target, request.outcome, got.reason, request=request)
            return True
        self._held_bytes += len(got.body)
        await self._readers.give(self._body(target, request), lambda result: self._read(lane, target, request, result))
        return True

    def _read(self, lane: HostLane, target: Target, request: Request, result: Result) -> None:
        if isinstance(result, str):
            request.outcome = "malformed"
            self._finish(lane, target, "malformed", result, request=request)
        else:
            self._finish(lane, target, "fetched", None, request=request)
            self._done[-1].page = result
            self._held_bytes += result.size

    def _body(self, target: Target, request: Request) -> Body:
        """What is to be read, and as what."""
        got, scope = request.exchange, self._policy.scope
        content_type = first(got, "content-type")
        of = media_type(content_type)
        is_file = target.cause != "sitemap" and of and of not in self._policy.fetch.media_types
        cause = "file" if is_file else target.cause
        withheld = scope.no_training == "no_body" and usage.forbids_training(request.usage)
        return Body(
            target.url, cause, got.body, content_type, got.values("x-robots-tag"), withheld, scope.noindex
        )  # fmt: skip

    def _finish(
        self, lane: HostLane, target: Target, outcome: str, reason: str | None, *,
        request: Request | None = None, robots_until: datetime | None = None,
    ) -> None:  # fmt: skip
        ended_at = request.exchange.ended_at if request else self._clock.now()
        self._done.append(Visit(lane.bucket, target, outcome, ended_at, reason, robots_until, request))
        if request is not None:
            self._keep(request)

    def _validators(self, target: Target) -> dict[str, str]:
        fields = dict(zip(VALIDATORS, (target.etag, target.last_modified), strict=True))
        return {
            name: value
            for name, value in fields.items()
            if value and self._policy.fetch.conditional and not target.held_back
        }

    def _is_wanted(self, status: int, headers: Headers) -> bool:
        of = media_type(next((value for name, value in headers if name == "content-type"), None))
        return not of or of in self._policy.fetch.media_types or self._readers.modules.wants(of)
