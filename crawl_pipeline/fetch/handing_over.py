"""What modules are given of an answer or a round, and where what they told of it goes.

Decides what is not handed over: what is not to be kept, what could not be read, types that no module wants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.fetch.bodies import Body, ReadPage, Result, media_type
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.modules.declaring import Content
from crawl_pipeline.modules.loading import Modules, Ready


def handed_over(body: Body, result: Result, modules: Modules) -> Content | None:
    """What modules are given of an answer; None if it is no page or file, or not to be kept."""
    if isinstance(result, str) or body.cause == "sitemap" or body.withheld or (body.obey_noindex and result.noindex):
        return None
    of = media_type(body.content_type) or "text/html"
    if not modules.wants(of):
        return None
    named = content_hash(body.body) if result.body_hash is None else result.body_hash
    return Content(body.url, of, body.body, named, result.text, result.title, result.lang)


def with_told(result: Result, told: Sequence[Told]) -> Result:
    """A result with what modules made of it."""
    return replace(result, told=tuple(told)) if told and isinstance(result, ReadPage) else result


def of_types(frames: Mapping[str, pl.DataFrame], one: Ready) -> dict[str, pl.DataFrame]:
    """The frames that a module asks for, without bodies; of pages those of the types that it wants."""
    of = pl.col("content_type").fill_null("text/html").str.split(";").list.first().str.strip_chars().str.to_lowercase()
    given = {
        name: frames[name].drop("body", strict=False) for name in {"pages", *one.declares.frames} if name in frames
    }
    wanted = [kind for kind in given["pages"].select(of.unique())["content_type"] if one.declares.wants(kind)]
    return given | {"pages": given["pages"].filter(of.is_in(wanted))}
