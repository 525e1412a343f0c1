"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.kit import forks

from clicket.engine.executors.processes.pool import ProcessPool, ToolProcess


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started as outside of tests, not forked."""
    forks.started(monkeypatch)


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(size=2, grace=0.3)
    yield pool
    await pool.close()
    assert pool.pids == ()


@pytest.fixture
async def worker(pool: ProcessPool) -> AsyncIterator[ToolProcess]:
    worker = await pool.acquire()
    yield worker
    pool.release(worker)
