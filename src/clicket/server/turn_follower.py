"""Follows one turn of an agent for a client of another protocol: its events, those of the agents that it calls, and the moments at
which it can go on only after a person or the client's own program has acted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from clicket.agents import Agent, AgentEvent, AgentState
from clicket.agents.event_feed import FeedReader
from clicket.agents.subagents import AgentTool
from clicket.agents.task_threads import thread_of_task
from clicket.errors import ClicketError, NotFound
from clicket.model import Record
from clicket.model.ids import is_use_of
from clicket.model.names import FRONTEND
from clicket.runtime.runtime import Runtime
from clicket.server.waits import Wait, wait_number

__all__ = ["Blocked", "Followed", "SubTask", "TurnFollower", "WaitingCall", "waiting_now"]

_LAST = ("final", "error")
_LOOK_AFTER = (0.05, 0.2, 0.5, 1.0)
"""Seconds of silence after which the turn's calls are looked at; the last one again and again."""
_MAX_PENDING = 256
_LATE_EVENTS = 5.0
"""Seconds in which the last events of a called agent may come after the result of its call."""
_NO_EVENTS = 0.5
_WAITS = frozenset({"approval", "credential", "external"})


class SubTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an agent by the agent above it. `id` is the id of the call, `use_id` the calling model's id for it."""

    id: str
    agent: str
    thread: str
    use_id: str
    parent: SubTask | None = None


class Followed(msgspec.Struct, frozen=True):
    """An event of the turn, or of a called agent's."""

    event: AgentEvent
    task: SubTask | None


class WaitingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person or the client's program. `use_id`: the model's id for it; empty: no model asked for it."""

    record: Record
    use_id: str
    task: SubTask | None

    @property
    def wait(self) -> Wait:
        return self.record.id, wait_number(self.record)


class Blocked(msgspec.Struct, frozen=True):
    """Every open call of the turn waits. The turn goes on when one of them is decided."""

    waiting: tuple[WaitingCall, ...]


class TurnFollower:
    """`runtime` acts for the caller whose turn it is; `agent` does, too. `reported`: waits of calls that are known already. `reader`:
    of `agent.listening`, entered before the turn began."""

    def __init__(
        self,
        agent: Agent,
        runtime: Runtime,
        thread: str,
        turn: int,
        *,
        reported: frozenset[Wait] = frozenset(),
        reader: FeedReader | None = None,
    ) -> None:
        self._agent = agent
        self._runtime = runtime
        self._thread = thread
        self._turn = turn
        self._reported = reported
        self._reader = reader
        self._items: deque[tuple[_Branch, AgentEvent | ClicketError | None]] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def items(self) -> AsyncIterator[Followed | Blocked]:
        """From the beginning of the turn to its last event, `final` or `error`. A turn that is blocked again, by other calls or
        by another question of the same call, is reported again."""
        root = _Branch(self._agent, self._thread, self._turn, None)
        self._follow(root)
        reported = self._reported
        looks, missing = 0, frozenset[str]()
        try:
            while True:
                if not self._items:
                    if await self._silent(_LOOK_AFTER[min(looks, len(_LOOK_AFTER) - 1)]):
                        looks += 1
                        waiting, missing = await _waiting_calls(self._runtime, root, missing)
                        waits = frozenset(each.wait for each in waiting)
                        if waits and waits != reported:
                            reported = waits
                            yield Blocked(waiting)
                    continue
                branch, event = self._items.popleft()
                self._room.set()
                looks = 0
                for followed in self._taken(branch, event):
                    yield followed
                    if followed.task is None and followed.event.type in _LAST:
                        return
                if branch is root and root.over and not root.held:
                    yield Followed(await _last_event(self._agent, self._thread, self._turn), None)
                    return
        finally:
            await self._stop()

    async def _silent(self, seconds: float) -> bool:
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return True
        return False

    # Reading the events of one agent.

    def _follow(self, branch: _Branch) -> None:
        branch.reader = asyncio.get_running_loop().create_task(self._read(branch))
        self._tasks.add(branch.reader)

    async def _read(self, branch: _Branch) -> None:
        is_root = branch.task is None
        events: Any = branch.agent.events(
            branch.thread, after=f"{branch.turn}-0.0", follow=not is_root, reader=self._reader if is_root else None
        )
        try:
            async for event in events:
                if event.turn != branch.turn:
                    break
                self._put(branch, event)
                while len(self._items) >= _MAX_PENDING:
                    self._room.clear()
                    await self._room.wait()
                if event.type in _LAST:
                    break
        except ClicketError as error:
            self._put(branch, error)
        finally:
            self._put(branch, None)
            await events.aclose()

    def _put(self, branch: _Branch, item: AgentEvent | ClicketError | None) -> None:
        self._items.append((branch, item))
        self._news.set()

    # Order: what a called agent did comes before the result of its call.

    def _taken(self, branch: _Branch, item: AgentEvent | ClicketError | None) -> Iterator[Followed]:
        if item is None:
            branch.over = True
            if branch.parent is not None:
                yield from self._released(branch.parent)
        elif isinstance(item, ClicketError):
            if branch.parent is None:
                raise item
        elif branch.held:
            branch.held.append(item)
        else:
            yield from self._passed(branch, item)

    def _passed(self, branch: _Branch, event: AgentEvent) -> Iterator[Followed]:
        branch.silent = False
        call = event.data.get("call_id", "")
        if event.type == "tool_started" and call:
            branch.open[call] = event.data["id"]
            branch.started.add(call)
            child = self._child(branch, event)
            if child is not None:
                branch.children[call] = child
                self._follow(child)
        elif event.type == "tool_result":
            child = branch.children.get(call)
            if child is not None and not child.over:
                branch.held.append(event)
                self._hurry(child)
                return
            branch.open.pop(call, None)
        yield Followed(event, branch.task)

    def _released(self, branch: _Branch) -> Iterator[Followed]:
        while branch.held:
            first = branch.held[0]
            child = branch.children.get(first.data.get("call_id", "")) if first.type == "tool_result" else None
            if child is not None and not child.over:
                return
            branch.held.popleft()
            yield from self._passed(branch, first)

    def _child(self, branch: _Branch, event: AgentEvent) -> _Branch | None:
        inner = _sub_task(self._runtime, branch, event)
        if inner is None:
            return None
        child = _Branch(inner[0], inner[1].thread, 1, inner[1])
        child.parent = branch
        return child

    def _hurry(self, child: _Branch) -> None:
        """The call of an agent has ended, so its last event is on record; a call that was refused has no events at all."""
        if child.reader is not None:
            wait = _NO_EVENTS if child.silent else _LATE_EVENTS
            child.ending = asyncio.get_running_loop().call_later(wait, child.reader.cancel)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task


class _Branch:
    """The turn, or that of a called agent."""

    def __init__(self, agent: Agent, thread: str, turn: int, task: SubTask | None) -> None:
        self.agent = agent
        self.thread = thread
        self.turn = turn
        self.task = task
        self.parent: _Branch | None = None
        self.open: dict[str, str] = {}
        """Calls without a result, with the model's ids for them."""
        self.started: set[str] = set()
        """Calls whose start has been followed."""
        self.children: dict[str, _Branch] = {}
        self.held: deque[AgentEvent] = deque()
        self.reader: asyncio.Task[None] | None = None
        self.ending: asyncio.TimerHandle | None = None
        self.silent = True
        self.over = False


async def _waiting_calls(
    runtime: Runtime, branch: _Branch, missing: frozenset[str]
) -> tuple[tuple[WaitingCall, ...], frozenset[str]]:
    """The calls that wait, if every open call does; and the open calls that are not made yet. A program's call waits if a tool that the
    program uses does: that one is listed.

    A call that is not made now and was not at the last look (`missing`) comes after those that wait.
    """
    waiting: list[WaitingCall] = []
    unmade: set[str] = set()
    asked = set(await runtime.host.waiting(branch.thread)) - set(branch.open)
    if branch.open:
        without = await runtime.host.waiting(branch.thread, "credential")
        asked |= {id for id in without if any(is_use_of(id, call) for call in branch.open)}
    if asked - branch.started and await _started_on_record(branch, asked - branch.started):
        return (), frozenset()  # an event that tells of it has not been followed yet
    for call, use_id in [*branch.open.items(), *((call, "") for call in sorted(asked))]:
        child = branch.children.get(call)
        if child is not None and not child.over:
            inner, late = await _waiting_calls(runtime, child, missing)
            unmade |= late
            if inner:
                waiting += inner
                continue
        try:
            record = await runtime.get(call, thread=branch.thread)
        except NotFound:
            unmade.add(call)
            if call not in missing:
                return (), frozenset(unmade)
            continue
        if record.waiting_for not in _WAITS or (record.waiting_for == "external" and record.tool != FRONTEND):
            if any(is_use_of(id, call) for id in asked):
                continue
            return (), frozenset(unmade)  # it goes on without the client
        waiting.append(WaitingCall(record=record, use_id=use_id, task=branch.task))
    return tuple(waiting), frozenset(unmade)


async def _started_on_record(branch: _Branch, calls: set[str]) -> bool:
    """Did the model of the turn ask for one of these calls?"""
    recorded = await branch.agent.recorded(branch.thread, branch.turn)
    return any(event.type == "tool_started" and event.data.get("call_id") in calls for event in recorded)


async def waiting_now(agent: Agent, runtime: Runtime, thread: str, turn: int) -> tuple[WaitingCall, ...]:
    """The calls of a running turn that wait, if every open call does; read from the store."""
    branch = await _branch_on_record(agent, runtime, thread, turn, None)
    open_calls = {call for each in _branches(branch) for call in each.open}
    return (await _waiting_calls(runtime, branch, frozenset(open_calls)))[0]


async def _branch_on_record(agent: Agent, runtime: Runtime, thread: str, turn: int, task: SubTask | None) -> _Branch:
    branch = _Branch(agent, thread, turn, task)
    for event in await agent.recorded(thread, turn):
        call = event.data.get("call_id", "")
        if event.type == "tool_started" and call:
            branch.open[call] = event.data["id"]
            branch.started.add(call)
            inner = _sub_task(runtime, branch, event)
            if inner is not None:
                branch.children[call] = _Branch(inner[0], inner[1].thread, 1, inner[1])
        elif event.type == "tool_result":
            branch.open.pop(call, None)
    for call in branch.open:
        child = branch.children.get(call)
        if child is not None:
            branch.children[call] = await _branch_on_record(child.agent, runtime, child.thread, 1, child.task)
    return branch


def _branches(branch: _Branch) -> Iterator[_Branch]:
    yield branch
    for call in branch.open:
        if call in branch.children:
            yield from _branches(branch.children[call])


def _sub_task(runtime: Runtime, branch: _Branch, event: AgentEvent) -> tuple[Agent, SubTask] | None:
    """The agent that a tool call calls, if it calls one, and its task."""
    tool = runtime.host.installed(event.data["tool"])
    if not isinstance(tool, AgentTool) or not isinstance(tool.agent, Agent):
        return None
    call = event.data["call_id"]
    task = SubTask(
        id=call,
        agent=tool.agent.name,
        use_id=event.data["id"],
        parent=branch.task,
        thread=thread_of_task(branch.thread, call),
    )
    return tool.agent.acting_for(runtime), task


async def _last_event(agent: Agent, thread: str, turn: int) -> AgentEvent:
    """The last event of a turn whose events are not kept any more, or that ended without one."""
    at = 0.0
    try:
        result = await agent.wait(thread, turn)
    except ClicketError as error:
        return AgentEvent(type="error", thread=thread, turn=turn, at=at, data={"message": error.message})
    assert result is not None, "a turn that is named has ended, or an error says why not"
    data = {
        "text": result.text,
        "state": str(AgentState(result.state)),
        "stopped": result.stopped,
        "ended": result.ended,
        "value": result.value,
        "steps": result.steps,
        "calls": result.calls,
        "usage": msgspec.to_builtins(result.usage),
    }
    return AgentEvent(type="final", thread=thread, turn=turn, at=at, data=data)
