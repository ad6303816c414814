"""Robots: the rules of a file, and what an answer to the request for it means."""

import math

from crawl_pipeline.core import robots
from crawl_pipeline.core.policy import Robots
from crawl_pipeline.core.urls import canonical
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, moment, octets

FAILURES = {"connect": "connect_error", "timeout": "timeout", "dns": "dns_error"}
LIMITS = Robots()


def _letters(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 26)
        digits = chr(97 + digit) + digits
        if not number:
            return digits


def _made(gen: Input) -> bytes:
    if "repeat_agents" in gen:
        lines = [f"User-agent: bot-{_letters(k)}\n" for k in range(gen["repeat_agents"])]
        lines += [f"Disallow: /r{k}\n" for k in range(gen["repeat_rules"])]
        return f"{''.join(lines)}{gen['tail']}".encode()
    if "wildcard_rules" in gen:
        lines = [f"Disallow: /d{k}/*/p{k}$\n" for k in range(gen["wildcard_rules"])]
        return f"{gen['head']}{''.join(lines)}{gen['tail']}".encode()
    times = math.ceil(gen["filler_bytes"] / len(gen["filler"]))
    return str(gen["head"] + gen["filler"] * times + gen["tail"]).encode()


def _match(given: Input) -> dict[str, Json]:
    body = _made(given["robots_gen"]) if "robots_gen" in given else octets(given, "robots")
    return {"allowed": robots.read(body, given["agent"]).allowed(canonical(given["url"]))}


def _look(steps: list[Json], *, endless: bool) -> tuple[robots.Answer, bytes]:
    """Follow the redirects from /robots.txt; takes the steps it uses off the list."""
    for _ in range(LIMITS.hops + 1):
        step = steps[0] if endless and len(steps) == 1 else steps.pop(0)
        if "error" in step:
            return robots.answer(None, FAILURES[step["error"]]), b""
        if not 300 <= step["status"] < 400 or step["status"] == 304:
            return robots.answer(step["status"]), octets(step, "body")
        if not any(name.lower() == "location" for name in step.get("headers", {})):
            break
    return robots.answer(None, "redirect_error"), b""


def _fetch(given: Input) -> dict[str, Json]:
    steps = list(given["steps"])
    decisions: list[bool] = []
    while steps:
        state, body = _look(steps, endless=bool(given.get("repeat_last")))
        rules = robots.read(body, given["agent"]).allowed(canonical(given["url"]))
        decisions.append(state == "allow_all" or (state == "rules" and rules))
        if given.get("repeat_last"):
            break
    return {"allowed": decisions[-1], "allowed_sequence": decisions}


def _cache(given: Input) -> dict[str, Json]:
    state = robots.answer(given["status"])
    at, now = moment(given["fetched_at"]), moment(given["now"])
    return {"refetch": (now - at).total_seconds() >= robots.lives_s(state, LIMITS.ttl_s, LIMITS.unreachable_s)}


def _crawl_delay(given: Input) -> dict[str, Json]:
    return {"crawl_delay": robots.read(octets(given, "robots"), given["agent"]).crawl_delay_s}


def _sitemaps(given: Input) -> dict[str, Json]:
    return {"sitemaps": list(robots.read(octets(given, "robots"), "ExampleBot", given["robots_url"]).sitemaps)}


ADAPTERS: Adapters = {
    ("robots", "match"): _match,
    ("robots", "fetch"): _fetch,
    ("robots", "cache"): _cache,
    ("robots", "robots_url"): lambda given: {"robots_url": robots.robots_url(given["url"])},
    ("robots", "crawl_delay"): _crawl_delay,
    ("robots", "sitemaps"): _sitemaps,
}
