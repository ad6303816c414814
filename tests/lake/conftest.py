"""A lake of eight buckets in a temporary folder."""

from pathlib import Path

import pytest

from crawl_pipeline.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(str(tmp_path / "lake"), 8)
