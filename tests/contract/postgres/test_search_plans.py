"""What people filter by has an index in PostgreSQL, and the rest is searched in limited steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.contract.postgres.kit import Make
from tests.kit.many_calls import fill

from clicket.kernel import State
from clicket.ports import Query
from clicket.stores.postgres import PostgresStore
from clicket.stores.postgres.pool import Pool
from clicket.testing.store_kit import opened

SEARCHES = [
    (Query(until=1_100.0, limit=20), "calls_pkey"),
    (Query(since=3_000.0, ascending=True, limit=20), "calls_pkey"),
    (Query(tool="tool1", state=State.TIMEOUT, limit=20), "calls_tool_ended_badly"),
    (Query(request_id="nowhere", limit=20), "calls_request"),
    (Query(code="nothing", limit=20), "calls_code"),
    (Query(caller="ann", limit=20), "calls_caller"),
]


async def test_filters_are_answered_by_an_index(
    make: Make, sql: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []
    query = Pool.query

    async def noted(self: Pool, text: str, *params: Any) -> Any:
        asked.append((text, params))
        return await query(self, text, *params)

    async with opened(make) as store:
        assert isinstance(store, PostgresStore)
        await fill(store, 0, 3_000, failed=50)
        await fill(store, 3_000, 20, caller="ann")
        sql("ANALYZE calls")
        monkeypatch.setattr(Pool, "query", noted)
        for wanted, index in SEARCHES:
            asked.clear()
            assert await store.scan_end(wanted, 100) is None, "an index has all that is asked for"
            await store.history(wanted)
            ((text, params),) = asked
            plan = "\n".join(row[0] for row in await query(store._open.pool, f"EXPLAIN {text}", *params))
            assert f"using {index} on calls" in plan or f"on {index}" in plan, f"{wanted}\n{plan}"
            assert "Seq Scan on calls" not in plan, f"{wanted}\n{plan}"
        end = await store.scan_end(Query(id_contains="x"), 100)
        assert end is not None
        assert end.created_at == 1_000.0 + 3_019 - 99
        found = await store.history(Query(until=1_003.0))
        assert [stored.id for stored in found] == ["c2", "c1", "c0"]
        assert [stored.id for stored in await store.history(Query(metadata=(("user", "u5"),)))] == ["c5"]
