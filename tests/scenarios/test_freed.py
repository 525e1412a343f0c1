"""A runtime that is over is freed with all that it held, and calls that ended leave nothing behind but their records."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path

import pytest
from tests.scenarios.kit import make, sqlite_url

from clicket import RetryableError, Runtime, Settings, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.engine.journal import Entry
from clicket.engine.live_call import Attempt, Call
from clicket.model.chat import ChatReply, ToolUse
from clicket.ports import Append, Done
from clicket.stores.memory import MemoryStore
from clicket.testing import ScriptedModel


@tool
async def plain(x: int = 0) -> int:
    return x


@tool(max_retries=1, retry_delay=0.0)
async def retried(ctx: ToolContext) -> str:
    if ctx.attempt == 1:
        raise RetryableError("again")
    return "ok"


@tool(max_retries=0)
async def failing() -> str:
    raise ValueError("no")


@tool(timeout=0.01, max_retries=0)
async def slow() -> None:
    await asyncio.Event().wait()


@tool
async def waiting() -> None:
    await asyncio.Event().wait()


@tool(max_concurrency=1, cache=60)
async def shared(x: int = 0) -> int:
    return x


TOOLS = [plain, retried, failing, slow, waiting, shared]


async def use(rt: Runtime, thread: str) -> None:
    """Calls that end in every way, and a turn of an agent."""
    for name in ("plain", "retried", "failing", "slow", "shared", "shared"):
        await rt.call(name)
    await (await rt.submit("waiting")).cancel("not needed")
    left = asyncio.create_task(rt.call("waiting"))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    use = ToolUse(id="one", name="plain", arguments='{"x": 1}')
    await ReActAgent(rt, ScriptedModel([ChatReply(uses=(use,)), "done"])).run("go", thread=thread)


def alive() -> Counter[str]:
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in (Call, Entry, Attempt, Append))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_closed_runtime_is_freed(kind: str, tmp_path: Path) -> None:
    url = "memory://" if kind == "memory" else sqlite_url(tmp_path)
    async with make(TOOLS, url, close_timeout=0.0) as rt:
        engine = weakref.ref(rt.engine)
        await use(rt, "t")
        await rt.submit("waiting")
    del rt
    gc.collect()
    assert engine() is None


async def test_calls_that_ended_are_freed(tmp_path: Path) -> None:
    """Also in a runtime that goes on."""
    async with make(TOOLS, sqlite_url(tmp_path)) as rt:
        await use(rt, "first")
        before = alive()
        for number in range(5):
            await use(rt, f"t{number}")
        assert alive() - before == Counter()


class _Silent(MemoryStore):
    """It never answers an append."""

    def append(self, change: Append, done: Done) -> None:
        self.change = change


def test_a_runtime_whose_loop_ended_while_a_call_was_written_is_freed() -> None:
    """The call and its append refer to each other. Nothing of the runtime is closed."""

    async def abandon() -> weakref.ref[object]:
        rt = Runtime([plain], store=_Silent(), settings=Settings(cancel_grace=0.01))
        await rt.__aenter__()
        call = asyncio.create_task(rt.call("plain"))
        await asyncio.sleep(0)
        assert not call.done()
        return weakref.ref(rt.engine)

    engine = asyncio.run(abandon())
    gc.collect()
    assert engine() is None
