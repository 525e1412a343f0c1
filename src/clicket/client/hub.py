"""The hub of a thread on a server; the same names as `rt.hub(thread)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from clicket.client.connection import Connection, ProblemResponse, decoded_field, path_segment
from clicket.engine.hub import Change, ToolState, ToolView
from clicket.engine.hub.prompt import prompt_of, summary_of
from clicket.errors import ToolNotFound, did_you_mean
from clicket.kernel import ToolStatus
from clicket.runtime.views.tools import ToolInfo

__all__ = ["ThreadHub", "ToolList"]

_POLL_EVERY = 0.5


class ToolList(msgspec.Struct):
    items: list[ToolInfo]
    standings: list[ToolView] | None = None


class ThreadHub:
    def __init__(self, connection: Connection, thread: str) -> None:
        self.thread: str = thread
        self._connection = connection
        self._path = f"/agents/{path_segment(thread)}/tool-states"

    async def _list(self) -> ToolList:
        return await self._connection.get("/tools", ToolList, query={"thread": self.thread})

    async def tools(self) -> list[ToolView]:
        """Every registered tool: is it available, if not why, and which tools to call first."""
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
        return prompt_of(listed.standings or [], {tool.name: tool.description for tool in listed.items})

    async def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Set a tool's status as an operator. The key's name is recorded; `by` is not sent."""
        await self._connection.send(
            "PUT", f"{self._path}/{path_segment(name)}", body={"status": str(status), "reason": reason}
        )
        return await self.status(name)

    async def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all, available again; returns the names of those that were not, or had failures."""
        before = await self.states()
        await self._connection.send("POST", f"{self._path}/reset", body={} if name is None else {"toolName": name})
        names = before if name is None else [name]
        return [each for each in names if before[each].status != "available" or before[each].consecutive_failures]

    async def report(self, name: str, *, ok: bool, error: str = "") -> ToolState:
        """Report how a run of a tool ended that clicket did not make; as in `clicket.hub.ThreadHub.report`."""
        body = {"ok": ok, "error": error}
        await self._connection.send("POST", f"{self._path}/{path_segment(name)}/report", body=body)
        return await self.status(name)

    async def snapshot(self) -> str:
        return (await self._connection.send("GET", f"{self._path}/snapshot")).decode()

    async def restore(self, text: str | bytes, *, by: str = "") -> bool:
        """Replace the states with a snapshot. False: it cannot be read, and nothing was changed."""
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        headers = {"content-type": "application/json"}
        try:
            answer = await self._connection.request("POST", f"{self._path}/restore", raw=raw, headers=headers)
        except ProblemResponse as refused:
            if refused.problem.status in (400, 422):  # not a JSON object
                return False
            raise refused.problem.error() from None
        return decoded_field(answer.content, "restored", bool)

    async def watch(self) -> AsyncIterator[Change]:
        """Changes of status from now on; the server is polled twice a second."""
        known = await self.states()
        while True:
            await asyncio.sleep(_POLL_EVERY)
            states = await self.states()
            for name, state in states.items():
                before = known.get(name, state)
                if before.status is not state.status:
                    yield Change(
                        thread=self.thread,
                        tool=name,
                        before=before.status,
                        after=state.status,
                        reason=state.reason,
                        at=state.last_updated,
                    )
            known = states
