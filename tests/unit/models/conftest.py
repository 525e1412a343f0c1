"""The fake provider on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.adapters.provider import Provider, serving


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with serving() as made:
        yield made
