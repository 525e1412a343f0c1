"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.tools.rest_kit import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as started:
        yield started
