"""Runs the agent and its runtime on an event loop in another thread: the terminal may block without delaying any tool call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import msgspec

from clicket.agents import Agent, AgentEvent, Message, ThreadView, UserMessage
from clicket.cli.context import join_declared
from clicket.errors import AgentBusy, Conflict, NotFound
from clicket.kernel import AgentState
from clicket.model import Event, Record
from clicket.runtime.runtime import Runtime
from clicket.system.bridge import LoopThread

__all__ = ["ActiveTurn", "AgentRunner", "Interrupt", "TurnEnded", "Update"]

T = TypeVar("T")


class TurnEnded(msgspec.Struct, frozen=True):
    """The last update of a turn. `error`: why the turn could not begin or be followed."""

    error: Exception | None = None


class ActiveTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that had begun before: a crash interrupted it, or it runs `elsewhere`, in another process."""

    view: ThreadView
    elsewhere: bool = False

    @property
    def number(self) -> int:
        return self.view.turns + 1


class Interrupt(msgspec.Struct, frozen=True):
    """Ctrl-C was pressed, or the process got TERM, which `leaves` at once."""

    leaves: bool = False


Update = AgentEvent | Event | TurnEnded | Interrupt
"""An event of the turn or of a tool call of its thread, its end, or an interrupt."""


class AgentRunner:
    """`with AgentRunner(runtime, make_agent) as runner`: opens the runtime, makes the agent and runs its turns.

    `updates` are those of the turn that is followed.
    """

    def __init__(self, runtime: Runtime, make_agent: Callable[[Runtime], Agent]) -> None:
        self.updates: SimpleQueue[Update] = SimpleQueue()
        self.runtime = runtime
        self.agent: Agent
        self._make_agent = make_agent
        self._following: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._loop = LoopThread("clicket-chat")
        try:
            self.run(self._open())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._close())
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the agent's loop, and wait for its value."""
        return self._loop.call(coroutine)

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(self.runtime)
            await join_declared(runtime)
            self.agent = self._make_agent(runtime)
            stack.pop_all()  # it stays open until `_close`

    async def _close(self) -> None:
        await self.unfollow()
        await self.runtime.close()

    # Coroutines for `run`.

    async def keep_files(self, message: Message) -> UserMessage:
        return await self.agent.keep_files(message)

    async def send(self, message: str | UserMessage, thread: str, id: str | None = None) -> None:
        """Begin a turn and follow it."""
        self._follow(self.agent.stream(message, thread=thread, id=id), thread)

    async def take_up(self, thread: str) -> ActiveTurn | None:
        """The active turn of a thread. One that a crash interrupted, or that a fork has up to a step, goes on in this process."""
        view = await self.agent.look(thread)
        if view.state is not AgentState.RUNNING and "resume" not in view.waiting_for:
            return None
        try:
            if await self.agent.take_up(thread) is None:
                return None  # it has ended since
        except AgentBusy:
            return ActiveTurn(view=view, elsewhere=True)
        return ActiveTurn(view=view)

    async def follow(self, turn: ActiveTurn) -> None:
        """Follow an active turn from its beginning."""
        view = turn.view
        events = self.agent.events(turn.view.thread)
        self._follow((event async for event in events if event.turn > view.turns), view.thread)

    async def unfollow(self) -> None:
        """Stop following. The turn goes on."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    def _follow(self, events: AsyncIterator[AgentEvent], thread: str) -> None:
        self._following = asyncio.ensure_future(self._queue_updates(events, thread))

    async def _queue_updates(self, events: AsyncIterator[AgentEvent], followed: str) -> None:
        def watch(caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
            if thread == followed:
                for event in events:
                    self.updates.put(event)

        host = self.runtime.host
        ended = TurnEnded()
        host.watch(watch)
        try:
            async for event in events:
                self.updates.put(event)
        except Exception as error:
            ended = TurnEnded(error)
        finally:
            host.unwatch(watch)
            self.updates.put(ended)

    # Calls that wait for approval. They are the program's own: a caller of a server may use the same id and thread.

    async def record(self, call_id: str, thread: str) -> Record | None:
        with suppress(NotFound):
            return await self.runtime.acting_for("").get(call_id, thread=thread)
        return None

    async def decide(self, record: Record, *, approved: bool, **decision: Any) -> bool:
        """False: the call no longer waits for this approval."""
        own = self.runtime.acting_for("")
        with suppress(Conflict):
            return await (own.approve if approved else own.deny)(record.id, thread=record.thread, **decision)
        return False
