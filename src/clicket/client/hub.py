"""The hub of a thread on a server; the same names as `rt.hub(thread)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from clicket.client.wire import Failed, Wire, decoded, part
from clicket.errors import ToolNotFound, did_you_mean
from clicket.hub import Change, ToolState, ToolView
from clicket.hub.prompt import prompt_of, summary_of
from clicket.kernel import ToolStatus
from clicket.tool_info import ToolInfo

__all__ = ["ThreadHub", "ToolList"]

_LOOK_EVERY = 0.5


class ToolList(msgspec.Struct):
    tools: list[ToolInfo]
    standings: list[ToolView] | None = None


class _Restored(msgspec.Struct):
    restored: bool


class ThreadHub:
    def __init__(self, wire: Wire, thread: str) -> None:
        self.thread: str = thread
        self._wire = wire
        self._path = f"/agents/{part(thread)}/tool-states"

    async def _list(self) -> ToolList:
        return await self._wire.get("/tools", ToolList, query={"thread": self.thread})

    async def tools(self) -> list[ToolView]:
        """Every tool: offered or not, why, and what to call first."""
        return (await self._list()).standings or []

    async def available(self) -> list[str]:
        return [view.name for view in await self.tools() if view.available]

    async def states(self) -> dict[str, ToolState]:
        return {view.name: view.state for view in await self.tools()}

    async def status(self, name: str) -> ToolState:
        states = await self.states()
        if name not in states:
            raise ToolNotFound(f"there is no tool {name!r}.{did_you_mean(name, states)}")
        return states[name]

    async def summary(self) -> str:
        return summary_of(await self.tools())

    async def prompt(self) -> str:
        listed = await self._list()
        return prompt_of(listed.standings or [], {tool.name: tool.description for tool in listed.tools})

    async def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Put a tool into a status by hand. Who did it is who the key belongs to; `by` is not sent."""
        await self._wire.send("PUT", f"{self._path}/{part(name)}", body={"status": str(status), "reason": reason})
        return await self.status(name)

    async def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all, available again; returns the names of those that were not, or had failures."""
        before = await self.states()
        await self._wire.send("POST", f"{self._path}/reset", body={} if name is None else {"toolName": name})
        names = before if name is None else [name]
        return [each for each in names if before[each].status != "available" or before[each].consecutive_failures]

    async def snapshot(self) -> str:
        return (await self._wire.send("GET", f"{self._path}/snapshot")).decode()

    async def restore(self, text: str | bytes, *, by: str = "") -> bool:
        """Put a snapshot in place of what is on record. One that does not load leaves everything as it is."""
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        headers = {"content-type": "application/json"}
        try:
            answer = await self._wire.ask("POST", f"{self._path}/restore", raw=raw, headers=headers)
        except Failed as failed:
            if failed.problem.status in (400, 422):  # it is no JSON object
                return False
            raise failed.problem.error() from None
        return decoded(answer.content, _Restored).restored

    async def watch(self) -> AsyncIterator[Change]:
        """Changes of status from now on, looked for twice a second."""
        known = await self.states()
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            states = await self.states()
            for name, state in states.items():
                before = known.get(name, state)
                if before.status is not state.status:
                    yield Change(
                        thread=self.thread, tool=name, before=before.status, after=state.status,
                        reason=state.reason, at=state.last_updated,
                    )  # fmt: skip
            known = states
