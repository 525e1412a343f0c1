"""Fixtures of these tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.engine.journal.journal_kit import OWNER, Desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.store.open(OWNER)
    yield desk
    desk.journal.unsaved.clear()
    for task in list(desk.tasks):
        task.cancel()
    await asyncio.gather(*desk.tasks, return_exceptions=True)
