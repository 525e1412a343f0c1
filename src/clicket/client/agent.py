"""An agent of a server, with the methods of `clicket.agents.Agent`.

A turn has its number, or an id of its caller, before it is sent. So a request whose response was lost can be sent again, and there is
still one turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from clicket.agents import AgentEvent, AgentResult, AgentState, Fork, Limits, Message, Page, Sent, ThreadView
from clicket.agents.again import Effects
from clicket.agents.mailbox import QueuedMessage, When
from clicket.agents.origin import fork_name
from clicket.agents.output import Output
from clicket.agents.run_options import taken
from clicket.agents.threads import result_of
from clicket.agents.turn_limits import Stopped
from clicket.client.connection import (
    Connection,
    ProblemResponse,
    Reconnection,
    ServerUnavailable,
    decoded,
    decoded_field,
    path_segment,
)
from clicket.client.files import message_body
from clicket.errors import ClicketError, Conflict, NotFound, UsageError
from clicket.model.chat import ChatMessage
from clicket.model.ids import new_id

__all__ = ["AgentInfo", "RemoteAgent", "agents_at"]

_WAIT = 20.0
"""Seconds that one request waits for the end of a turn. Then the client sends another with the same number."""
_TRIES = 8
_PAGE = 200
_LAST_EVENTS = ("final", "error")
M = TypeVar("M")


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of the server. `default`: requests that name no agent go to this one."""

    name: str
    kind: str
    default: bool
    limits: Limits


class _EndedTurn(AgentResult, frozen=True, kw_only=True):
    error: str = ""
    stopped: Stopped | None  # type: ignore[assignment]  # a turn that failed was not stopped


class _Begun(msgspec.Struct):
    turn: int


class _StreamEvent(msgspec.Struct):
    """An event of an agent has a type; one without says why the stream ends."""

    type: str = ""
    detail: str = ""


async def agents_at(connection: Connection) -> list[AgentInfo]:
    return await connection.read_field("GET", "/agents", "items", list[AgentInfo])


class TurnOptions(TypedDict, total=False):
    """Of one turn. `tools`: narrows what the agent may use. `limits`: as in `Limits`, in place of higher ones of the agent, such as
    `{"max_steps": 3}`. `metadata`: JSON for its middleware."""

    tools: Sequence[str]
    limits: Mapping[str, float]
    metadata: Mapping[str, Any]


def _taken(output: Any, options: TurnOptions) -> tuple[Output[Any] | None, dict[str, Any]]:
    """The type of the answer, and the options as a part of the request."""
    own = {name: value for name, value in options.items() if name != "limits"}
    given, values = taken(own, output)
    limits = options.get("limits")
    if not isinstance(limits, Mapping | None):
        raise UsageError(f"limits are numbers by name, such as limits={{'max_steps': 3}}, not {limits!r:.100}.")
    body = {
        "output": given.output or None, "tools": given.tools, "metadata": given.metadata or None, "limits": limits and dict(limits),
    }  # fmt: skip
    return values.output, {name: value for name, value in body.items() if value is not None}


class RemoteAgent:
    """`agent = client.agent("helper")`; without a name the server's default."""

    def __init__(self, connection: Connection, name: str | None) -> None:
        self.name: str | None = name
        self._connection = connection
        self._query = {"agent": name}

    # Running.

    async def run(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> AgentResult:
        """Run one turn and wait for its end. A turn that failed raises its error. Cancelling the wait does not stop the turn. `turn` and
        `id` as in `Agent.run`. Files of the message are uploaded."""
        kind, more = _taken(output, options)
        said = await message_body(self._connection, message)
        is_named = turn is not None or id is not None
        while True:
            number = turn if is_named else await self._next(thread)
            try:
                ended = await self._ended(said, thread, number, id, more)
            except Conflict:  # another message took this number
                if is_named:
                    raise
                continue
            if ended.state is AgentState.ERROR:
                raise ClicketError(f"turn {ended.turn} of thread {thread!r} failed: {ended.error}")
            same = {name: getattr(ended, name) for name in AgentResult.__struct_fields__}
            if kind is not None and ended.stopped == "finished":
                same["value"] = kind.typed(ended.value)
            return AgentResult(**same)

    async def _ended(
        self, message: str | list[Any], thread: str, turn: int | None, id: str | None, more: dict[str, Any]
    ) -> _EndedTurn:
        while True:
            answer = await self._post(message, thread, turn=turn, id=id, wait=_WAIT, **more)
            if answer.status_code == 200:
                return decoded(answer.content, _EndedTurn)
            turn = decoded_field(answer.content, "turn", int)

    async def begin(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> int:
        """Start a turn, and return its number as soon as it is durable in the server's store; `turn` and `id` as in `Agent.run`."""
        _, more = _taken(output, options)
        said = await message_body(self._connection, message)
        is_named = turn is not None or id is not None
        while True:
            number = turn if is_named else await self._next(thread)
            try:
                answer = await self._post(said, thread, turn=number, id=id, wait=0, **more)
            except Conflict:
                if is_named:
                    raise
                continue
            return decoded_field(answer.content, "turn", int)

    async def stream(
        self,
        message: Message,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> AsyncIterator[AgentEvent]:
        """Run one turn and give its events; the last is `final` or `error`. A stream that breaks is opened again after the last event.
        `turn` and `id` as in `Agent.run`."""
        _, more = _taken(output, options)
        is_named = turn is not None or id is not None
        after = ""
        reconnection = Reconnection()
        said = await message_body(self._connection, message)
        turn = turn if is_named else await self._next(thread)
        while True:
            source = self._read(thread, after, follow=True) if after else self._send(said, thread, turn, id, more)
            try:
                async with aclosing(source) as events:
                    async for event in events:
                        turn, after = event.turn, event.id or after
                        reconnection.reset()
                        yield event
                        if event.type in _LAST_EVENTS:
                            return
                return
            except Conflict:  # another message took this number
                if is_named:
                    raise
                turn = await self._next(thread)
            except ServerUnavailable as error:
                reconnection.failed(error)
            await reconnection.wait()

    async def send(
        self,
        message: Message,
        *,
        thread: str = "default",
        when: When = "next",
        id: str | None = None,
        output: Any = None,
        **options: Unpack[TurnOptions],
    ) -> Sent:
        """Store a message for a thread; it is read exactly once. As `Agent.send`."""
        _, more = _taken(output, options)
        answer = await self._post(
            await message_body(self._connection, message), thread, id=id or new_id(), when=when, **more
        )
        return decoded(answer.content, Sent)

    async def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way. False: there is none."""
        path = f"{self._path(thread)}/stop"
        body = {"reason": reason}
        return await self._connection.read_field("POST", path, "stopped", bool, query=self._query, body=body)

    async def queued(self, thread: str = "default") -> list[QueuedMessage]:
        """The messages of a thread that wait for a turn, in their order. As `Agent.queued`."""
        return await self._connection.read_field(
            "GET", f"{self._path(thread)}/queue", "items", list[QueuedMessage], query=self._query
        )

    async def unsend(self, id: str, thread: str = "default") -> bool:
        """Take a message back. False: a turn has taken it, or there is none."""
        path = f"{self._path(thread)}/messages/{path_segment(id)}"
        return await self._connection.read_field("DELETE", path, "removed", bool, query=self._query)

    # Forks.

    async def fork(
        self, thread: str = "default", *, after: int | None = None, step: int | None = None, to: str | None = None
    ) -> ThreadView:
        """A new thread with the turns of this one up to a number, or a step. As `Agent.fork`."""
        name = fork_name(thread) if to is None else to  # sent again it is the same fork
        return await self._made(thread, "fork", ThreadView, after=after, step=step, to=name)

    async def forks(self, thread: str = "default") -> list[Fork]:
        """The forks of a thread, the oldest first, each with its own forks."""
        return await self._connection.read_field(
            "GET", f"{self._path(thread)}/forks", "items", list[Fork], query=self._query
        )

    async def rerun(
        self,
        thread: str = "default",
        *,
        turn: int,
        system: str | None = None,
        effects: Effects = "recorded",
        to: str | None = None,
    ) -> AgentResult:
        """Run a turn again, in a fork of the thread before it; `r.thread` is the fork. As `Agent.rerun`, without its `model`."""
        name = fork_name(thread) if to is None else to
        await self._made(thread, "rerun", _Begun, turn=turn, system=system, effects=effects, to=name)
        return await self._end_of(name, turn)

    async def resume(self, thread: str = "default") -> AgentResult | None:
        """Continue a turn that a fork has up to a step, or that a crash interrupted; None: there is none."""
        view = await self.look(thread)
        if not view.waiting_for and view.state is not AgentState.RUNNING:
            return None
        if "resume" in view.waiting_for:
            await self._connection.read_field("POST", f"{self._path(thread)}/resume", "turn", int, query=self._query)
        return await self._end_of(thread, view.turns + 1)

    async def _made(self, thread: str, what: str, kind: type[M], **body: Any) -> M:
        given = {name: value for name, value in {"agent": self.name, **body}.items() if value is not None}
        try:
            answer = await self._connection.post_until_answered(f"{self._path(thread)}/{what}", given, tries=_TRIES)
        except ProblemResponse as refused:
            raise refused.problem.error() from None
        return decoded(answer.content, kind)

    async def _end_of(self, thread: str, turn: int) -> AgentResult:
        async with aclosing(self._follow(thread, f"{turn}-0.0", follow=True)) as events:
            async for event in events:
                if event.turn == turn and event.type in _LAST_EVENTS:
                    break
        found = (await self.history(thread, after=turn - 1, limit=1)).turns
        if not found or found[0].turn != turn:
            raise NotFound(f"turn {turn} of thread {thread!r} is not kept any more.")
        ended = found[0]
        if ended.state is AgentState.ERROR:
            raise ClicketError(f"turn {turn} of thread {thread!r} failed: {ended.error}")
        messages = await self.messages(thread)
        return result_of(ended, self.name or "", thread, messages)

    # Looking.

    async def state(self, thread: str = "default") -> AgentState:
        return (await self.look(thread)).state

    async def look(self, thread: str = "default") -> ThreadView:
        """A thread as the server's store has it."""
        return await self._connection.get(self._path(thread), ThreadView, query=self._query)

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
        return await self._connection.get(f"{self._path(thread)}/messages", Page, query=query)

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> AsyncIterator[AgentEvent]:
        """What happened in a thread after the event with the id `after` (without one: in its last turn), then live.

        Ends with the turn under way, or at once; with `follow` it goes on with the turns to come.
        """
        return self._follow(thread, after, follow=follow)

    # On the connection.

    def _path(self, thread: str) -> str:
        return f"/agents/{path_segment(thread)}"

    async def _next(self, thread: str) -> int | None:
        """The number of the next turn. None while a turn is under way: the next number is not known then."""
        view = await self.look(thread)
        return None if view.state is AgentState.RUNNING else view.turns + 1

    async def _post(self, message: str | list[Any], thread: str, **more: Any) -> Any:
        """Send a message until the server answers. The number makes it the same turn, however often it is sent."""
        path = f"{self._path(thread)}/messages"
        body = self._body(message, **more)
        try:
            return await self._connection.post_until_answered(path, body, tries=_TRIES)
        except ProblemResponse as refused:
            raise refused.problem.error() from None

    def _body(self, message: str | list[Any], **more: Any) -> dict[str, Any]:
        body = {"message": message, "agent": self.name, **more}
        return {name: value for name, value in body.items() if value is not None}

    async def _follow(self, thread: str, after: str, *, follow: bool) -> AsyncGenerator[AgentEvent, None]:
        reconnection = Reconnection()
        while True:
            try:
                async with aclosing(self._read(thread, after, follow=follow)) as events:
                    async for event in events:
                        after = event.id or after
                        reconnection.reset()
                        yield event
                return
            except ServerUnavailable as error:
                reconnection.failed(error)
            await reconnection.wait()

    def _read(self, thread: str, after: str, *, follow: bool) -> AsyncGenerator[AgentEvent, None]:
        query = {**self._query, "follow": follow}
        return self._events(f"{self._path(thread)}/events", query=query, last_id=after or None)

    def _send(
        self, message: str | list[Any], thread: str, turn: int | None, id: str | None, more: dict[str, Any]
    ) -> AsyncGenerator[AgentEvent, None]:
        body = self._body(message, turn=turn, id=id, stream=True, **more)
        return self._events(f"{self._path(thread)}/messages", body=body)

    async def _events(self, path: str, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        async with self._connection.events(path, **options) as events:
            async for event in events:
                read = decoded(event.data, _StreamEvent)
                if not read.type:
                    raise ServerUnavailable(read.detail or "the server is shutting down.")
                yield decoded(event.data, AgentEvent)
