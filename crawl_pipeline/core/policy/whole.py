"""The policy as a whole: every section, what is different for single hosts, and an identity of its values."""

import json
from functools import cached_property
from typing import Self

import xxhash
from pydantic import Field, model_validator

from crawl_pipeline.core.policy.asking import Addresses, Agent, Block, Fetch, Politeness, Resolver, Retry, Robots
from crawl_pipeline.core.policy.choosing import Bands, Budget, Rank, Recrawl, Round, Scope, Seen, Sitemap
from crawl_pipeline.core.policy.keys import HostName, PositiveFloat, PositiveInt, Section, key
from crawl_pipeline.core.policy.reading import Contents, Duplicates, Modules, Parse, Retention, Text
from crawl_pipeline.core.policy.traps import Traps


class HostRule(Section):
    """What is different for one host; keys left out keep the general value."""

    delay_s: PositiveFloat | None = key(None, "s; gap after each request")
    urls: PositiveInt | None = key(None, "known URLs")
    fetches_per_day: PositiveInt | None = key(None, "pages asked in a UTC day")


class Policy(Section):
    """All rules of a crawl. `policy.id` names exactly these values."""

    agent: Agent
    round: Round = Round()
    bands: Bands = Bands()
    rank: Rank = Rank()
    politeness: Politeness = Politeness()
    robots: Robots = Robots()
    fetch: Fetch = Fetch()
    parse: Parse = Parse()
    text: Text = Text()
    addresses: Addresses = Addresses()
    resolver: Resolver = Resolver()
    scope: Scope = Scope()
    block: Block = Block()
    budget: Budget = Budget()
    duplicates: Duplicates = Duplicates()
    seen: Seen = Seen()
    contents: Contents = Contents()
    retention: Retention = Retention()
    retry: Retry = Retry()
    recrawl: Recrawl = Recrawl()
    sitemap: Sitemap = Sitemap()
    traps: Traps = Traps()
    modules: Modules = Modules()
    host: dict[HostName, HostRule] = Field(default={})

    @cached_property
    def id(self) -> str:
        """Digest of all values: two policies with one id decide alike."""
        return xxhash.xxh3_64_hexdigest(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode())

    def delay_s(self, host: str) -> float:
        """The configured gap of a host."""
        rule = self.host.get(host)
        return (rule and rule.delay_s) or self.politeness.delay_s

    @property
    def address_gap_s(self) -> float:
        """The gap between two starts at an address: no longer than the one that its only host would be given."""
        return min(self.politeness.address_gap_s, self.politeness.delay_s)

    def fetches_per_day(self, host: str) -> int:
        """How many pages a host may be asked for in a UTC day."""
        rule = self.host.get(host)
        return (rule and rule.fetches_per_day) or self.budget.fetches_per_host_day

    @model_validator(mode="after")
    def _lease_outlasts_round(self) -> Self:
        if self.round.lease_s < self.round.seconds + self.fetch.total_s:
            raise ValueError(
                f"round.lease_s ({self.round.lease_s}) must be at least round.seconds + fetch.total_s "
                f"({self.round.seconds + self.fetch.total_s}): a lease must outlast the last request of its round"
            )
        return self
