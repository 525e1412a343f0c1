"""The work of a conversation, on a loop of its own: the terminal may draw, ask and wait, and no tool call waits with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from queue import SimpleQueue
from typing import Any, Self

import msgspec

from clicket.agents import Agent, AgentEvent, Page, ThreadView
from clicket.bridge import LoopThread, fulfil
from clicket.cli.session import join_declared
from clicket.cli.words import shown_url
from clicket.errors import AgentBusy, Conflict, NotFound
from clicket.hub import ToolView
from clicket.kernel import AgentState
from clicket.model import Event, Record
from clicket.runtime import Runtime

__all__ = ["Desk", "Found", "Interrupted", "News", "Over"]


class Over(msgspec.Struct, frozen=True):
    """No more comes of the turn that was followed; `error` is why there was none, if there was none."""

    error: Exception | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is under way: a crash had cut it off, or it runs `elsewhere`, in a process that lives."""

    view: ThreadView
    elsewhere: bool = False

    @property
    def turn(self) -> int:
        return self.view.turns + 1


class Interrupted(msgspec.Struct, frozen=True):
    """The person at the terminal pressed Ctrl-C, or somebody sent TERM, which `leaves` at once."""

    leaves: bool = False


News = AgentEvent | Event | Over | Interrupted
"""What happens: to the turn, to a tool call of the thread, to us."""


class Desk:
    """`with Desk(runtime, make) as desk`: an agent on a runtime that it opens, asked from a thread that may block.

    `news` is what happens to the turn that is followed; `make` makes the agent, once the runtime is open.
    """

    def __init__(self, runtime: Runtime, make: Callable[[Runtime], Agent]) -> None:
        self.news: SimpleQueue[News] = SimpleQueue()
        self.runtime = runtime
        self.agent: Agent
        self._make = make

    def __enter__(self) -> Self:
        self._loop = LoopThread("clicket-chat")
        try:
            self._loop.call(self._open())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._loop.call(self._close())
        finally:
            self._loop.close()

    async def _open(self) -> None:
        self._leave = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._living = asyncio.ensure_future(self._live(opened))
        await asyncio.wait((opened, self._living), return_when=asyncio.FIRST_COMPLETED)
        if self._living.done():
            self._living.result()

    async def _live(self, opened: asyncio.Future[None]) -> None:
        """Opened and closed in one task, as servers of other tools want it."""
        async with self.runtime as runtime:
            await join_declared(runtime)
            self.agent = self._make(runtime)
            fulfil(opened)
            await self._leave.wait()

    async def _close(self) -> None:
        await self._unfollow()
        self._leave.set()
        await self._living

    # Turns.

    def forget_news(self) -> None:
        """What came too late for the turn that it was about."""
        while not self.news.empty():
            self.news.get()

    def send(self, message: str, thread: str) -> None:
        """Begin a turn; how it goes comes as news."""
        self._loop.call(self._follow(self.agent.stream(message, thread=thread), thread))

    def take_up(self, thread: str) -> Found | None:
        """The turn that is under way in a thread. One that a crash cut off goes on, here."""
        return self._loop.call(self._take_up(thread))

    async def _take_up(self, thread: str) -> Found | None:
        view = await self.agent.look(thread)
        if view.state is not AgentState.RUNNING:
            return None
        try:
            if await self.agent.take_up(thread) is None:
                return None  # it ended while we looked
        except AgentBusy:
            here = self.agent.state(thread) is AgentState.RUNNING  # recovery was faster
            return Found(view=view, elsewhere=not here)
        return Found(view=view)

    def follow(self, found: Found) -> None:
        """From its beginning, then live; how it goes comes as news."""
        thread = found.view.thread
        self._loop.call(self._follow(self._since(found.view, thread), thread))

    def leave(self) -> None:
        """Follow no longer. The turn goes on."""
        self._loop.call(self._unfollow())

    async def _unfollow(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    async def _since(self, view: ThreadView, thread: str) -> AsyncIterator[AgentEvent]:
        async for event in self.agent.events(thread):
            if event.turn > view.turns:
                yield event

    async def _follow(self, events: AsyncIterator[AgentEvent], thread: str) -> None:
        self._following = asyncio.ensure_future(self._pump(events, thread))

    async def _pump(self, events: AsyncIterator[AgentEvent], thread: str) -> None:
        watched = thread

        def watch(caller: str, thread: str, call_id: str, events: Sequence[Event]) -> None:
            if thread == watched:
                for event in events:
                    self.news.put(event)

        host, over = self.runtime.host, Over()
        host.watch(watch)
        try:
            async for told in events:
                self.news.put(told)
        except Exception as error:
            over = Over(error)
        finally:
            host.unwatch(watch)
            self.news.put(over)

    def stop(self, thread: str) -> bool:
        return self._loop.call(self.agent.stop(thread, "stopped at the terminal"))

    # Calls that wait for a person.

    def record(self, call_id: str, thread: str) -> Record | None:
        async def get() -> Record | None:
            try:
                return await self._own.get(call_id, thread=thread)
            except NotFound:
                return None

        return self._loop.call(get())

    @property
    def _own(self) -> Runtime:
        """The program's own calls: a caller of a server may use the same id and thread."""
        return self.runtime.acting_for("")

    def decide(self, call_id: str, thread: str, *, approved: bool, **said: Any) -> bool:
        """False: somebody else was faster, or the call is over."""
        decide = self._own.approve if approved else self._own.deny
        try:
            return self._loop.call(decide(call_id, thread=thread, **said))
        except Conflict:  # another question is open by now
            return False

    # Looking.

    @property
    def store_url(self) -> str:
        return shown_url(self.runtime.settings.store)

    def look(self, thread: str) -> ThreadView:
        return self._loop.call(self.agent.look(thread))

    def history(self, thread: str, after: int) -> Page:
        return self._loop.call(self.agent.history(thread, after=after))

    def tools(self, thread: str) -> list[ToolView]:
        async def ask() -> list[ToolView]:
            return await self.runtime.hub(thread).tools()

        return self._loop.call(ask())
