"""SeaweedFS on loopback: an S3 server with conditional writes, as a lake in S3 needs them. For tests only."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import httpx
import pytest

PROGRAM = Path(__file__).parents[2] / ".store" / "bin" / "weed"
KEY, SECRET, BUCKET = "somebody", "sesame", "crawl"
PARTS = ("master", "volume", "filer", "s3")
GRPC = 10_000
"""Each part listens at a second port, so much higher."""


@contextmanager
def serving(folder: Path) -> Iterator[Mapping[str, str]]:
    """Serve an empty bucket for as long as the block lasts; give what the environment must say to use it."""
    if not PROGRAM.exists():
        (pytest.fail if os.environ.get("CRAWL_TESTS_NEED_SERVERS") else pytest.skip)("no S3 server: make store")
    ports = _free_ports(len(PARTS))
    rights = {"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [rights]}))
    numbered = [f"-{part}.port={port}" for part, port in zip(PARTS, ports, strict=True)]
    where = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", f"-s3.config={folder / 's3.json'}"]
    size = ["-volume.max=20", "-master.volumeSizeLimitMB=64"]
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "server", "-filer", "-s3", *where, *numbered, *size], stdout=log, stderr=log, cwd=folder
        )
    try:
        address = f"http://127.0.0.1:{ports[-1]}"
        _wait_until_it_answers(process, address)
        boto3.client(
            "s3", endpoint_url=address, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
        ).create_bucket(Bucket=BUCKET)
        yield {
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip
    finally:
        process.kill()  # an orderly end takes it long, and nobody needs what it stored
        process.wait()


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the S3 server has ended; its log says why"
        try:
            httpx.get(address, timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the S3 server did not come up within 60 s")


def _free_ports(count: int) -> list[int]:
    """Ports that are free now and whose second ports are too."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            first, second = (held.enter_context(socket.socket()) for _ in range(2))
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + GRPC if port + GRPC < 2**16 else port - GRPC))
            except OSError:
                continue
            if port + GRPC < 2**16:
                found.append(port)
    return found
