"""An agent of a server; the same names as `clicket.agents.Agent`. A turn has its number before it is sent, so one whose answer was
lost is asked for again without a second turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from clicket.agents import AgentEvent, AgentResult, AgentState, Limits, Page, ThreadView
from clicket.agents.turn_limits import Stopped
from clicket.client.handle import messages as data_of
from clicket.client.wire import Failed, ServerUnavailable, Wire, decoded, part
from clicket.errors import ClicketError, Conflict
from clicket.model.chat import ChatMessage

__all__ = ["AgentInfo", "RemoteAgent", "agents_at"]

_WAIT = 20.0
"""Seconds that one request waits for the end of a turn; then it is asked for again, under the same number."""
_TRIES = 8
_AGAIN_FIRST = 0.05
_AGAIN_MOST = 2.0
_PAGE = 200
_LAST_WORDS = ("final", "error")


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be talked to; `default` is meant where none is named."""

    name: str
    kind: str
    default: bool
    limits: Limits


class _AgentList(msgspec.Struct):
    agents: list[AgentInfo]


class _Begun(msgspec.Struct):
    turn: int


class _Ended(AgentResult, frozen=True, kw_only=True):
    error: str = ""
    stopped: Stopped | None  # type: ignore[assignment]  # a turn that failed was not stopped


class _Stopped(msgspec.Struct):
    stopped: bool


class _Word(msgspec.Struct):
    """What a stream says of itself is no event of an agent."""

    type: str = ""
    detail: str = ""


async def agents_at(wire: Wire) -> list[AgentInfo]:
    return (await wire.get("/agents", _AgentList)).agents


class RemoteAgent:
    """`agent = client.agent("helper")`; without a name the server's default."""

    def __init__(self, wire: Wire, name: str | None) -> None:
        self.name: str | None = name
        self._wire = wire
        self._query = {"agent": name}

    # Running.

    async def run(self, message: str, *, thread: str = "default") -> AgentResult:
        """One turn to its end; the error of one that failed is raised. Who stops waiting does not stop it: `stop` does."""
        while True:
            turn = await self._next(thread)
            try:
                ended = await self._ended(message, thread, turn)
            except Conflict:  # somebody else spoke first
                continue
            if ended.state is AgentState.ERROR:
                raise ClicketError(f"turn {ended.turn} of thread {thread!r} failed: {ended.error}")
            same = {name: getattr(ended, name) for name in AgentResult.__struct_fields__}
            return AgentResult(**same)

    async def _ended(self, message: str, thread: str, turn: int | None) -> _Ended:
        while True:
            answer = await self._post(message, thread, turn=turn, wait=_WAIT)
            if answer.status_code == 200:
                return decoded(answer.content, _Ended)
            turn = decoded(answer.content, _Begun).turn

    async def begin(self, message: str, *, thread: str = "default", turn: int | None = None) -> int:
        """Start a turn, and return its number as soon as it is durable there; `turn` as in `Agent.begin`."""
        while True:
            number = await self._next(thread) if turn is None else turn
            try:
                answer = await self._post(message, thread, turn=number, wait=0)
            except Conflict:
                if turn is not None:
                    raise
                continue
            return decoded(answer.content, _Begun).turn

    async def stream(self, message: str, *, thread: str = "default") -> AsyncIterator[AgentEvent]:
        """One turn, told as it happens; the last event is `final` or `error`. A stream that breaks is taken up where it broke."""
        turn, after, failures, delay = await self._next(thread), "", 0, _AGAIN_FIRST
        while True:
            source = self._read(thread, after, follow=True) if after else self._said(message, thread, turn)
            try:
                async with aclosing(source) as events:
                    async for event in events:
                        turn, after, failures, delay = event.turn, event.id or after, 0, _AGAIN_FIRST
                        yield event
                        if event.type in _LAST_WORDS:
                            return
                return
            except Conflict:  # somebody else spoke first
                turn = await self._next(thread)
            except ServerUnavailable:
                failures += 1
                if failures >= _TRIES:
                    raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, _AGAIN_MOST)

    async def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way. False: there is none."""
        path = f"{self._path(thread)}/stop"
        return (await self._wire.read("POST", path, _Stopped, query=self._query, body={"reason": reason})).stopped

    # Looking.

    async def state(self, thread: str = "default") -> AgentState:
        return (await self.look(thread)).state

    async def look(self, thread: str = "default") -> ThreadView:
        """A thread as the server's store has it."""
        return await self._wire.get(self._path(thread), ThreadView, query=self._query)

    async def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of all turns that are over."""
        found: list[ChatMessage] = []
        after: int | None = 0
        while after is not None:
            page = await self.history(thread, after=after, limit=_PAGE)
            found += [message for turn in page.turns for message in turn.messages]
            after = page.after
        return found

    async def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that are over, the oldest first; `after` of one page fetches the next."""
        query = {**self._query, "after": after, "limit": limit}
        return await self._wire.get(f"{self._path(thread)}/messages", Page, query=query)

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> AsyncIterator[AgentEvent]:
        """What happened in a thread after the event with the id `after` (without one: in its last turn), then live.

        Ends with the turn under way, or at once; with `follow` it goes on with the turns to come.
        """
        return self._follow(thread, after, follow=follow)

    # On the wire.

    def _path(self, thread: str) -> str:
        return f"/agents/{part(thread)}"

    async def _next(self, thread: str) -> int | None:
        """The number of the turn that comes next; None while there is one under way, which would only be ours by mistake."""
        view = await self.look(thread)
        return None if view.state is AgentState.RUNNING else view.turns + 1

    async def _post(self, message: str, thread: str, **more: Any) -> Any:
        """Say something until there is an answer: the same number makes it the same turn, however often it is sent."""
        body, delay = self._body(message, **more), _AGAIN_FIRST
        for left in reversed(range(_TRIES)):
            try:
                return await self._wire.ask("POST", f"{self._path(thread)}/messages", body=body)
            except Failed as failed:
                error = failed.problem.error()
                if not left or not isinstance(error, ServerUnavailable):
                    raise error from None
            except ServerUnavailable:
                if not left:
                    raise
            await asyncio.sleep(delay)
            delay *= 2
        raise AssertionError("unreachable")

    def _body(self, message: str, **more: Any) -> dict[str, Any]:
        body = {"message": message, "agent": self.name, **more}
        return {name: value for name, value in body.items() if value is not None}

    async def _follow(self, thread: str, after: str, *, follow: bool) -> AsyncIterator[AgentEvent]:
        """Told again, then live. A few breaks in a row without news are too many."""
        failures, delay = 0, _AGAIN_FIRST
        while True:
            try:
                async with aclosing(self._read(thread, after, follow=follow)) as events:
                    async for event in events:
                        after, failures, delay = event.id or after, 0, _AGAIN_FIRST
                        yield event
                return
            except ServerUnavailable:
                failures += 1
                if failures >= _TRIES:
                    raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, _AGAIN_MOST)

    async def _read(self, thread: str, after: str, *, follow: bool) -> AsyncGenerator[AgentEvent, None]:
        headers = {"accept": "text/event-stream", **({"last-event-id": after} if after else {})}
        query = {**self._query, "follow": follow}
        async with self._wire.lines(f"{self._path(thread)}/events", query=query, headers=headers) as lines:
            async for event in _events(lines):
                yield event

    async def _said(self, message: str, thread: str, turn: int | None) -> AsyncGenerator[AgentEvent, None]:
        path, headers = f"{self._path(thread)}/messages", {"accept": "text/event-stream"}
        body = self._body(message, turn=turn, stream=True)
        async with self._wire.lines(path, query={}, headers=headers, body=body) as lines:
            async for event in _events(lines):
                yield event


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[AgentEvent]:
    async for data in data_of(lines):
        word = decoded(data.encode(), _Word)
        if not word.type:
            raise ServerUnavailable(word.detail or "the server is shutting down.")
        yield decoded(data.encode(), AgentEvent)
