"""Host buckets as Dagster's partitions: b000, b001, ... The one place where a bucket has a name.

The round is no partition: there would be tens of thousands a year, and the past cannot be asked again.
"""

import dagster as dg


def of(buckets: int) -> dg.StaticPartitionsDefinition:
    """One partition per bucket of the lake."""
    return dg.StaticPartitionsDefinition([key(bucket) for bucket in range(buckets)])


def key(bucket: int) -> str:
    """The partition of a bucket."""
    return f"b{bucket:03d}"


def bucket(partition: str) -> int:
    """The bucket of a partition."""
    return int(partition.removeprefix("b"))


def tags(first: int, last: int) -> dict[str, str]:
    """Tags of a run over neighbouring buckets."""
    return {"dagster/asset_partition_range_start": key(first), "dagster/asset_partition_range_end": key(last)}
