"""Finding calls: by outcome, by request, by metadata, in either order."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.tools import add, breaks
from tests.scenarios.kit import make
from tests.scenarios.server_kit import served

from clicket import Runtime, tool
from clicket.client import Client
from clicket.errors import UsageError


async def some_calls(rt: Any) -> None:
    """c0 … c5, made one after the other."""
    await rt.call("add", {"a": 1, "b": 2}, id="c0", request_id="r1", metadata={"user": "ann", "try": 1})
    await rt.call("add", {"a": 1, "b": 2}, id="c1", request_id="r2", metadata={"user": "bob", "try": 2})
    await rt.call("breaks", {}, id="c2", request_id="r2", metadata={"user": "ann"})
    await rt.call("add", {"a": "x"}, id="c3", metadata={"user": "ann", "note": 'with "quotes"'})
    await rt.call("breaks", {}, id="c4", thread="t2")
    await rt.call("add", {"a": 2, "b": 2}, id="c5", thread="t2", metadata={"user": "Zoë"})


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"order": "asc"}, ["c0", "c1", "c2", "c3", "c4", "c5"]),
    ({"order": "desc", "limit": 2}, ["c5", "c4"]),
    ({"code": "tool_error"}, ["c4", "c2"]),
    ({"code": "invalid_input"}, ["c3"]),
    ({"code": "tool_error", "thread": "t2"}, ["c4"]),
    ({"code": "tool_error", "state": "completed"}, []),
    ({"state": ["completed", "failed"]}, ["c5", "c4", "c3", "c2", "c1", "c0"]),
    ({"state": ["failed", "cancelled"], "limit": 2}, ["c4", "c3"]),
    ({"state": ["completed", "failed"], "order": "asc", "limit": 3}, ["c0", "c1", "c2"]),
    ({"state": ["failed", "pending"], "thread": "t2"}, ["c4"]),
    ({"request_id": "r2", "order": "asc"}, ["c1", "c2"]),
    ({"request_id": "r2", "tool": "add"}, ["c1"]),
    ({"metadata": {"user": "ann"}}, ["c3", "c2", "c0"]),
    ({"metadata": {"user": "ann", "try": 1}}, ["c0"]),
    ({"metadata": {"try": "2"}}, ["c1"]),
    ({"metadata": {"note": 'with "quotes"'}}, ["c3"]),
    ({"metadata": {"user": "Zoë"}}, ["c5"]),
    ({"metadata": {"user": "nobody"}}, []),
    ({"id_contains": "5"}, ["c5"]),
    ({"until": 1.0}, []),
]


@pytest.mark.parametrize("kind", ["runtime", "client"])
async def test_calls_are_found_by_their_content(kind: str) -> None:
    async def check(rt: Runtime | Client) -> None:
        await some_calls(rt)
        for which, ids in CASES:
            assert [record.id for record in (await rt.history(**which)).items] == ids, which
        first = await rt.history(order="asc", limit=4, metadata={"user": "ann"})
        assert first.cursor is None
        seen, cursor = list[str](), None
        while True:
            page = await rt.history(order="asc", limit=2, cursor=cursor)
            seen += [record.id for record in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == ["c0", "c1", "c2", "c3", "c4", "c5"]

    if kind == "runtime":
        async with make([add, breaks], "memory://") as rt:
            await check(rt)
    else:
        async with served([add, breaks]) as it, Client(it.url) as client:
            await check(client)


async def test_sqlite_finds_them_in_calls_that_are_large(sqlite: str) -> None:
    """Units that do not fit into the call's row are in separate rows."""

    @tool
    async def long(text: str) -> str:
        return text

    async with make([long], sqlite) as rt:
        for number in range(3):
            await rt.call(
                "long", {"text": "x" * 50_000}, id=f"c{number}", request_id=f"r{number}", metadata={"n": str(number)}
            )
        assert [record.id for record in (await rt.history(request_id="r1")).items] == ["c1"]
        assert [record.id for record in (await rt.history(metadata={"n": "2"})).items] == ["c2"]


async def test_wrong_options_are_clear_errors(store: str) -> None:
    async with make([add], store) as rt:
        with pytest.raises(UsageError, match="order must be asc or desc"):
            await rt.history(order="up")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"no option 'codes'\. Did you mean 'code'"):
            await rt.history(codes="x")  # type: ignore[call-arg]
        with pytest.raises(UsageError, match="state is an empty list"):
            await rt.history(state=[])


async def test_the_servers_query_is_checked() -> None:
    async with served([add]) as it:
        assert (await it.get("/calls", params={"order": "up"})).json()["code"] == "invalid_query"
        assert (await it.get("/calls", params={"metadata.": "x"})).json()["code"] == "invalid_query"
        assert (await it.get("/calls", params={"metadat": "x"})).json()["code"] == "invalid_query"
        assert (await it.get("/calls", params={"metadata.user": ""})).json()["items"] == []
