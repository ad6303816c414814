"""One Dagster with its UI, on one small lake, for all tests here."""

import os
from collections.abc import Iterator

import pytest
import ui


@pytest.fixture(scope="module")  # no longer: two browsers in one process quarrel about its loop
def dagit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ui.Dagit]:
    if ui.CHROMIUM is None:
        (pytest.fail if os.environ.get("CRAWL_TESTS_NEED_SERVERS") else pytest.skip)("chromium is not installed")
    with ui.opened(tmp_path_factory.mktemp("dagit")) as running:
        yield running
