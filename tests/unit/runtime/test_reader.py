"""A reader returns what a runtime returns, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from clicket import tool
from clicket.errors import NotFound, UsageError
from clicket.runtime.reader import Reader
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings


@tool
async def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=f"{tmp_path}/calls.db")


async def test_a_reader_answers_like_a_runtime(settings: Settings) -> None:
    async with Runtime([double], settings=settings) as runtime:
        for n in range(5):
            await runtime.call("double", {"n": n}, id=f"c{n}", thread=f"t{n % 2}")
        await runtime.acting_for("ann").call("double", {"n": 9}, id="c1", thread="t1")
        await runtime.call("nothing", {}, id="bad")
        async with Reader(settings) as reader:
            for filters in (
                {},
                {"thread": "t1"},
                {"tool": "double", "limit": 2},
                {"state": "failed"},
                {"active": True},
            ):
                assert await reader.history(**filters) == await runtime.history(**filters), filters
            page = await reader.history(limit=2)
            assert await reader.history(limit=2, cursor=page.cursor) == await runtime.history(
                limit=2, cursor=page.cursor
            )
            assert await reader.get("c0") == await runtime.get("c0")
            assert await reader.acting_for("ann").get("c1") == await runtime.acting_for("ann").get("c1")
            assert (await reader.acting_for("ann").history()).items == [await reader.acting_for("ann").get("c1")]
            assert len(await reader.store.owners()) == 2
            with pytest.raises(UsageError, match="2 calls have the id"):
                await reader.get("c1", thread="t1")
            with pytest.raises(NotFound):
                await reader.get("none")
            with pytest.raises(UsageError, match="limit"):
                await reader.history(limit=0)


async def test_a_reader_leaves_waiting_calls_alone(settings: Settings) -> None:
    async with Runtime([double], settings=settings.replace(engine="workers")) as runtime:
        await runtime.submit("double", {"n": 1}, id="waits")
    async with Reader(settings) as reader:
        assert not (await reader.get("waits")).state.is_terminal
        assert (await reader.history(active=True)).items[0].id == "waits"
