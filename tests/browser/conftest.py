"""One browser for all of these tests that follow each other, and one server for each module."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.kit import Console, Pages, Server, chromium, serving

_open = ExitStack()


@cache
def _browser() -> Browser:
    return _open.enter_context(chromium())


@cache
def _pages() -> Pages:
    return Pages(_browser())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """The browser ends before the first test from elsewhere: Playwright's loop would be in the way of async tests."""
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
            _pages.cache_clear()
            _browser.cache_clear()
            _open.close()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return _browser()


@pytest.fixture(scope="module")
def pages() -> Pages:
    return _pages()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("console")
    with serving(f"sqlite:///{folder / 'calls.db'}") as started:
        yield started


@pytest.fixture
def console(pages: Pages, server: Server) -> Iterator[Console]:
    opened = Console(pages, server.url)
    yield opened
    opened.check()
