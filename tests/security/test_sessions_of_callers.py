"""The state of a thread belongs to its caller: another key that uses the same thread name does not find it."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import NativeTool, ToolContext, tool
from clicket.ports import Keep

NO_ARGUMENTS = {"type": "object", "properties": {}}
gates: dict[str, asyncio.Event] = {}


@pytest.fixture
def store() -> str:
    return "memory://"


class Counter(NativeTool):
    """Counts its calls."""

    input_schema = NO_ARGUMENTS

    def __init__(self) -> None:
        self.count = 0

    async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> list[Any]:
        self.count += 1
        return [ctx.caller, self.count]


class Slow(NativeTool):
    """Waits until the test releases it."""

    input_schema = NO_ARGUMENTS

    async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
        await gates[ctx.caller].wait()
        return ctx.caller


@tool
async def keep(text: str, ctx: ToolContext) -> str:
    """Keep a text as a file."""
    return await ctx.put_artifact(text.encode())


@tool
async def look(name: str, ctx: ToolContext) -> str:
    """Read a file."""
    return (await ctx.artifact(name)).decode()


@tool
def look_in_thread(name: str, ctx: ToolContext) -> str:
    """Read a file, from a thread."""
    return asyncio.run(ctx.artifact(name)).decode()


@tool(isolation="process")
async def keep_apart(ctx: ToolContext) -> str:
    """Try to keep a file, from a child process."""
    return await ctx.put_artifact(b"x")


async def test_two_keys_with_one_thread_name_have_a_session_each() -> None:
    async with served([Counter]) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read")
        answers = [
            (await it.call("counter", {}, thread="t", headers=key)).json()["output"] for key in (ann, bob, ann, bob)
        ]
        assert [count for _, count in answers] == [1, 1, 2, 2]
        (counter,) = it.runtime.registry
        callers = sorted({caller for caller, _ in answers})
        assert sorted(counter.sessions) == [(caller, "t") for caller in callers]
        assert (await it.runtime.call("counter", {}, thread="t")).output == ["", 1]
        assert counter.sessions["t"].caller == ""


async def test_callers_with_one_thread_name_do_not_wait_for_each_other() -> None:
    gates.update({name: asyncio.Event() for name in ("ann", "bob")})
    async with make([Slow], max_thread_concurrency=1) as rt:
        slow = await rt.acting_for("ann").submit("slow", thread="t")
        gates["bob"].set()
        assert (await rt.acting_for("bob").call("slow", thread="t", deadline=20)).output == "bob"
        gates["ann"].set()
        assert (await slow.result()).output == "ann"


async def test_a_busy_session_of_one_caller_does_not_keep_that_of_another() -> None:
    gates.update({name: asyncio.Event() for name in ("ann", "bob")})
    async with make([Slow]) as rt:
        (slow,) = rt.registry
        gates["bob"].set()
        await rt.acting_for("bob").call("slow", thread="t")
        running = await rt.acting_for("ann").submit("slow", thread="t")
        await eventually(lambda: len(slow.sessions) == 2)
        slow.idle_after = -1.0
        assert await slow.sweep({("ann", "t")}) == 1
        assert list(slow.sessions) == [("ann", "t")]
        gates["ann"].set()
        await running.result()


async def test_what_a_tool_kept_is_read_by_its_caller_alone() -> None:
    async with served([keep, look, look_in_thread]) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read")
        boss = await key_for(it, "boss", "admin")
        name = (await it.call("keep", {"text": "mine"}, headers=ann)).json()["output"]
        assert (await it.get(f"/artifacts/{name}", headers=ann)).text == "mine"
        assert (await it.get(f"/artifacts/{name}", headers=boss)).text == "mine"
        assert (await it.get(f"/artifacts/{name}", headers=bob)).status_code == 404
        for reader in ("look", "look_in_thread"):
            assert (await it.call(reader, {"name": name}, headers=ann)).json()["output"] == "mine"
            refused = (await it.call(reader, {"name": name}, headers=bob)).json()["error"]
            assert refused["code"] == "tool_error"
            assert "no artifact" in refused["message"]
        assert (await it.runtime.call("look", {"name": name})).output == "mine", "the program itself reads all"
        sent = (await it.post("/artifacts", content=b"his", headers=bob)).json()["id"]
        assert (await it.call("look", {"name": sent}, headers=bob)).json()["output"] == "his"
        assert (await it.call("look", {"name": sent}, headers=ann)).json()["error"]["code"] == "tool_error"
        # A caller that stores the same bytes may read them, too.
        assert (await it.call("keep", {"text": "mine"}, headers=bob)).json()["output"] == name
        assert (await it.get(f"/artifacts/{name}", headers=bob)).text == "mine"


async def test_callers_in_the_same_process_are_distinguished_as_well() -> None:
    async with make([keep, look]) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        name = await ann.put_artifact(b"hers")
        assert (await ann.call("look", {"name": name})).output == "hers"
        assert (await bob.call("look", {"name": name})).error.code == "tool_error"  # type: ignore[union-attr]


async def test_what_a_call_kept_goes_with_it(store: str) -> None:
    async with make([keep, look], store) as rt:
        name = (await rt.call("keep", {"text": "mine"})).output
        assert (await rt.call("keep", {"text": "mine"}, thread="other")).output == name
        await rt.store.sweep(Keep(calls=1), 10)
        assert (await rt.call("look", {"name": name}, thread="other")).output == "mine", "one call still names it"
        await rt.store.sweep(Keep(calls=0), 10)
        assert not (await rt.call("look", {"name": name})).success


async def test_a_tool_in_a_child_process_gets_a_clear_error_for_store_access() -> None:
    async with make([keep_apart]) as rt:
        refused = await rt.call("keep_apart")
        assert refused.error is not None
        assert "isolation='thread'" in refused.error.message


async def test_a_running_call_names_what_it_kept_at_once_and_its_size_counts_once(tmp_path: Path) -> None:
    gate, names = asyncio.Event(), []

    @tool
    async def keep_and_wait(ctx: ToolContext) -> str:
        names.append(await ctx.put_artifact([b"x" * 50_000, b"y" * 50_000]))
        ctx.emit("one")
        await ctx.drain()
        ctx.emit("two")
        await gate.wait()
        return "done"

    async with make([keep_and_wait], sqlite_url(tmp_path)) as rt:
        running = await rt.submit("keep_and_wait")
        await eventually(lambda: names)
        async with aclosing(running.events()) as events:
            async for event in events:
                if event.data.get("content") == "two":
                    break
        for path in tmp_path.glob("*.artifacts/??/*"):
            os.utime(path, (time.time() - 7200,) * 2)
        await rt.store.sweep(Keep(), 10)
        assert len(await rt.artifact(names[0])) == 100_000
        gate.set()
        await running.result()
        swept = await rt.store.sweep(Keep(calls=0), 10, dry=True)
        assert 100_000 < swept.bytes < 110_000
