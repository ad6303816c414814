"""Call modules in a process of their own that may be killed, so that nothing they do costs more than their result.

An analyst has one process. Before its first call, and after each time it was killed, the process imports all modules;
only then does a deadline count. Of a batch that misses its deadline or kills its process each content is tried alone.
A module that hangs or dies so many times in a row is called no more by this worker. What a module is given and how its
answer is checked is not decided here (modules.calling).
"""

import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import polars as pl
import trio
import trio_parallel

from crawl_pipeline.fetch.slate import Slate, on_slate
from crawl_pipeline.modules import calling
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.modules.declaring import Content
from crawl_pipeline.modules.loading import Modules, Ready

START_S = 60.0
"""For starting a process and importing every module."""
SLACK_S = 0.5
"""For the way to the process and back."""


class Strikes:
    """Which modules hung or died, how often in a row; shared by all analysts of a worker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    def out(self, name: str) -> str | None:
        """Why the module is called no more, if it is not."""
        count = self._counts[name]
        return f"called no more: it hung or died {count} times in a row" if count >= self._most else None

    def count(self, name: str, *, well: bool) -> None:
        """Take note of a call that came back, or did not."""
        self._counts[name] = 0 if well else self._counts[name] + 1


class Analyst:
    """One process in which modules are called; see `hired`."""

    def __init__(self, modules: Modules, strikes: Strikes, slate: Slate, run_sync: Callable[..., Any]) -> None:
        self._modules, self._strikes, self._slate, self._run_sync = modules, strikes, slate, run_sync
        self._prepared = False

    async def read(self, contents: Sequence[Content]) -> list[list[Told]]:
        """Call every module that wants them with these contents: for each content what each module told."""
        told: list[list[Told]] = [[] for _ in contents]
        for one in self._modules.of_phase("read"):
            places = [n for n, content in enumerate(contents) if one.declares.wants(content.media_type)]
            answers = await self._of_all(one, [contents[place] for place in places])
            for place, answer in zip(places, answers, strict=True):
                told[place].append(answer)
        return told

    async def of_round(self, one: Ready, frames: Mapping[str, pl.DataFrame]) -> Told:
        """Call a module with a round's rows."""
        if out := self._strikes.out(one.name):
            return Told(one.name, failure=out)
        answer = await self._call(one, calling.round_once, dict(frames))
        self._strikes.count(one.name, well=isinstance(answer, Told))
        return Told(one.name, failure=answer) if isinstance(answer, str) else answer

    async def _of_all(self, one: Ready, contents: list[Content]) -> list[Told]:
        told: list[Told] = []
        while len(told) < len(contents):
            if out := self._strikes.out(one.name):
                told += [Told(one.name, failure=out)] * (len(contents) - len(told))
                break
            rest = contents[len(told) :]
            answers = await self._call(one, calling.read_all, rest)
            if isinstance(answers, str) and len(rest) > 1:
                for content in rest:
                    told += await self._of_all(one, [content])
            elif isinstance(answers, str):
                self._strikes.count(one.name, well=False)
                told.append(Told(one.name, failure=answers))
            else:
                self._note(one, answers)
                told += answers
        return told

    def _note(self, one: Ready, answers: Sequence[Told]) -> None:
        late = calling.out_of_time(one.declares.limits)
        for answer in answers:
            self._strikes.count(one.name, well=answer.failure != late and not answer.spent)

    async def _call(self, one: Ready, function: Callable[..., Any], given: object) -> Any:
        """The module's answer, or why the process was killed or died."""
        limits = one.declares.limits
        try:
            await self._prepare()
            # Twice: a batch may begin its last content just before the time of one is over.
            with trio.move_on_after(2 * limits.seconds + SLACK_S):
                sent = self._slate.write(given)
                answer = self._slate.read(await self._run_sync(on_slate, function, sent, one.spec, limits))
                if any(told.spent for told in (answer if isinstance(answer, list) else [answer])):
                    await self._begin_anew()
                return answer
        except trio_parallel.BrokenWorkerError:
            self._prepared = False
            return "it killed its process"
        self._prepared = False
        return calling.out_of_time(limits)

    async def _prepare(self) -> None:
        if self._prepared:
            return
        with trio.move_on_after(START_S):
            await self._run_sync(calling.prepare, [one.spec for one in self._modules.ready])
        self._prepared = True

    async def _begin_anew(self) -> None:
        with suppress(trio_parallel.BrokenWorkerError):
            await self._run_sync(os._exit, 0)
        self._prepared = False


def _begin(init: Callable[[], bool]) -> bool:
    calling.let_go_when_forked()
    return init()


@asynccontextmanager
async def hired(modules: Modules, strikes: Strikes, init: Callable[[], bool]) -> AsyncIterator[Analyst]:
    """An analyst with a process of its own, which is started by its first call; `init` is run in it first."""
    alone = trio.CapacityLimiter(1)  # apart from the processes that read pages
    # What a module leaves running there may keep its process from ending: it is killed then.
    with suppress(trio_parallel.BrokenWorkerError), Slate() as slate:
        async with trio_parallel.open_worker_context(
            idle_timeout=math.inf, init=partial(_begin, init), grace_period=1.0
        ) as context:

            async def run_sync(*call: Any) -> Any:
                return await context.run_sync(*call, kill_on_cancel=True, limiter=alone)

            yield Analyst(modules, strikes, slate, run_sync)
