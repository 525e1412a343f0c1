"""An agent: threads of conversation, with one turn at a time in each. A turn is a call of an internal tool, so it is durable, can be
followed and stopped from any process, and continues after a crash."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Generic, Protocol, Self, Unpack, overload

import msgspec
from typing_extensions import TypeVar

from clicket.agents.again import Again, Effects, checked_effects
from clicket.agents.agent_result import AgentEvent, AgentResult, Sent, ThreadView
from clicket.agents.background_tools import BACKGROUND_TOOLS, background_tools
from clicket.agents.chain import Chain
from clicket.agents.check import Check
from clicket.agents.check_tool import CheckTool, tool_name
from clicket.agents.cut_turn_start import begin_cut_turn
from clicket.agents.event_feed import FeedReader
from clicket.agents.event_stream import position_of
from clicket.agents.fork import forks_of, make_fork
from clicket.agents.frontend_tool import FrontendTool, offers_in
from clicket.agents.handoff import Handoff, HandTool, Named, handoffs_of
from clicket.agents.identity import Identity
from clicket.agents.mailbox import QueuedMessage, When
from clicket.agents.memory import Page, TurnDocument
from clicket.agents.origin import Fork
from clicket.agents.outages import Outages
from clicket.agents.output import Output
from clicket.agents.read_result import read_result
from clicket.agents.rerun import calls_of
from clicket.agents.run_options import NO_VALUES, Given, RunValues, Taking, deps_of, options_in, taken
from clicket.agents.subagents import AgentTool
from clicket.agents.threads import Place, Threads, Wanted, has_message, other_message, turn_id
from clicket.agents.transcript import storable
from clicket.agents.turn_lifecycle import Deltas, Drive, OnChange, ReturnTo, StateChanged, TurnLifecycle
from clicket.agents.turn_limits import Limits, check_counts
from clicket.agents.turn_on_record import turn_on_record
from clicket.agents.turn_record import TurnRecord, begun_in, plan_in
from clicket.agents.turn_start import begin, bringing, earlier, lacking_dep, refuse_lacking, turn_arguments, work_off
from clicket.agents.turn_tool import TurnTool
from clicket.agents.undo_turn import UndoOn, UndoTurnTool, undo_reasons
from clicket.agents.user_message import Message, UserMessage, kept
from clicket.engine.executors import TurnLog
from clicket.engine.spend import spender_of_turn
from clicket.errors import (
    AgentBusy,
    Conflict,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    UsageError,
    known_keywords,
)
from clicket.kernel import AgentState
from clicket.model import Record
from clicket.model.chat import ChatMessage, ToolOffer
from clicket.model.codec import encode
from clicket.model.ids import new_id
from clicket.model.names import FRONTEND
from clicket.model.ports import AgentHost, ChatModel, Taken
from clicket.model.request import check_name
from clicket.model.spend import SpendReport
from clicket.tools.search import FIND_TOOLS

__all__ = ["Agent", "HasHost", "copy_on", "host_of", "on_record", "seed_thread"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_MESSAGE = 512 * 1024
_MAX_BYTES = 1_000_000  # together with the other arguments of a turn below the limit of a call


T = TypeVar("T", default=Any)
V = TypeVar("V")


class HasHost(Protocol):
    """A runtime, or another object that has a `host`."""

    @property
    def host(self) -> Any: ...


class Agent(Generic[T]):
    """`drive(turn)` runs a turn to its end, and returns why it ended and its final text.

    An agent is its name on one store. `tools`: names of tools that the runtime must have. `only`: names of the tools that it may call, and
    that `find_tools` may find for it; None: all that the hub offers. `kind`, `only` and `limits` say what it may do, `more_limits` adds
    limits of its kind; `system` and `model` are recorded with each turn. A second agent of this name on one runtime must be able to do the
    same, or take the place of the first (`replace=True`). `on_change`: what becomes of an interrupted turn that an agent of this name
    began which could do something else: `continue` with the tools that both may use, or `refuse` (`AgentChanged`).
    `undo_on`: after which ends of a turn its calls are undone, see `ReActAgent`.
    `middleware` surrounds its requests and tool calls, see `Middleware`. `checks`: see `Check`. `output`: the type of its answers, which
    `r.value` then has. `handoffs`, `max_handoffs`, `return_to`: see `ReActAgent`; a drive of your own lets `TurnHandedOver` through, which
    `Actor.act` raises.
    `deltas`: see `ReActAgent`. `on_state_changed(before, after, thread)`: a function that is called for every change of state.
    """

    @known_keywords
    def __init__(
        self,
        rt: HasHost,
        drive: Drive,
        *,
        name: str,
        limits: Limits,
        tools: Iterable[str] = (),
        only: frozenset[str] | None = None,
        kind: str = "",
        system: str = "",
        model: str = "",
        more_limits: Mapping[str, Any] | None = None,
        middleware: Chain | Iterable[object] = (),
        checks: Iterable[Check] = (),
        output: type[T] | Output[T] | Mapping[str, Any] | None = None,
        handoffs: Iterable[Handoff | Named | str] = (),
        max_handoffs: int = 5,
        return_to: ReturnTo = "last",
        replace: bool = False,
        on_change: OnChange = "continue",
        deltas: Deltas = "live",
        undo_on: UndoOn | Collection[UndoOn] | None = None,
        on_state_changed: StateChanged | None = None,
    ) -> None:
        made_with = {name: given for name, given in locals().items() if name not in ("self", "rt", "on_state_changed")}
        if not hasattr(rt, "host"):
            kind = f"{type(rt).__module__}.{type(rt).__qualname__}"
            raise UsageError(
                f"an agent works with clicket.Runtime, not with {kind}. With clicket.sync.Runtime use clicket.sync.ReActAgent; with a "
                "client of a server, client.agent(name)."
            )
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a name for an agent: up to 64 letters, digits, '_' or '-'.")
        if on_change not in ("continue", "refuse"):
            raise UsageError(f"on_change is 'continue' or 'refuse', not {on_change!r}.")
        if deltas not in ("live", "stored"):
            raise UsageError(f"deltas is 'live' or 'stored', not {deltas!r}.")
        self.name: str = name
        self.limits: Limits = limits
        tools = tuple(tools)
        self._host: AgentHost = rt.host
        self._host.refuse_unknown(set(tools) - {read_result.name, FIND_TOOLS, *BACKGROUND_TOOLS})
        self._hook = on_state_changed
        installed = self._host.installed(f"agent:{name}")
        self._tool = installed if isinstance(installed, TurnTool) else TurnTool(name, self._host)
        self._memory = self._tool.memory
        self._streams = self._tool.streams
        if return_to not in ("last", "first"):
            raise UsageError(f"return_to is 'last' or 'first', not {return_to!r}.")
        check_counts(0, max_handoffs=max_handoffs)
        self._handoffs = handoffs_of(handoffs, name)  # it keeps those that were given as agents in use
        bounds = {**(more_limits or {}), **({"max_handoffs": max_handoffs} if self._handoffs else {})}
        chain = middleware if isinstance(middleware, Chain) else Chain(middleware, checks=checks)
        self._made_with = {**made_with, "middleware": chain, "checks": (), "tools": tools}
        self._output: Output[Any] | None = None if output is None else Output.of(output)
        identity = Identity.of(
            name=name,
            kind=kind or _kind_of(drive),
            tools=only,
            limits={**msgspec.to_builtins(limits), **bounds},
            system=system,
            model=model,
            middleware=chain.names,
            output=None if self._output is None else self._output.schema,
            handoffs=[each.label for each in self._handoffs.values()],
            undo_on=undo_reasons(undo_on),
        )
        self._lifecycle = TurnLifecycle(
            identity,
            self._memory,
            drive,
            limits,
            self._state_hook(),
            self._tool.turns,
            on_change=on_change,
            middleware=chain,
            output=self._output,
            handoffs=self._handoffs,
            others=self._others(),
            max_handoffs=max_handoffs,
            return_to=return_to,
            deltas=deltas,
        )
        self._in_use = self._tool.add(self._lifecycle, replace=replace)
        if installed is None:
            self._tool.work_off = partial(work_off, self._tool)
            self._host.install(self._tool)
            self._host.install(UndoTurnTool(name, self._host))
        if self._host.installed(FRONTEND) is None:
            self._host.install(FrontendTool())
        for check in chain.asking:
            if self._host.installed(tool_name(check)) is None:
                self._host.install(CheckTool(check))
        for own in (read_result, *background_tools(self._host), *chain.own_tools):
            self._host.lend(own)
        for handoff in self._handoffs.values():
            self._host.lend(HandTool(handoff))
        self._threads = Threads(self._host, self._memory, self._tool.name, limits)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    def _others(self) -> dict[str, TurnLifecycle]:
        """The agents to which it hands and that it was given, by name."""
        others: dict[str, TurnLifecycle] = {}
        for tool, handoff in self._handoffs.items():
            known = self._host.installed(tool)
            if known is not None and not isinstance(known, HandTool):
                raise UsageError(
                    f"a tool of this runtime is named {tool!r}: so this agent cannot hand to {handoff.name!r}."
                )
            if isinstance(handoff.agent, str):
                continue
            if not isinstance(handoff.agent, Agent) or handoff.agent._tool is not self._host.installed(
                handoff.agent._tool.name
            ):
                raise UsageError(f"handoffs: {handoff.agent!r} is not an agent of this runtime.")
            others[handoff.name] = handoff.agent._lifecycle
        return others

    def _check_handoffs(self) -> None:
        """Before a turn begins: the agents that were named are there."""
        for handoff in self._handoffs.values():
            if self._host.installed(f"agent:{handoff.name}") is None:
                raise UsageError(
                    f"the agent {self.name!r} hands to {handoff.name!r}, but this runtime has no agent of that name. Make it before you "
                    "send a message."
                )

    def on_state_changed(self, before: AgentState, after: AgentState, thread: str) -> Any:
        """Called for every change of state of every thread; may be async. An exception is logged and has no other effect."""
        return None if self._hook is None else self._hook(before, after, thread)

    def _state_hook(self) -> StateChanged:
        """What the lifecycle calls. It holds the agent only if the agent overrides the method: an agent that its program has dropped
        must not count as one in use."""
        if type(self).on_state_changed is not Agent.on_state_changed:
            return self.on_state_changed
        return self._hook or _ignore

    def acting_for(self, rt: HasHost) -> Self:
        """This agent on behalf of a caller; `rt` is a runtime that acts for the caller."""
        return self._on(rt.host)

    def _on(self, host: AgentHost) -> Self:
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._host = host
        view._threads = Threads(view._host, self._memory, self._tool.name, self.limits)
        return view

    def as_tool(self, name: str | None = None, description: str = "", *, background: bool = False) -> AgentTool:
        """This agent as a tool for other agents: `rt.add(agent.as_tool("research", "Finds things out."))`. `background`: the agent that
        calls it goes on meanwhile, and reads the answer in a later message."""
        about = description or f"Gives a task to the agent {self.name!r}, and returns its answer."

        def as_caller(caller: str, scopes: frozenset[str], requesters: frozenset[str]) -> Agent:
            return self._on(self._host.acting_for(caller, scopes, requesters))

        return AgentTool(self, name or self.name, about, as_caller, self._host, background)

    # Running.

    @overload
    async def run(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: type[V] | Output[V],
        **options: Unpack[Given],
    ) -> AgentResult[V]: ...
    @overload
    async def run(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Mapping[str, Any] | None = None,
        **options: Unpack[Given],
    ) -> AgentResult[T]: ...
    async def run(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[Given],
    ) -> AgentResult[Any]:
        """Run one turn and return its result, also if it reached a limit or was stopped. If the turn fails, its error is raised.

        A message may have images and files: `["what is this?", Image("photo.png")]`. They are kept as artifacts, as long as the thread.

        If a crash interrupted a turn with the same message, that turn is continued and its result returned. A turn with another message
        ends first: it is continued here, unless its owner lives. If it waits for a person, `AgentBusy` says for what.

        With `id` or `turn` the same line can be sent again at any time. `id`: a text of yours; a thread has one turn for one id, as long as
        the thread is kept. `turn`: the number that the turn must have. If the thread has that turn, its result is returned, or its error
        raised; if it has another message, `Conflict` is raised.

        `model`, `system`, `output`, `limits`: in place of the agent's, for this turn. `tools` narrows what the agent may use. `metadata`:
        JSON for middleware (`turn.metadata`) and readers. They are recorded, and hold for the turn wherever it goes on.

        `deps`: values of this process for tools, by name, in place of what the runtime makes: `deps={"db": pool}` is `ctx.deps["db"]`, a
        parameter with `Depends("db")`, and `turn.deps["db"]`. Only the names are recorded. A process that does not have the model or a
        dep waits for a caller that brings it (`waiting_for` says `model:NAME`, `dep:NAME`).
        """
        given = taken(options, output)
        self._check_handoffs()
        with self._host.while_open():
            wanted = _wanted(await self._said(message), thread, turn, id)
            await self._tool.mailbox.let_go(self._host, thread)
            return self._typed(await self._run(wanted, thread, given), given.values)

    def _typed(self, result: AgentResult[Any], values: RunValues = NO_VALUES) -> AgentResult[Any]:
        """The result with its value as an instance of the type that was asked for; plain JSON if that is not at hand."""
        other = self._lifecycle if result.agent == self.name else self._lifecycle.others.get(result.agent)
        output = values.output or (None if other is None else other.output)
        if output is None or result.stopped != "finished":
            return result
        with suppress(InvalidInput):
            return msgspec.structs.replace(result, value=output.typed(result.value))
        return result

    async def keep_files(self, message: Message | UserMessage) -> UserMessage:
        """The message with its files stored, as `run`, `begin` and `stream` do it: they take it, too."""
        return await kept(self._host, message)

    async def _said(self, message: Any) -> Any:
        return message if isinstance(message, str) else await kept(self._host, message)

    async def _run(
        self, wanted: Wanted, thread: str, given: Taking, frontend: Sequence[ToolOffer] = ()
    ) -> AgentResult[Any]:
        threads = self._threads
        while True:
            number = await threads.next_to_begin(thread)
            run = new_id()
            known = await earlier(self._tool, threads, wanted, thread, number)
            if known is not None:
                return await threads.ended(thread, known)
            await refuse_lacking(self._lifecycle, threads, thread, number, given)
            self._tool.starting[run] = self._lifecycle, given.values
            self._tool.endings[run] = None
            try:
                arguments = turn_arguments(wanted, thread, number, run, given.options, frontend)
                await self._host.conduct(self._tool.name, arguments, id=turn_id(number), thread=threads.inner(thread))
            except Taken:
                # Either another process took over the turn that began here, or the thread already has a turn of that number.
                begun = run not in self._tool.starting
                if begun:
                    return await threads.ended(thread, number)
                bring = bringing(self._tool, threads, thread, number, given.values)
                if await threads.join(wanted, thread, number, bring):
                    return await threads.joined(thread, number)
                continue
            finally:
                self._tool.starting.pop(run, None)
                ending = self._tool.endings.pop(run, None)
            if ending is None:
                return await threads.ended(thread, number)
            if isinstance(ending[1], Exception):
                raise ending[1]
            return ending[0]

    async def begin(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        run: str = "",
        frontend: Sequence[ToolOffer] = (),
        output: Any = None,
        **options: Unpack[Given],
    ) -> int:
        """Start a turn, and return its number as soon as it is durable; `events` follows it. A turn that a crash interrupted is continued
        or ends first, as in `run`.

        `turn`, `id`: as in `run`; if the thread has that turn, its number is returned. `run`: an id of the request; a turn of another
        request is another turn, also with the same message. `frontend`: tools that the caller's own program runs, for this
        turn only; a call of one waits for a result from that program (`clicket.runtime.calls.external_calls.complete_own`). The
        other options are as in `run`.
        """
        wanted = _wanted(await self._said(message), thread, turn, id, run)
        given = taken(options, output)
        self._check_handoffs()
        await self._tool.mailbox.let_go(self._host, thread)
        return await begin(self._tool, self._threads, self._lifecycle, wanted, thread, given, frontend)

    async def stream(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[Given],
    ) -> AsyncIterator[AgentEvent]:
        """Run one turn and yield its events; the last one is `final` or `error`. The turn continues if the iteration ends early.

        The options are as in `run`; a turn that began before is streamed from its beginning.
        """
        message = await self._said(message)
        _wanted(message, thread, turn, id)
        taken(options, output)
        with self.listening(thread) as reader:
            number = await self.begin(message, thread=thread, turn=turn, id=id, output=output, **options)
            async with aclosing(self._streams.until_over(self._threads, reader, thread, number)) as events:
                async for event in events:
                    yield event

    async def resume(
        self,
        thread: str = "default",
        *,
        model: ChatModel | None = None,
        output: type[T] | Output[T] | None = None,
        deps: Mapping[str, Any] | None = None,
    ) -> AgentResult[T] | None:
        """Continue a turn that a crash or a restart interrupted, and wait for its end in any process; None: there is none, and the first
        message that waits in the queue begins its turn. `model`, `output` and `deps`: with which the turn was run, if this process does not
        have them."""
        check_name("thread", thread)
        values = RunValues(model=model, output=None if output is None else Output.of(output), deps=deps_of(deps))
        begun = await begin_cut_turn(self._tool, self._threads, thread, values)
        number = await self._threads.next(thread) if begun is None else begun
        place: Place | None = "here"
        if begun is None:
            bring = bringing(self._tool, self._threads, thread, number, values)
            place = await self._threads.join(Wanted(), thread, number, bring)
        await self._tool.mailbox.let_go(self._host, thread)
        if place is None:
            await work_off(self._tool, self._host, thread)
            return None
        return self._typed(await self._threads.joined(thread, number), values)

    async def take_up(self, thread: str = "default") -> int | None:
        """`resume` without the wait: returns the number of the turn that now runs in this process; `events` follows it. `AgentBusy`: it
        runs in another one."""
        check_name("thread", thread)
        begun = await begin_cut_turn(self._tool, self._threads, thread, NO_VALUES)
        if begun is not None:
            return begun
        number = await self._threads.next(thread)
        place = await self._threads.join(Wanted(), thread, number)
        if place == "elsewhere":
            raise AgentBusy(
                f"turn {number} of thread {thread!r} goes on in another process. Follow it with agent.events({thread!r})."
            )
        return None if place is None else number

    async def wait(self, thread: str = "default", turn: int | None = None) -> AgentResult[T] | None:
        """Wait for the end of a turn (default: the running one) in any process; None: there is none."""
        check_name("thread", thread)
        number = await self._threads.next(thread) if turn is None else turn
        if turn is None and await self._threads.record(thread, number) is None:
            return None
        return self._typed(await self._threads.ended(thread, number))

    async def send(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        when: When = "next",
        id: str | None = None,
        output: Any = None,
        **options: Unpack[Given],
    ) -> Sent:
        """Store a message for a thread and return; it is a turn of its own, or part of the running one, exactly once, also if this process
        dies.

        `when`: `next`, after the running turn and the messages before this one; `now`, the model reads it with the next request of the
        running turn, or it is as `next` if that turn asks no more; `interrupt`, the running turn is stopped, and this message is the
        next one. `id`: a text of yours; sent again with the same text it is the same message, with another one `Conflict`. The other
        options are those of the turn that it begins, as in `run`. `stop` holds the queue until the next `send`, `run` or `resume`.
        """
        wanted = _wanted(await self._said(message), thread, None, id)
        if when not in ("next", "now", "interrupt"):
            raise UsageError(f"when is 'next', 'now' or 'interrupt', not {when!r}.")
        host, mailbox = self._host, self._tool.mailbox
        given = taken(options, output)
        self._check_handoffs()
        if given.values.model is not None or given.options.deps:
            raise UsageError(
                "a message in the queue may begin its turn in another process: give the model to the agent, and deps to the runtime "
                '(Runtime(deps={"db": factory})), not to send.'
            )
        if lacking := lacking_dep(self._lifecycle, host, given):
            raise UsageError(lacking)
        text = wanted.message or ""
        head, running = await self._threads.settled(thread) if when == "interrupt" else (None, None)
        sent = QueuedMessage(
            id=id or new_id(), text=text, files=list(wanted.files), when=when, at=host.clock.now(), thread=thread, caller=host.caller,
            scopes=sorted(host.scopes), requesters=sorted(host.requesters), options=msgspec.to_builtins(given.options),
            stops=head.turns + 1 if head is not None and running is not None else 0,
        )  # fmt: skip
        wanted = msgspec.structs.replace(wanted, id=sent.id)
        if await self._turn_of(wanted, thread) is None:
            await mailbox.put(host, sent)
        await mailbox.let_go(host, thread)
        begun = await work_off(self._tool, host, thread)
        turn = begun.get(sent.id)
        return Sent(id=sent.id, turn=await self._turn_of(wanted, thread) if turn is None else turn)

    async def _turn_of(self, wanted: Wanted, thread: str) -> int | None:
        """The turn that has taken a message. `Conflict`: another message has its id."""
        id = wanted.id
        await self._tool.mailbox.was_sent(self._host, thread, id, wanted.message)
        document = await self._memory.of_id(self._host, thread, id)
        if document is not None:
            if not has_message(document, id, wanted.message):
                raise Conflict(other_message(wanted, thread))
            return document.turn
        head, record = await self._threads.settled(thread)
        if record is None:
            return None
        running = TurnRecord(self._threads.entries(record.events, thread, head.turns + 1))
        is_its = id in running.heard or (running.begun is not None and running.begun.id == id)
        return head.turns + 1 if is_its else None

    async def queued(self, thread: str = "default") -> list[QueuedMessage]:
        """The messages of a thread that wait for a turn, in their order."""
        check_name("thread", thread)
        return await self._tool.mailbox.list(self._host, thread)

    async def unsend(self, id: str, thread: str = "default") -> bool:
        """Take a message back: no turn takes it any more. False: one has, or is about to, or there is none."""
        check_name("thread", thread)
        return await self._tool.mailbox.take_back(self._host, thread, id)

    async def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the running turn, in any process. False: there is none. Messages that wait stay in the queue until the next `send`,
        `run` or `resume`."""
        check_name("thread", thread)
        if await self._tool.mailbox.list(self._host, thread):
            await self._tool.mailbox.hold(self._host, thread)
        number = await self._threads.next(thread)
        with suppress(NotFound):
            return await self._host.cancel(
                turn_id(number), self._threads.inner(thread), reason or "the agent was stopped"
            )
        return False

    # Forks.

    async def fork(
        self, thread: str = "default", *, after: int | None = None, step: int | None = None, to: str | None = None
    ) -> ThreadView:
        """A new thread with the turns of this one up to number `after` (default: all that have ended), and with `step` also the next
        turn up to the results of that step, which `resume(to)` continues. The old thread is not changed, and its running turn goes on.

        The new thread has the messages, the entries, the plan, the artifacts, the threads of agents that were called, and the met
        dependencies of tools. It has no grants, no queued messages, no sessions of tools or programs, which the model reads, and none of
        what was spent. `to`: its name; default: one of its own. If that thread is this fork already, it is returned; another thread:
        `Conflict`. A kill leaves nothing that can be seen. `NotFound`: there is no such turn, or the step has no results on record.
        """
        check_name("thread", thread)
        with self._host.while_open():
            return await self.look(await make_fork(self._threads, thread, after, step, to))

    async def forks(self, thread: str = "default") -> list[Fork]:
        """The forks of a thread, the oldest first, each with its own forks."""
        check_name("thread", thread)
        return await forks_of(self._threads, thread)

    async def rerun(
        self,
        thread: str = "default",
        *,
        turn: int,
        model: ChatModel | None = None,
        system: str | None = None,
        effects: Effects = "recorded",
        to: str | None = None,
    ) -> AgentResult[T]:
        """Run a turn again, in a fork of the thread before it, also with another model or other instructions; `r.thread` is the fork.

        No tool runs for what is on record: the n-th call of a tool with equal arguments gets the n-th recorded outcome, failures and
        unknown outcomes too. `effects` says what becomes of a further call: `recorded`, it is refused (`not_recorded`); `ask`, a person is
        asked; `live`, it runs. Checks, middleware and the policy decide anew. `to`: the name of the fork; the same line again gives the
        same turn. `NotFound`: there is no such turn, or it is not kept any more.
        """
        wanted, name, given, frontend = await self._again(thread, turn, model, system, effects, to)
        with self._host.while_open():
            return self._typed(await self._run(wanted, name, given, frontend), given.values)

    async def begin_rerun(
        self,
        thread: str = "default",
        *,
        turn: int,
        model: ChatModel | None = None,
        system: str | None = None,
        effects: Effects = "recorded",
        to: str | None = None,
    ) -> ThreadView:
        """As `rerun`, without the wait: returns the fork as soon as its turn is durable. Its number is `turn`."""
        wanted, name, given, frontend = await self._again(thread, turn, model, system, effects, to)
        await begin(self._tool, self._threads, self._lifecycle, wanted, name, given, frontend)
        return await self.look(name)

    async def _again(
        self, thread: str, turn: int, model: ChatModel | None, system: str | None, effects: Any, to: str | None
    ) -> tuple[Wanted, str, Taking, Sequence[ToolOffer]]:
        """Make the fork in which a turn is run again. What the turn was run with holds, but for its model and its deps."""
        check_name("thread", thread)
        if type(turn) is not int or turn < 1:
            raise UsageError(f"turn is the number of a turn, from 1, not {turn!r}.")
        again = Again(thread=thread, turn=turn, effects=checked_effects(effects))
        given = taken({"model": model, "system": system})
        await calls_of(self._threads, thread, turn)  # it is kept
        found = await turn_on_record(self._threads, thread, turn)
        begun = None if found is None else begun_in(found.entries)
        if found is None or begun is None:
            raise NotFound(f"turn {turn} of thread {thread!r} had not begun when it ended, so it cannot be run again.")
        before = options_in(found.arguments.get("options"))
        options = msgspec.structs.replace(
            before, model=given.options.model, system=before.system if system is None else system, deps=[], again=again
        )
        name = await make_fork(self._threads, thread, turn - 1, None, to)
        wanted = Wanted(message=begun.message, files=tuple(begun.files), turn=turn)
        return wanted, name, Taking(options, given.values), offers_in(found.arguments.get("frontend", ()))

    # Reading.

    def state(self, thread: str = "default") -> AgentState:
        """The state of a thread as this process knows it, without waiting. `look` reads the store, so it knows of other processes."""
        check_name("thread", thread)
        host = self._host
        if (host.caller, thread) in self._tool.turns:
            return AgentState.RUNNING
        head = self._memory.glance(host, thread)
        return AgentState.IDLE if head is None else head.state

    async def look(self, thread: str = "default") -> ThreadView:
        """A thread, read from the store."""
        check_name("thread", thread)
        host, threads = self._host, self._threads
        head, record = await threads.settled(thread)
        plan = None
        if record is not None:
            plan = plan_in(threads.entries(record.events, thread, head.turns + 1))
        elif head.is_cut and (cut := await turn_on_record(threads, thread, head.turns + 1)) is not None:
            plan = plan_in(cut.entries)
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
            waiting_for=["resume"] * head.is_cut if record is None else await self._waits(thread, record),
            origin=head.origin,
        )

    async def _waits(self, thread: str, running: Record) -> list[str]:
        """Ids of calls that wait for a person, and what the turn itself waits for."""
        calls = [id for _, id in await self._host.waits_for_people(thread)]
        return calls if running.waiting_for is None else [*calls, running.waiting_for]

    async def spend(self, thread: str = "default") -> SpendReport:
        """What the thread has spent, by run, sub-agents included; and what is left of the budgets that its next request is charged to."""
        check_name("thread", thread)
        host = self._host
        return await host.spending.of_thread(
            spender_of_turn(host.caller, thread, self.name, await self._threads.next(thread))
        )

    async def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of a thread that models read: those of its turns that have ended."""
        check_name("thread", thread)
        return list((await self._memory.load(self._host, thread)).messages)

    async def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that have ended, the oldest first; `after` of one page fetches the next."""
        check_name("thread", thread)
        if type(limit) is not int or not 1 <= limit <= 1_000 or type(after) is not int or after < 0:
            raise UsageError(f"limit is a number from 1 to 1,000 and after one from 0, not {limit!r} and {after!r}.")
        return await self._memory.page(self._host, thread, after=after, limit=limit)

    @contextmanager
    def listening(self, thread: str = "default") -> Iterator[FeedReader]:
        """Collects the live events of a thread for `events(…, reader=…)`. Enter it before `begin`: a model is asked to stream its answer
        only if the thread has a reader at that moment, and `events` alone would come too late for the first answer."""
        check_name("thread", thread)
        reader = self._streams.listen(self._threads, thread)
        try:
            yield reader
        finally:
            self._streams.leave(self._threads, thread, reader)

    async def events(
        self, thread: str = "default", *, after: str = "", follow: bool = False, reader: FeedReader | None = None
    ) -> AsyncIterator[AgentEvent]:
        """Events of a thread after the event with the id `after` (default: those of its last turn), then live ones.

        Ends with the running turn, or at once if there is none; with `follow` later turns are streamed too. `reader`: one that
        `listening` gave, to get live events from before this call.
        """
        check_name("thread", thread)
        position = position_of(after)
        threads = self._threads
        with self._host.while_open(), self.listening(thread) if reader is None else nullcontext(reader) as live:
            head, running = await threads.settled(thread)
            # An id beyond the next turn is from another store: start again. (A turn's events may come before its end is counted.)
            if position[0] > head.turns + 2:
                position = (0, 0, 0, 0)
            number = position[0] or max(head.turns + (running is not None), 1)
            while True:
                async with aclosing(self._streams.turn(threads, live, thread, number, position)) as events:
                    async for event in events:
                        position = position_of(event.id) if event.id else position
                        yield event
                head, running = await threads.settled(thread)
                if number <= head.turns:
                    number += 1
                    # The calls of ended turns may have been removed: such a turn has no events.
                    if number <= head.turns or running is not None:
                        continue
                if not follow:
                    return
                await self._streams.next_turn(threads, live, thread, number)

    async def recorded(self, thread: str, turn: int) -> list[AgentEvent]:
        """The events of a turn that are on record now, without waiting for more; none if they are not kept any more."""
        check_name("thread", thread)
        return await self._streams.recorded(self._threads, thread, turn)

    async def forget(self, thread: str = "default") -> int:
        """Remove a thread from the agent's memory; returns the number of turns. Its calls are kept as long as other calls from then on."""
        check_name("thread", thread)
        record = None
        with suppress(StoreUnavailable):  # a damaged thread can be removed, too
            number = await self._threads.next(thread)
            record = await self._threads.record(thread, number)
        if record is not None and not record.state.is_terminal:
            raise AgentBusy(f"turn {number} of thread {thread!r} is running; end it with agent.stop({thread!r}) first.")
        forgotten = await self._memory.forget(self._host, thread)
        for held in (self._threads.inner(thread), thread):
            await self._host.release_calls(held)
        return forgotten

    def outages(self, log: TurnLog) -> Outages:
        """For a call that waits for a turn of this agent."""
        return Outages(self._host, log)


def copy_on(agent: Agent, rt: HasHost) -> Agent:
    """The same agent on another runtime, with the agents to which it hands that were given as such. Its hook is not called there."""
    handoffs = [
        msgspec.structs.replace(each, agent=copy_on(each.agent, rt)) if isinstance(each.agent, Agent) else each
        for each in agent._handoffs.values()
    ]
    return Agent(rt, **{**agent._made_with, "handoffs": handoffs})


def host_of(agent: Agent) -> AgentHost:
    """Its runtime."""
    return agent._host


def on_record(agent: Agent) -> Mapping[str, Any]:
    """What its turns record of it: its instructions, the name of its model, its tools and limits."""
    return agent._lifecycle.identity.on_record()


async def seed_thread(agent: Agent, thread: str, messages: Sequence[ChatMessage]) -> None:
    """Begin a new thread with messages from elsewhere, as its first turn."""
    document = TurnDocument(
        turn=1, messages=tuple(messages), state=AgentState.FINISHED, stopped="finished", at=agent._host.clock.now()
    )
    await agent._memory.save(agent._host, thread, document)


def _kind_of(drive: Drive) -> str:
    """A name for what a drive of your own does: that of the function, or of its class."""
    named: Any = drive if hasattr(drive, "__qualname__") else type(drive)
    return f"{named.__module__}.{named.__qualname__}"


def _ignore(before: AgentState, after: AgentState, thread: str) -> None:
    pass


def _wanted(message: Any, thread: str, turn: int | None, id: str | None, run: str = "") -> Wanted:
    files = message.files if isinstance(message, UserMessage) else ()
    text = _checked(message.text if isinstance(message, UserMessage) else message, thread)
    if turn is not None and (type(turn) is not int or turn < 1):
        raise UsageError(f"turn is the number of a turn, from 1, not {turn!r}.")
    if id is not None:
        check_name("id", id)
    return Wanted(message=text, files=files, turn=turn, id=id or "", run=run)


def _checked(message: Any, thread: str) -> str:
    """The message in a form that stores accept."""
    if not isinstance(message, str) or not message.strip():
        raise UsageError(f"a message must be a text that is not empty, not {message!r:.100}.")
    text = storable(message)
    size = len(encode(text))
    if len(text) > _MAX_MESSAGE or size > _MAX_BYTES:
        raise UsageError(
            f"the message has {len(text):,} characters in {size:,} bytes; the limit is {_MAX_MESSAGE:,} characters in "
            f"{_MAX_BYTES:,} bytes. Put the text into a file (rt.put_artifact), and give the agent a tool that reads it."
        )
    check_name("thread", thread)
    return text
