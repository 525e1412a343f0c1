"""One browser and one server for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.kit import Console, Server, chromium, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("console")
    with serving(f"sqlite:///{folder / 'calls.db'}") as started:
        yield started


@pytest.fixture
def console(browser: Browser, server: Server) -> Iterator[Console]:
    opened = Console(browser, server.url)
    yield opened
    opened.check()
