"""An agent: threads of conversation, and in each one turn at a time. A turn is a call of the runtime's own, so it is durable, can be
watched and stopped from any process, and is taken up after a crash."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol, Self

from clicket.agents.event_stream import EventStreams, place_of
from clicket.agents.limits import Limits
from clicket.agents.memory import Memory, Page
from clicket.agents.read_result import read_result
from clicket.agents.subagents import AgentTool
from clicket.agents.threads import Threads, turn_id
from clicket.agents.transcript import storable
from clicket.agents.turn import Turn
from clicket.agents.turn_lifecycle import Drive, Hook, TurnLifecycle, with_thread
from clicket.agents.values import AgentEvent, AgentResult, ThreadView
from clicket.errors import AgentBusy, NotFound, StoreUnavailable, UsageError
from clicket.execution import turn_log
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage
from clicket.model.codec import encode
from clicket.model.ids import new_id
from clicket.model.request import check_name
from clicket.ports import AgentHost, Taken
from clicket.tools import Options, ToolContext, Traits, defaults

__all__ = ["Agent", "Hosting"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_MESSAGE = 512 * 1024
_MAX_BYTES = 1_000_000  # with the rest of a turn's arguments less than a call may have
_TAG = 8
"""Characters of a run's id in the ids of its tool calls."""
_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "properties": {"message": _TEXT, "thread": _TEXT, "turn": {"type": "integer"}, "run": _TEXT},
    "required": ["message", "thread", "turn", "run"],
    "additionalProperties": False,
}


class Hosting(Protocol):
    """A runtime, or whatever else agents can stand on."""

    @property
    def host(self) -> Any: ...


class TurnTool:
    """The inner tool behind the turns of all agents of one name on one runtime, and what they know in common."""

    traits = Traits(internal=True, holds_slot=False)
    is_async = True
    run_sync = None
    output_schema = None
    bind_plain = defaults.never_plain
    data_version = defaults.no_data_version
    is_cacheable = defaults.always_cacheable
    sweep = defaults.no_sessions
    close = defaults.nothing_to_close
    owned_by = defaults.shared_by_owners
    description = "One turn of an agent."
    input_schema: Mapping[str, Any] = _SCHEMA
    options = Options(timeout=None, max_retries=0, recovery="rerun")

    def __init__(self, agent: Agent) -> None:
        self.name = f"agent:{agent.name}"
        self.agent = agent
        """Takes up what a crash left: the last one that was made."""
        self.starting: dict[str, Agent] = {}
        self.memory = Memory(agent.name)
        self.turns: dict[tuple[str, str], Turn] = {}
        self.streams = EventStreams(self.turns)
        self.unattended: set[tuple[str, str]] = set()

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        agent = self.starting.pop(bound["run"], None)
        return await (agent or self.agent)._take(bound, ctx, resumed=agent is None)


class Agent:
    """`drive` is what makes an agent this one: it brings a turn to its end, and says how it ended.

    `tools`: names that the runtime must have. `on_state_changed(before, after, thread)` is called for every change of state;
    override it, or give a function. One that takes only `(before, after)` is called without the thread.
    """

    def __init__(
        self,
        rt: Hosting,
        drive: Drive,
        *,
        name: str,
        limits: Limits,
        tools: Iterable[str] = (),
        on_state_changed: Hook | None = None,
    ) -> None:
        if not hasattr(rt, "host"):
            kind = f"{type(rt).__module__}.{type(rt).__qualname__}"
            raise UsageError(
                f"an agent works with clicket.Runtime, not with {kind}. Agents are async: use asyncio.run, or a blocking client of a "
                "server (clicket.client)."
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name for an agent: up to 64 letters, digits, '_' or '-'.")
        self.name: str = name
        self.limits: Limits = limits
        self._host: AgentHost = rt.host
        self._host.refuse_unknown(set(tools) - {read_result.name})
        self._hook = None if on_state_changed is None else with_thread(on_state_changed)
        self._endings: dict[str, tuple[AgentResult, BaseException | None] | None] = {}
        """Of the turns that somebody here waits for, once they are over."""
        installed = self._host.installed(f"agent:{name}")
        if isinstance(installed, TurnTool):
            self._tool = installed
            installed.agent = self
        else:
            self._tool = TurnTool(self)
            self._host.install(self._tool)
        self._memory = self._tool.memory
        self._streams = self._tool.streams
        self._lifecycle = TurnLifecycle(
            name, self._memory, drive, limits, with_thread(self.on_state_changed), self._tool.turns
        )
        self._host.lend(read_result)
        self._threads = Threads(self._host, self._memory, self._tool.name, self._tool.unattended)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    def on_state_changed(self, before: AgentState, after: AgentState, thread: str) -> Any:
        """Every change of state of every thread; may be async. What it raises is logged, and changes nothing."""
        return None if self._hook is None else self._hook(before, after, thread)

    def acting_for(self, rt: Hosting) -> Self:
        """This agent in the name of a caller: `rt` is a runtime that acts for it."""
        return self._on(rt.host)

    def _on(self, host: AgentHost) -> Self:
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._host = host
        view._threads = Threads(view._host, self._memory, self._tool.name, self._tool.unattended)
        return view

    def as_tool(self, name: str | None = None, description: str = "") -> AgentTool:
        """This agent as a tool, for other agents: `rt.add(agent.as_tool("research", "Finds things out."))`."""
        about = description or f"Hands a task to the agent {self.name!r}, and gives its answer."

        def as_caller(caller: str, scopes: frozenset[str]) -> Agent:
            return self._on(self._host.acting_for(caller, scopes))

        return AgentTool(self, name or self.name, about, as_caller)

    # Running.

    async def run(self, message: str, *, thread: str = "default") -> AgentResult:
        """One turn: the message is answered, or the run stops at a limit, is stopped, or fails; then its error is raised.

        A turn with the same message that a crash cut off is gone on with, and this is its result.
        """
        message, threads = _checked(message, thread), self._threads
        while True:
            number, run = await threads.next(thread), new_id()
            self._tool.starting[run] = self
            self._endings[run] = None
            try:
                arguments = {"message": message, "thread": thread, "turn": number, "run": run}
                await self._host.conduct(self._tool.name, arguments, id=turn_id(number), thread=threads.inner(thread))
            except Taken:
                # It began here, and another process took it over; or there is a turn of that number.
                begun = run not in self._tool.starting
                if begun or await threads.take_over(message, thread, number):
                    return await threads.ended(thread, number)
                continue
            finally:
                self._tool.starting.pop(run, None)
                ending = self._endings.pop(run, None)
            if ending is None:
                return await threads.ended(thread, number)
            if isinstance(ending[1], Exception):
                raise ending[1]
            return ending[0]

    async def begin(self, message: str, *, thread: str = "default", turn: int | None = None) -> int:
        """Start a turn, and return its number as soon as it is durable; `events` tells how it goes on.

        `turn`: the number that it is to have. If the thread has that turn, and it is what `message` asks for, it is that one; else
        `Conflict` is raised. So whoever does not know whether it was begun can begin it again.
        """
        message, threads = _checked(message, thread), self._threads
        while True:
            number, run = await threads.next(thread), new_id()
            if turn is not None and turn != number:
                await threads.refuse_unless_asked(message, thread, turn, number)
                return turn
            self._tool.starting[run] = self
            try:
                arguments = {"message": message, "thread": thread, "turn": number, "run": run}
                await self._host.begin(self._tool.name, arguments, id=turn_id(number), thread=threads.inner(thread))
            except Taken:
                self._tool.starting.pop(run, None)
                try:
                    if not await threads.take_over(message, thread, number):
                        continue
                except AgentBusy:
                    if turn is None or not await threads.is_asked(message, thread, number):
                        raise
            except Exception:  # who is cancelled here leaves a turn that is about to begin, and needs its agent
                self._tool.starting.pop(run, None)
                raise
            return number

    async def stream(
        self, message: str, *, thread: str = "default", turn: int | None = None
    ) -> AsyncIterator[AgentEvent]:
        """One turn, told as it happens; the last event is `final` or `error`. Who leaves early leaves the turn running.

        `turn`: as in `begin`; a turn that was begun before is told from its beginning.
        """
        message = _checked(message, thread)
        reader = self._streams.listen(self._threads, thread)
        try:
            number = await self.begin(message, thread=thread, turn=turn)
            async with aclosing(self._streams.until_over(self._threads, reader, thread, number)) as told:
                async for event in told:
                    yield event
        finally:
            self._streams.leave(self._threads, thread, reader)

    async def resume(self, thread: str = "default") -> AgentResult | None:
        """Go on with a turn that a crash or a restart cut off, and wait for its end; None: there is none."""
        number = await self.take_up(thread)
        return None if number is None else await self._threads.ended(thread, number)

    async def take_up(self, thread: str = "default") -> int | None:
        """`resume` without the wait: the number of the turn that goes on here now; `events` tells how."""
        check_name("thread", thread)
        number = await self._threads.next(thread)
        return number if await self._threads.take_over(None, thread, number) else None

    async def wait(self, thread: str = "default", turn: int | None = None) -> AgentResult | None:
        """Wait for the end of a turn (the one under way), wherever it runs; None: there is none."""
        check_name("thread", thread)
        number = await self._threads.next(thread) if turn is None else turn
        if turn is None and await self._threads.record(thread, number) is None:
            return None
        return await self._threads.ended(thread, number)

    async def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the turn under way, in whichever process it runs. False: there is none."""
        check_name("thread", thread)
        number = await self._threads.next(thread)
        with suppress(NotFound):
            return await self._host.cancel(
                turn_id(number), self._threads.inner(thread), reason or "the agent was stopped"
            )
        return False

    # Looking.

    def state(self, thread: str = "default") -> AgentState:
        """The state of a thread as this process knows it, at once. `look` asks the store, and knows of other processes."""
        check_name("thread", thread)
        host = self._host
        if (host.caller, thread) in self._tool.turns:
            return AgentState.RUNNING
        head = self._memory.glance(host, thread)
        return AgentState.IDLE if head is None else head.state

    async def look(self, thread: str = "default") -> ThreadView:
        """A thread as the store has it, whichever process works on it."""
        check_name("thread", thread)
        host, threads = self._host, self._threads
        head, record = await threads.settled(thread)
        plan = None
        if record is not None:
            on_record = threads.entries(record.events, thread, head.turns + 1)
            plan = next((entry["plan"] for entry in reversed(on_record) if entry.get("e") == "plan"), None)
        elif head.turns and (last := await self._memory.turn(host, thread, head.turns)) is not None:
            plan = last.plan
        return ThreadView(
            thread=thread,
            agent=self.name,
            state=head.state if record is None else AgentState.RUNNING,
            turns=head.turns,
            stopped=head.stopped,
            text=head.text,
            steps=head.steps,
            usage=head.usage,
            error=head.error,
            plan=plan,
            updated_at=head.updated_at if record is None else record.updated_at,
            waiting_for=[] if record is None else await host.waiting(thread),
        )

    async def messages(self, thread: str = "default") -> list[ChatMessage]:
        """What models are told of a thread: the messages of its turns that are over."""
        check_name("thread", thread)
        return list((await self._memory.load(self._host, thread)).messages)

    async def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that are over, the oldest first; `after` of one page fetches the next."""
        check_name("thread", thread)
        if type(limit) is not int or not 1 <= limit <= 1_000 or type(after) is not int or after < 0:
            raise UsageError(f"limit is a number from 1 to 1,000 and after one from 0, not {limit!r} and {after!r}.")
        return await self._memory.page(self._host, thread, after=after, limit=limit)

    async def events(
        self, thread: str = "default", *, after: str = "", follow: bool = False
    ) -> AsyncIterator[AgentEvent]:
        """What happened in a thread after the event with the id `after` (without one: in its last turn), then live.

        Ends with the turn under way, or at once; with `follow` it goes on with the turns to come.
        """
        check_name("thread", thread)
        place, threads = place_of(after), self._threads
        reader = self._streams.listen(threads, thread)
        try:
            head, under = await threads.settled(thread)
            # Of a store that is gone: who waits for that turn misses all before it. (A turn may be told of before it is counted.)
            if place[0] > head.turns + 2:
                place = (0, 0, 0)
            number = place[0] or max(head.turns + (under is not None), 1)
            while True:
                async with aclosing(self._streams.turn(threads, reader, thread, number, place)) as told:
                    async for event in told:
                        place = place_of(event.id) if event.id else place
                        yield event
                over, under = await threads.settled(thread)
                if number <= over.turns:
                    number += 1
                    # A turn that is over may be swept: then there is nothing to tell of it.
                    if number <= over.turns or under is not None:
                        continue
                if not follow:
                    return
                await self._streams.next_turn(threads, reader, thread, number)
        finally:
            self._streams.leave(threads, thread, reader)

    async def forget(self, thread: str = "default") -> int:
        """Remove what the agent remembers of a thread; how many turns there were. Tool calls stay as long as calls are kept."""
        check_name("thread", thread)
        record = None
        with suppress(StoreUnavailable):  # a thread that cannot be read can still be forgotten
            number = await self._threads.next(thread)
            record = await self._threads.record(thread, number)
        if record is not None and not record.state.is_terminal:
            raise AgentBusy(f"thread {thread!r} has turn {number} under way; end it with agent.stop({thread!r}) first.")
        return await self._memory.forget(self._host, thread)

    async def _take(self, bound: dict[str, Any], ctx: ToolContext, *, resumed: bool) -> Any:
        """The body of a turn's call."""
        log, thread, number = turn_log(ctx), bound["thread"], bound["turn"]
        try:
            host = self._host.acting_for(ctx.caller, log.scopes)
        except UsageError:  # the runtime closes
            log.hand_back()
        place = (host.caller, thread)
        if resumed:
            self._tool.unattended.add(place)
        try:
            result, raised = await self._lifecycle.take(
                host, log, self._streams.feed(*place),
                thread=thread, number=number, message=bound["message"], tag=bound["run"][-_TAG:],
            )  # fmt: skip
        finally:
            self._tool.unattended.discard(place)
            self._streams.release(*place)
        if bound["run"] in self._endings:
            self._endings[bound["run"]] = (result, raised)
        if raised is not None:
            raise raised
        return {"turn": number, "state": str(result.state), "stopped": result.stopped, "steps": result.steps}


def _checked(message: Any, thread: str) -> str:
    """The message as it can be stored."""
    if not isinstance(message, str) or not message.strip():
        raise UsageError(f"a message is text that says something, not {message!r:.100}.")
    text = storable(message)
    size = len(encode(text))
    if len(text) > _MAX_MESSAGE or size > _MAX_BYTES:
        raise UsageError(
            f"the message has {len(text):,} characters in {size:,} bytes; {_MAX_MESSAGE:,} characters in {_MAX_BYTES:,} bytes "
            "are taken. Put the text into a file (rt.put_artifact), and give the agent a tool that reads it."
        )
    check_name("thread", thread)
    return text
