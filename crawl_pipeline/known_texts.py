"""The texts that clusters are made of: taken up where the last clustering left them, or made anew.

They lie in the lake's caches and hold no truth. What they must agree with is said by the lake: which lake, which
clustering, how crowded a key may be. If they do not, or were left half changed, they are made anew from `clusters`
(which texts pages stand for) and `pages` (the signatures); that gives the same clusters, for the rule knows no order.
"""

from collections.abc import Iterator

import polars as pl

from crawl_pipeline.core import fingerprint
from crawl_pipeline.core.clusters import Clusters
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.mapping import MappedFiles

SIGNATURE = list(fingerprint.SCHEMA)


def take(lake: Lake, number: int, crowd: int) -> tuple[Clusters, MappedFiles]:
    """Give what is known after that clustering; it must be left, or is made anew the next time."""
    files = MappedFiles(lake.caches / "clusters")
    stamp = files.take()
    if stamp is not None and [stamp["lake"], stamp["number"], stamp["record"]["crowd"]] == [lake.id, number, crowd]:
        return Clusters.recorded(files, stamp["record"]), files
    return _anew(lake, files, crowd), files


def leave(lake: Lake, number: int, known: Clusters, files: MappedFiles) -> None:
    """Keep what is known for the clustering after that number."""
    files.leave({"lake": lake.id, "number": number, "record": known.record})


def _anew(lake: Lake, files: MappedFiles, crowd: int) -> Clusters:
    files.begin()
    known = Clusters(files, crowd)
    stood = lake.scan("clusters").group_by("main_hash").agg(holders=pl.len().cast(pl.Int32)).collect()
    for signatures in _signatures(lake, stood):
        known.apply(signatures, signatures["main_hash"].clear())
    held = stood.filter(known.at(stood["main_hash"]) >= 0)
    known.hold(held["main_hash"], held["holders"])
    return known


def _signatures(lake: Lake, stood: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Signatures of the texts that pages stand for, a bucket at a time: bounds memory."""
    left = stood.select("main_hash")
    buckets = lake.scan("rounds").select("bucket").unique().collect()["bucket"].sort()
    for bucket in buckets if stood.height else []:
        pages = lake.scan("pages", buckets=[bucket]).select(SIGNATURE)
        found = pages.join(left.lazy(), on="main_hash", how="semi").unique("main_hash").collect(engine="streaming")
        left = left.join(found, on="main_hash", how="anti")
        yield found
