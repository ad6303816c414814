"""Run a worker on the real web: name it, open resolver, transport and readers as the policy says, and let it work.

The one place where a wall clock and signals enter a crawl. Told to stop (SIGINT, SIGTERM), a worker ends its requests,
commits and gives its lease back; killed, it leaves nothing but a lease that runs out.

A worker counts its time by a clock that nobody sets. If the wall clock is set meanwhile, or the machine slept, others
see its lease end at another time than it does, and its slots at shared addresses elsewhere: it stops, in order.
"""

import os
import resource
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import httpx
import trio

from crawl_pipeline import ordering, rounds
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.fetch.connection import trust
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.reading import Readers
from crawl_pipeline.fetch.resolver import Resolver, Times
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.lake import Lake
from crawl_pipeline.modules import loading
from crawl_pipeline.rounds import Tell, Worked

OPEN_FILES = 65_536
STEP_S, LOOK_S = 1.0, 0.25
"""By how much the wall clock may part from the worker's own time, and how often that is looked at; both in seconds.

Network time moves both alike but for steps; slots at addresses bear no more than tenths of a second.
"""


def run(
    lake: Lake,
    policy: Policy,
    *,
    buckets: Sequence[int] | None = None,
    seconds: float,
    tell: Tell = lambda done: None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Worked:
    """Work on the buckets (None: all) for so many seconds.

    Raises PolicyError if what was set by orders does not fit the policy, or if fetch.ca_file or what it says of modules
    cannot be used; LeaseHeld, LeaseLost and LakeMismatch as rounds.work does.
    """

    async def main() -> Worked:
        outside = rounds.Outside(asked, Readers(policy, lake.buckets, used))
        stop, steps, now = trio.Event(), list[float](), datetime.now(UTC)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_step, Clock.start(now), lambda: datetime.now(UTC), stop, steps)
            if threading.current_thread() is threading.main_thread():
                nursery.start_soon(_stop_on_signals, stop)
            worked = await rounds.work(
                lake, policy, outside, buckets=range(lake.buckets) if buckets is None else buckets, worker=name(),
                seconds=seconds, now=now, tell=tell, stop=stop,
            )  # fmt: skip
            nursery.cancel_scope.cancel()
        if steps:
            worked.stopped = f"the clock was set by {steps[0]:+,.1f} s, or the machine slept: run it again"
        return worked

    ordering.policy_in_force(lake, policy)  # what was set must fit before a bucket is taken
    used = loading.load(policy)
    asked = transport or wire(policy)
    allow_open_files()
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        raise _only(group) from group


def allow_open_files() -> None:
    """Let this process open as many files as it may, up to OPEN_FILES.

    A thousand hosts at a time are as many sockets, and the usual limit is 1,024: what it refuses looks like a host that
    cannot be reached.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def name() -> str:
    """A name no other worker has: host, process and chance."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def wire(policy: Policy) -> WireTransport:
    """The transport that a policy asks for; raises PolicyError if its file of authorities cannot be used."""
    rules = policy.resolver
    times = Times(**{name: getattr(rules, name) for name in Times.__dataclass_fields__})
    resolver = Resolver(rules.hosts, rules.name_servers, times)
    return WireTransport(
        resolver, policy.addresses.networks, block=policy.block.addresses, tls=trusted(policy.fetch.ca_file)
    )


def trusted(ca_file: str) -> ssl.SSLContext:
    """Whose certificates are trusted: the system's, and those of a file; raise PolicyError if that cannot be read."""
    try:
        return trust(ca_file)
    except (OSError, ValueError) as trouble:
        raise PolicyError(
            f"fetch.ca_file: expected a readable file of certificates in PEM form, found {ca_file!r} ({trouble}); "
            f'name another, or "" for none'
        ) from trouble


async def _stop_on_signals(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stop.set()


async def stop_on_step(own: Clock, wall: Callable[[], datetime], stop: trio.Event, steps: list[float]) -> None:
    """Stop, and tell by how much, once the wall clock has been set."""
    while not steps:
        await trio.sleep(LOOK_S)
        step_s = (wall() - own.now()).total_seconds()
        if abs(step_s) > STEP_S:
            steps.append(step_s)
            stop.set()


def _only(group: BaseExceptionGroup) -> BaseException:
    """The one exception inside groups of one; a group of several stays as it is."""
    inner = group.exceptions[0]
    if len(group.exceptions) > 1:
        return group
    return _only(inner) if isinstance(inner, BaseExceptionGroup) else inner
