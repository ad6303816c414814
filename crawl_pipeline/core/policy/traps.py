"""The section about traps: when a pattern of URLs is held for one, and what is done about it."""

from typing import Literal, Self

from pydantic import model_validator

from crawl_pipeline.core.policy.keys import Count, PositiveFloat, PositiveInt, Section, key


class Traps(Section):
    """When the URLs of a pattern are held for a trap, by a sequential test of the pages it gave (Wald 1945)."""

    act: Literal["block", "throttle", "record"] = key(
        "block", "the most that is done by itself about a pattern: block all but a probe; throttle; record, nothing"
    )
    ordinary: float = key(0.5, "share of worthless pages that a pattern may have and be no trap", gt=0, lt=1)
    trap: float = key(0.9, "share of worthless pages of a trap; must be more than ordinary", gt=0, lt=1)
    block_error: float = key(
        1e-4,
        "how likely a pattern with the ordinary share is blocked; it is suspicious at the root of this",
        gt=0,
        lt=0.5,
    )
    clear_error: float = key(1e-2, "how likely a trap is cleared", gt=0, lt=0.5)
    weight: float = key(0.1, "times the weight in the draw, for URLs of a suspicious pattern", gt=0, le=1)
    doubt_urls: PositiveInt = key(
        16, "URLs on one fetch list of a pattern of which more pages were worthless than good, until that is settled"
    )
    probe_share: float = key(0.01, "share of a blocked pattern's URLs that is asked for all the same", ge=0, le=1)
    probe_urls: Count = key(3, "about so many such URLs of one pattern in probe_s at most")
    probe_s: PositiveFloat = key(2_592_000.0, "s; after this another such share is drawn")
    linking_sites: PositiveInt = key(3, "other sites that link to URLs of a pattern, from which on it is never blocked")
    thin_tokens: Count = key(10, "tokens of main text under which a page counts as worthless")
    released_s: PositiveFloat = key(2_592_000.0, "s; a pattern that a person released is not blocked again sooner")
    probes_per_host: Count = key(
        2, "URLs that nobody can have made that a host is asked for, again after probe_s, to know its soft 404s"
    )
    parameter_ordinary: float = key(
        0.5, "share of equal pages among URLs that differ in a parameter, where the parameter may matter", gt=0, lt=1
    )
    parameter_equal: float = key(
        0.98, "the same where the parameter does not matter; must be more than parameter_ordinary", gt=0, lt=1
    )
    parameters: Count = key(50, "parameters that are told apart per host; 0: URLs are crawled with all of them")
    patterns: PositiveInt = key(500, "patterns that are told apart per host; the others count as one")
    signatures: PositiveInt = key(512, "earlier pages of a host that a page is compared with: bounds memory")

    @model_validator(mode="after")
    def _trap_is_worse(self) -> Self:
        if self.trap <= self.ordinary:
            raise ValueError(f"traps.trap ({self.trap}) must be more than traps.ordinary ({self.ordinary})")
        if self.parameter_equal <= self.parameter_ordinary:
            raise ValueError(
                f"traps.parameter_equal ({self.parameter_equal}) must be more than traps.parameter_ordinary "
                f"({self.parameter_ordinary})"
            )
        return self
