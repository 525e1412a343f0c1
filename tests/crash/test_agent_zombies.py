"""A process that is stopped for longer than its lease loses its turn: nothing that it does after waking up counts."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import MESSAGE, Model, Script, asked, effects, note, thread_of, tools_at
from tests.crash.nest import Nest, say_ready
from tests.crash.on_stores import on_stores
from tests.crash.settle import Place
from tests.kit.stopping import stopped_between_writes
from tests.kit.waiting import PATIENCE, eventually

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.errors import ClicketError
from clicket.model.chat import ChatReply, ChatRequest
from clicket.model.ids import alias_of

SCRIPTS: dict[str, Script] = {
    "model": [[("pay", {"n": 1}), ("put", {"n": 2})], []],
    "tool": [[("hold", {})], [("pay", {"n": 1}), ("put", {"n": 2})], []],
}
"""Keyed by where the process is stopped."""
LEASE = 0.3


class Sleeper(Model):
    """The model of the stopped process: it replies once the file `go` exists."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        if "hold" not in [name for name, _ in self._script[0]]:
            say_ready()
            await eventually((self._folder / "go").exists)
        return await super().chat(request)


class Heir(Model):
    """The model of the process that claims the turn: it replies after the stopped process had its chance to act."""

    pid = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        if not (self._folder / "go").exists():
            (self._folder / "go").touch()
            os.kill(self.pid, signal.SIGCONT)
            await eventually(lambda: "hold" in self._woke() or "asked" in self._woke())
            for _ in range(50):  # waits for nothing: what must not happen has no event
                await asyncio.sleep(0.01)
        return await super().chat(request)

    def _woke(self) -> list[str]:
        """What the stopped process has done since it woke up."""
        ended = [one.tool for one in effects(self._folder) if one.side == "end"]
        return ended if self._script is SCRIPTS["tool"] else ["asked"] * len(asked(self._folder))


def runtime_of(place: Place) -> Runtime:
    folder = Path(place.folder)

    @tool
    async def hold(ctx: ToolContext, nonce: str = "") -> str:
        note(ctx, "begin", folder)
        say_ready()
        await eventually((folder / "go").exists)
        note(ctx, "end", folder)
        return "held"

    return Runtime([*tools_at(folder), hold], settings=place.settings())


def sleep_in(given: dict[str, Any]) -> None:
    place = msgspec.convert(given["place"], Place)
    Path(place.folder, "pid").write_text(str(os.getpid()))
    asyncio.run(_sleep_in(place, SCRIPTS[given["where"]]))


async def _sleep_in(place: Place, script: Script) -> None:
    folder = Path(place.folder)
    async with runtime_of(place) as rt:
        agent = ReActAgent(rt, Sleeper(folder, " for the sleeper", script))
        try:
            result = await agent.run(MESSAGE, thread=thread_of(place))
        except ClicketError as error:
            Path(folder, "told").write_text(repr(error))
        else:
            Path(folder, "told").write_text(result.text)


@on_stores("where", [*SCRIPTS], "tool")
async def test_a_process_that_wakes_up_too_late_does_nothing(place: Place, nest: Nest, where: str) -> None:
    place = msgspec.structs.replace(place, lease=LEASE)
    folder, thread = Path(place.folder), thread_of(place)
    given = {"place": msgspec.to_builtins(place), "where": where}
    stop = [(0.0, int(signal.SIGSTOP))]
    child = asyncio.create_task(nest.raise_child(sleep_in, given, signals=stop, ready=True))
    await eventually(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    model = Heir(folder, " for the heir", SCRIPTS[where])
    model.pid = int((folder / "pid").read_text())
    await stopped_between_writes(model.pid, place.store)
    rt = runtime_of(place)
    agent = ReActAgent(rt, model)
    async with asyncio.timeout(PATIENCE), rt:
        await eventually((folder / "go").exists)  # the turn was claimed
        result = await agent.wait(thread, 1)
        assert not (await child).code
        calls = (await rt.history(thread=thread)).items
    assert result is not None
    results = [message.content for message in result.messages if message.role == "tool"]
    assert results[-2:] == ["1 squared is 1 for the heir", "2 squared is 4 for the heir"]
    assert len(calls) == len(results) == (2 if where == "model" else 3)
    if where == "tool":
        assert results[0].startswith("outcome_unknown: ")
    begun = [(alias_of(one.call), one.tool) for one in effects(folder) if one.side == "begin" and one.tool != "hold"]
    step = 1 if where == "model" else 2
    assert sorted(begun) == [(f"react.1.{step}.1", "pay"), (f"react.1.{step}.2", "put")], "ran once, for the heir"
    assert (folder / "told").read_text() == result.text, "the sleeper gets the turn's outcome"
