"""Where the lake is and how it is reached: the one place that turns settings into an open lake for Dagster.

Opens nothing at import. The bucket count that the assets were loaded with is compared with the lake's whenever it is
opened, so that a partition never means another bucket than the lake does.
"""

import os
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource

    from crawl_pipeline.lake import Lake

BUCKETS = 16
"""Buckets of a lake unless it was created with another number."""


class LakeResource(dg.ConfigurableResource["LakeResource"]):
    """A lake on a disk or in an object store."""

    root: str
    storage_options: dict[str, str] = {}  # noqa: RUF012 (pydantic copies defaults)

    def open(self, buckets: int) -> "Lake":
        """Open the lake; raise LakeMissing if there is none, LakeMismatch if it has another bucket count."""
        from crawl_pipeline.lake import Lake, LakeMismatch  # noqa: PLC0415 (keeps the code server small)

        lake = Lake.open(self.root, self.storage_options)
        if lake.buckets != buckets:
            raise LakeMismatch(
                f"expected {buckets} buckets, as the partitions loaded here, found {lake.buckets} in {self.root}: "
                f"set CRAWL_BUCKETS={lake.buckets} and reload the definitions"
            )
        return lake


def lake_from_environment() -> LakeResource:
    """The lake that CRAWL_LAKE names, ./lake by default; in S3 with the region and endpoint that AWS_* name.

    Keys are left to the environment or the machine's role, and so never stand in a resource's shown settings.
    """
    root = os.environ.get("CRAWL_LAKE", "lake")
    if not root.startswith("s3://"):
        return LakeResource(root=root if "://" in root else os.path.abspath(root))
    from dagster_aws.s3 import S3Resource  # noqa: PLC0415 (boto3 is wanted for S3 only)

    s3 = S3Resource(region_name=os.environ.get("AWS_REGION"), endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))
    return LakeResource(root=root, storage_options=storage_options(s3))


def buckets_from_environment() -> int:
    """How many partitions to load: CRAWL_BUCKETS. The lake itself is not asked: it may be far away, or not there."""
    told = os.environ.get("CRAWL_BUCKETS", str(BUCKETS))
    if not told.isdecimal() or int(told) < 1:
        raise ValueError(f"expected CRAWL_BUCKETS to be the lake's bucket count, found {told!r}: correct it")
    return int(told)


def storage_options(s3: "S3Resource") -> dict[str, str]:
    """Say what an S3Resource says in the words of the object store that Delta uses."""
    key, secret, token = s3.aws_access_key_id, s3.aws_secret_access_key, s3.aws_session_token
    if s3.profile_name:
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415

        found = boto3.Session(profile_name=s3.profile_name).get_credentials()
        if found is None:
            raise ValueError(f"expected credentials in the AWS profile {s3.profile_name!r}, found none: log in first")
        key, secret, token = found.get_frozen_credentials()
    said = {
        "AWS_REGION": s3.region_name,
        "AWS_ENDPOINT_URL": s3.endpoint_url,
        "AWS_ALLOW_HTTP": "true" if (s3.endpoint_url or "").startswith("http://") else None,
        "AWS_SKIP_SIGNATURE": "true" if s3.use_unsigned_session else None,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_SESSION_TOKEN": token,
    }
    return {name: value for name, value in said.items() if value}
