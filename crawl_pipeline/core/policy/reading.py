"""Sections about what was fetched: how it is read, compared, attached to and kept."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from crawl_pipeline.core.policy.keys import Count, PositiveFloat, PositiveInt, Section, key


class Parse(Section):
    """Limits of reading one page, in worker processes that may be killed."""

    processes: Count = key(0, "worker processes; 0: one per core")
    seconds: PositiveFloat = key(10.0, "s; longest time for one page, then it is malformed")
    body_mb: PositiveFloat = key(3.0, "MB; larger pages are malformed")
    links: PositiveInt = key(5_000, "links taken from one page")
    batch_pages: PositiveInt = key(16, "pages handed to a process at a time")


class Text(Section):
    """What of a page is its main text, and when that has changed."""

    template_pages: PositiveInt = key(10, "pages of a host that a short block must stand on to be its template")
    template_share: float = key(0.01, "share of the host's pages that it must stand on too", ge=0, le=1)
    alike: float = key(
        0.98, "estimated Jaccard index from which a page that differs from its last version has not changed", gt=0, le=1
    )


class Duplicates(Section):
    """Which pages count as copies of others, and how much less often copies are visited."""

    weight: float = key(
        0.1, "share of its visits that a page keeps that is a copy of another; 1: all (copies of copies change little)",
        gt=0, le=1)  # fmt: skip
    leave_below: float = key(
        0.75, "likeness of two texts below which a changed page counts as unlike its cluster; it joined at 0.81",
        ge=0, le=0.81)  # fmt: skip
    leave_after: PositiveInt = key(
        2, "visits in a row that find a page unlike its cluster, or gone, after which it leaves it"
    )
    crowd: PositiveInt = key(
        1_000, "texts that may share a key of their MinHashes before it counts as a template's: they are then compared "
        "with one of them only")  # fmt: skip
    pages: PositiveInt = key(50_000, "pages taken in one clustering: bounds memory")


class Contents(Section):
    """How bodies are stored: each once."""

    filter_from: Count = key(
        5_000_000, "stored contents from which on Bloom filters say which files may hold one; 5 bytes of memory each"
    )
    false_positives: float = key(
        1e-6, "share of new contents that the filter of a file may think known: the file is read in vain", gt=0, le=0.1
    )
    remembered: Count = key(
        500,
        "pages that each reading process remembers, so that copies are not parsed again; up to 0.1 MB each; 0: none",
    )


class Modules(Section):
    """What else is made of what is fetched: see docs/modules.md."""

    use: list[str] = key(
        [], "modules that are called, by name: png_archive, copyright_monitor, what installed packages register, or "
        "package.module:Name"
    )  # fmt: skip
    settings: dict[str, dict[str, Any]] = key(
        {}, "what a module is told, in [modules.settings.NAME]; it says which keys"
    )
    strikes: PositiveInt = key(3, "hangs and crashes in a row after which a worker calls a module no more")


Days = Annotated[int, Field(gt=0, le=1_826)]
"""Five years at most."""


class Retention(Section):
    """How long what was stored is kept, in whole months: each goes once it has been over for so many days."""

    bodies_days: Days = key(
        1_826, "days; body and text of a page, since a visit last found it so: what is current while its page is "
        "visited stays"
    )  # fmt: skip
    pages_days: Days = key(1_826, "days; what else is known of a stored page: title, hashes, fingerprints; as above")
    modules_days: Days = key(1_826, "days; rows of modules, as above")
    requests_days: Days = key(1_826, "days; the log of requests, and robots.txt answers")
    links_days: Days = key(1_826, "days; links that pages had")
    bodies_of: dict[Annotated[str, Field(pattern=r"^(tag|topic|type) \S")], Days] = key(
        {}, 'days; bodies of pages of a class, where that is less: by tag, topic or media type, such as '
        '{"topic news" = 90, "type text/plain" = 30}'
    )  # fmt: skip

    @model_validator(mode="after")
    def _bodies_have_pages(self) -> Self:
        if self.bodies_days > self.pages_days:
            raise ValueError(
                f"retention.bodies_days ({self.bodies_days}) must be at most retention.pages_days ({self.pages_days}): "
                "a body is found by its page"
            )
        return self
