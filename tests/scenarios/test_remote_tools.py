"""Another clicket server as a source of tools: a call here is one call there; stream, cancel, kills and unknown outcomes pass through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.waiting import eventually
from tests.scenarios.cli_kit import Command, Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Policy, Runtime, State, ToolContext, tool
from clicket.client import RemoteTools
from clicket.errors import UsageError
from clicket.tools.rest import OutcomeUnknown


@tool
async def talk(ctx: ToolContext, words: int = 3) -> str:
    for number in range(words):
        ctx.emit(f"{number} ")
        ctx.progress(number + 1, words, "talking")
    return "done"


@tool
async def doubtful() -> None:
    raise OutcomeUnknown("no answer came back")


@tool(max_retries=0)
async def broken(why: str = "on fire") -> None:
    raise ValueError(why)


@tool
async def risky() -> str:
    return "risked"


THERE = [talk, doubtful, broken, risky]


async def test_calls_are_calls_there_and_here() -> None:
    async with served(THERE, policy=Policy(ask=["risky"])) as it:
        key = (await key_for(it, "far", "read", "call"))["authorization"].removeprefix("Bearer ")
        source = RemoteTools(it.url, key, prefix="far_")
        async with make() as rt:
            names = [each.name for each in await source.join(rt)]
            assert set(names) == {"far_talk", "far_doubtful", "far_broken", "far_risky"}
            handle = await rt.submit("far_talk", {"words": 2}, thread="t1")
            events = [event async for event in handle.events()]
            assert [e.data["content"] for e in events if e.type == "output"] == ["0 ", "1 "]
            assert (await handle.result()).output == "done"
            here = await rt.get(handle.id)
            assert here.progress is not None
            there = await it.runtime.get(here.idempotency_key, thread="t1")
            assert (there.state, there.metadata["remote_call"]) == (State.COMPLETED, here.id)

            failed = await rt.call("far_broken")
            assert (failed.error.code, "on fire" in failed.error.message) == ("tool_error", True)  # type: ignore[union-attr]
            wrong = await rt.call("far_talk", {"words": "many"})
            assert wrong.error is not None
            assert wrong.error.code == "invalid_input"  # by the schema, here
            unknown = await rt.call("far_doubtful")
            assert unknown.error is not None
            assert unknown.error.code == "outcome_unknown"

            waits = await rt.submit("far_risky")
            key_there = (await rt.get(waits.id)).idempotency_key
            await eventually(lambda: _waits(it.runtime, key_there))
            await eventually(lambda: _noted(rt, waits.id))
            assert (await rt.get(waits.id)).state is State.RUNNING
            assert await it.runtime.approve(key_there)
            assert (await waits.result()).output == "risked"
            again = await rt.submit("far_risky")
            denied = (await rt.get(again.id)).idempotency_key
            await eventually(lambda: _waits(it.runtime, denied))
            await it.runtime.deny(denied, reason="no")
            result = await again.result()
            assert result.error is not None
            assert result.error.code == "approval_denied"


async def _waits(rt: Runtime, id: str) -> bool:
    return any(record.id == id and record.waiting_for == "approval" for record in (await rt.history()).items)


async def _noted(rt: Runtime, id: str) -> bool:
    return any(event.data.get("remote_waiting_for") == "approval" for event in (await rt.get(id)).events)


async def test_names_that_are_not_there() -> None:
    async with served(THERE) as it:
        wrong, right = RemoteTools(it.url, only=["tlak"]), RemoteTools(it.url, only=["talk"])
        with pytest.raises(UsageError, match="does not offer"):
            await wrong.tools()
        assert [each.name for each in await right.tools()] == ["talk"]
        await wrong.close()
        await right.close()
    with pytest.raises(UsageError, match="URL"):
        RemoteTools("ftp://example.org")


# Real server processes.


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    tools = "tests.scenarios.server_tools:TOOLS"
    place = Place(
        tmp_path, sqlite_url(tmp_path, "there.db"), tools, CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="1"
    )
    yield place
    place.close()


def serve(place: Place, port: int = 0) -> tuple[Command, str]:
    server = place.start("--json", "serve", "--port", str(port))
    return server, server.wait_for("ready")["url"]


async def test_cancel_kill_and_takeover_with_a_real_server(place: Place, tmp_path: Path) -> None:
    server, url = serve(place)
    store, gate = sqlite_url(tmp_path, "here.db"), tmp_path / "gate"
    source = RemoteTools(url, options={"retry_delay": 0.05})

    async with httpx2.AsyncClient(base_url=url) as api, make([], store) as rt:

        async def there(id: str) -> dict[str, Any]:
            record: dict[str, Any] = (await api.get(f"/calls/{id}", params={"thread": "default"})).json()
            return record

        async def running(id: str) -> bool:
            return (await there(id)).get("state") == "streaming"

        await source.join(rt)
        # A cancel passes through.
        first = await rt.submit("waiter", {})
        key = (await rt.get(first.id)).idempotency_key
        await eventually(lambda: running(key))
        assert await rt.cancel(first.id)
        assert (await first.result()).state is State.CANCELLED
        assert (await there(key))["state"] == "cancelled"

        # This runtime ends: the call there goes on, and the next runtime finds it again.
        second = await rt.submit("waiter", {"gate": str(gate)})
        key = (await rt.get(second.id)).idempotency_key
        await eventually(lambda: running(key))
        await rt.close(patience=0)
        assert await running(key)
        gate.touch()
        async with make(await RemoteTools(url, options={"retry_delay": 0.05}).tools(), store) as next_rt:
            result = await (await next_rt.handle(second.id)).result()
            assert result.output == "done"
            assert len((await there(key))["attempts"]) == 1

            # The server is killed in the middle: its outcome is unknown there, and so it is here.
            third = await next_rt.submit("waiter", {"gate": str(tmp_path / "never")})
            key = (await next_rt.get(third.id)).idempotency_key
            await eventually(lambda: running(key))
            server.kill()
            serve(place, int(url.rpartition(":")[2]))
            result = await third.result()
            assert result.error is not None
            assert result.error.code == "outcome_unknown"
            assert (await there(key))["error"]["code"] == "outcome_unknown"


async def test_a_server_that_is_gone_leaves_the_outcome_unknown() -> None:
    async with served(THERE) as it:
        source = RemoteTools(it.url, options={"max_retries": 0})
        tools = await source.tools()
        await source.close()
    async with make(tools) as rt:
        result = await rt.call("talk")
        assert result.error is not None
        assert result.error.code == "outcome_unknown"
        assert "under the id" in result.error.message
