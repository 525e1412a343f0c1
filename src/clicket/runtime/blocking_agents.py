"""`Agent`, and what it gives: the async classes for programs without an event loop.

Written by `scripts/blocking.py`: change the async classes, then run `make docs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, Unpack, overload

from clicket.agents.again import Effects
from clicket.agents.agent import Agent as AsyncAgent
from clicket.agents.agent import T, V
from clicket.agents.agent_result import AgentEvent, AgentResult, Sent, ThreadView
from clicket.agents.chain import Chain
from clicket.agents.check import Check
from clicket.agents.context_window import ContextWindow
from clicket.agents.handoff import Handoff, Named
from clicket.agents.mailbox import QueuedMessage, When
from clicket.agents.memory import Page
from clicket.agents.origin import Fork
from clicket.agents.output import Output
from clicket.agents.plan_execute import PlanExecuteAgent as AsyncPlanExecuteAgent
from clicket.agents.react import ReActAgent as AsyncReActAgent
from clicket.agents.run_options import Given
from clicket.agents.subagents import AgentTool
from clicket.agents.turn_lifecycle import Deltas, Drive, OnChange, ReturnTo, StateChanged
from clicket.agents.turn_limits import Limits
from clicket.agents.undo_turn import UndoOn
from clicket.agents.user_message import Message, UserMessage
from clicket.errors import known_keywords
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ToolOffer
from clicket.model.ports import ChatModel
from clicket.model.spend import SpendReport
from clicket.runtime.blocking import Runtime
from clicket.runtime.blocking_base import BlockingPart
from clicket.tools import Tool

__all__ = ["Agent", "PlanExecuteAgent", "ReActAgent"]


class Agent(BlockingPart[AsyncAgent[T]]):
    """`drive(turn)` runs a turn to its end, and returns why it ended and its final text.

    An agent is its name on one store. `tools`: names of tools that the runtime must have. `only`: names of the tools that it may call,
    and that `find_tools` may find for it; None: all that the hub offers. `kind`, `only` and `limits` say what it may do, `more_limits`
    adds limits of its kind; `system` and `model` are recorded with each turn. A second agent of this name on one runtime must be able
    to do the same, or take the place of the first (`replace=True`). `on_change`: what becomes of an interrupted turn that an agent of
    this name began which could do something else: `continue` with the tools that both may use, or `refuse` (`AgentChanged`). `undo_on`:
    after which ends of a turn its calls are undone, see `ReActAgent`. `middleware` surrounds its requests and tool calls, see
    `Middleware`. `checks`: see `Check`. `output`: the type of its answers, which `r.value` then has. `handoffs`, `max_handoffs`,
    `return_to`: see `ReActAgent`; a drive of your own lets `TurnHandedOver` through, which `Actor.act` raises. `deltas`: see
    `ReActAgent`. `on_state_changed(before, after, thread)`: a function that is called for every change of state.
    """

    @known_keywords
    def __init__(
        self,
        rt: Runtime,
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
        self._make(
            rt,
            lambda of: AsyncAgent(
                of,
                drive,
                name=name,
                limits=limits,
                tools=tools,
                only=only,
                kind=kind,
                system=system,
                model=model,
                more_limits=more_limits,
                middleware=middleware,
                checks=checks,
                output=output,
                handoffs=handoffs,
                max_handoffs=max_handoffs,
                return_to=return_to,
                replace=replace,
                on_change=on_change,
                deltas=deltas,
                undo_on=undo_on,
                on_state_changed=on_state_changed,
            ),
        )

    @property
    def name(self) -> str:
        return self._async.name

    @property
    def limits(self) -> Limits:
        return self._async.limits

    def __repr__(self) -> str:
        return repr(self._async)

    def acting_for(self, rt: Runtime) -> Self:
        """This agent on behalf of a caller; `rt` is a runtime that acts for the caller."""
        return self._over(self._loop.run(lambda: self._async.acting_for(rt._async)))

    def as_tool(self, name: str | None = None, description: str = "", *, background: bool = False) -> AgentTool:
        """This agent as a tool for other agents: `rt.add(agent.as_tool("research", "Finds things out."))`. `background`: the agent that
        calls it goes on meanwhile, and reads the answer in a later message.
        """
        return self._loop.run(lambda: self._async.as_tool(name, description, background=background))

    @overload
    def run(
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
    def run(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Mapping[str, Any] | None = None,
        **options: Unpack[Given],
    ) -> AgentResult[T]: ...
    def run(
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

        With `id` or `turn` the same line can be sent again at any time. `id`: a text of yours; a thread has one turn for one id, as
        long as the thread is kept. `turn`: the number that the turn must have. If the thread has that turn, its result is returned, or
        its error raised; if it has another message, `Conflict` is raised.

        `model`, `system`, `output`, `limits`: in place of the agent's, for this turn. `tools` narrows what the agent may use.
        `metadata`: JSON for middleware (`turn.metadata`) and readers. They are recorded, and hold for the turn wherever it goes on.

        `deps`: values of this process for tools, by name, in place of what the runtime makes: `deps={"db": pool}` is `ctx.deps["db"]`,
        a parameter with `Depends("db")`, and `turn.deps["db"]`. Only the names are recorded. A process that does not have the model or
        a dep waits for a caller that brings it (`waiting_for` says `model:NAME`, `dep:NAME`).
        """
        return self._loop.call(self._async.run(message, thread=thread, turn=turn, id=id, output=output, **options))

    def begin(
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
        return self._loop.call(
            self._async.begin(
                message, thread=thread, turn=turn, id=id, run=run, frontend=frontend, output=output, **options
            )
        )

    def stream(
        self,
        message: Message | UserMessage,
        *,
        thread: str = "default",
        turn: int | None = None,
        id: str | None = None,
        output: Any = None,
        **options: Unpack[Given],
    ) -> Iterator[AgentEvent]:
        """Run one turn and yield its events; the last one is `final` or `error`. The turn continues if the iteration ends early.

        The options are as in `run`; a turn that began before is streamed from its beginning.
        """
        return self._loop.iterate(
            self._async.stream(message, thread=thread, turn=turn, id=id, output=output, **options)
        )

    def resume(
        self,
        thread: str = "default",
        *,
        model: ChatModel | None = None,
        output: type[T] | Output[T] | None = None,
        deps: Mapping[str, Any] | None = None,
    ) -> AgentResult[T] | None:
        """Continue a turn that a crash or a restart interrupted, and wait for its end in any process; None: there is none, and the first
        message that waits in the queue begins its turn. `model`, `output` and `deps`: with which the turn was run, if this process does
        not have them.
        """
        return self._loop.call(self._async.resume(thread, model=model, output=output, deps=deps))

    def take_up(self, thread: str = "default") -> int | None:
        """`resume` without the wait: returns the number of the turn that now runs in this process; `events` follows it. `AgentBusy`: it
        runs in another one.
        """
        return self._loop.call(self._async.take_up(thread))

    def wait(self, thread: str = "default", turn: int | None = None) -> AgentResult[T] | None:
        """Wait for the end of a turn (default: the running one) in any process; None: there is none."""
        return self._loop.call(self._async.wait(thread, turn))

    def send(
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
        return self._loop.call(self._async.send(message, thread=thread, when=when, id=id, output=output, **options))

    def queued(self, thread: str = "default") -> list[QueuedMessage]:
        """The messages of a thread that wait for a turn, in their order."""
        return self._loop.call(self._async.queued(thread))

    def unsend(self, id: str, thread: str = "default") -> bool:
        """Take a message back: no turn takes it any more. False: one has, or is about to, or there is none."""
        return self._loop.call(self._async.unsend(id, thread))

    def stop(self, thread: str = "default", reason: str = "") -> bool:
        """Cancel the running turn, in any process. False: there is none. Messages that wait stay in the queue until the next `send`,
        `run` or `resume`.
        """
        return self._loop.call(self._async.stop(thread, reason))

    def fork(
        self, thread: str = "default", *, after: int | None = None, step: int | None = None, to: str | None = None
    ) -> ThreadView:
        """A new thread with the turns of this one up to number `after` (default: all that have ended), and with `step` also the next turn
        up to the results of that step, which `resume(to)` continues. The old thread is not changed, and its running turn goes on.

        The new thread has the messages, the entries, the plan, the artifacts, the threads of agents that were called, and the met
        dependencies of tools. It has no grants, no queued messages, no sessions of tools or programs, which the model reads, and none
        of what was spent. `to`: its name; default: one of its own. If that thread is this fork already, it is returned; another thread:
        `Conflict`. A kill leaves nothing that can be seen. `NotFound`: there is no such turn, or the step has no results on record.
        """
        return self._loop.call(self._async.fork(thread, after=after, step=step, to=to))

    def forks(self, thread: str = "default") -> list[Fork]:
        """The forks of a thread, the oldest first, each with its own forks."""
        return self._loop.call(self._async.forks(thread))

    def rerun(
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
        unknown outcomes too. `effects` says what becomes of a further call: `recorded`, it is refused (`not_recorded`); `ask`, a person
        is asked; `live`, it runs. Checks, middleware and the policy decide anew. `to`: the name of the fork; the same line again gives
        the same turn. `NotFound`: there is no such turn, or it is not kept any more.
        """
        return self._loop.call(self._async.rerun(thread, turn=turn, model=model, system=system, effects=effects, to=to))

    def begin_rerun(
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
        return self._loop.call(
            self._async.begin_rerun(thread, turn=turn, model=model, system=system, effects=effects, to=to)
        )

    def state(self, thread: str = "default") -> AgentState:
        """The state of a thread as this process knows it, without waiting. `look` reads the store, so it knows of other processes."""
        return self._loop.run(lambda: self._async.state(thread))

    def look(self, thread: str = "default") -> ThreadView:
        """A thread, read from the store."""
        return self._loop.call(self._async.look(thread))

    def spend(self, thread: str = "default") -> SpendReport:
        """What the thread has spent, by run, sub-agents included; and what is left of the budgets that its next request is charged to."""
        return self._loop.call(self._async.spend(thread))

    def messages(self, thread: str = "default") -> list[ChatMessage]:
        """The messages of a thread that models read: those of its turns that have ended."""
        return self._loop.call(self._async.messages(thread))

    def history(self, thread: str = "default", *, after: int = 0, limit: int = 100) -> Page:
        """The turns of a thread that have ended, the oldest first; `after` of one page fetches the next."""
        return self._loop.call(self._async.history(thread, after=after, limit=limit))

    def events(self, thread: str = "default", *, after: str = "", follow: bool = False) -> Iterator[AgentEvent]:
        """Events of a thread after the event with the id `after` (default: those of its last turn), then live ones.

        Ends with the running turn, or at once if there is none; with `follow` later turns are streamed too.
        """
        return self._loop.iterate(self._async.events(thread, after=after, follow=follow))

    def forget(self, thread: str = "default") -> int:
        """Remove a thread from the agent's memory; returns the number of turns. Its calls are kept as long as other calls from then on."""
        return self._loop.call(self._async.forget(thread))


class ReActAgent(Agent[T]):
    """`agent = ReActAgent(rt, model, max_steps=20, system="…"); r = agent.run("question", thread="t1")`.

    `tools`: names of the tools that may be offered and called; the default is all that the hub offers. `name`: agents with the same
    name on one store share their threads. `max_steps`, `max_calls`, `max_tokens`, `max_cost`, `max_seconds` and `max_repeats` limit one
    run. `max_observation`: characters of a result that the model reads at once. `window`: the approximate maximum of tokens in a
    request, or a `ContextWindow`. `tool_search`: if there are more than `max_offered` tools (20), the model is offered that many and
    the tool `find_tools`; the tools that it finds are offered from the next step on. `max_offered` alone turns it on, too.
    `middleware`: surrounds its requests to the model and its tool calls, see `Middleware`. `checks`: what it may be told, answer, call
    and read, see `Check`. `output`: the type of the answer, which `r.value` has: a pydantic model, a dataclass, a `msgspec.Struct`, a
    `TypedDict`, a type such as `list[int]`, or a JSON Schema. `output_retries`: how many answers of a turn may be refused, by checks,
    by middleware or because they do not fit, before it ends as `refused` or `invalid_output`. `handoffs`: agents, or their names, to
    which its model may hand a turn, with a tool `hand_to_NAME` for each; see `Handoff`. The other agent then drives the turn with its
    own system, model, tools, middleware and output; the turn stays in this agent's thread, under its limits, spend and checks of
    messages. `max_handoffs`: in one turn. `return_to`: the next turn of the thread begins with the `last` agent, or with this one
    (`first`). `replace`: put it in the place of another agent of its name on this runtime that has other tools or limits. `on_change`:
    what becomes of an interrupted turn that an agent of this name with other tools or limits began: `continue` with the tools that both
    may use, or `refuse`. `deltas`: `stored` keeps the pieces of an answer in the store until it is on record, so that readers in any
    process get them (`events`); `live` passes them to readers in this process alone. `undo_on`: after which ends of a turn its calls
    are undone, the last one first: `"failed"` (an error, or `invalid_output`, or `refused`), `"cancelled"`, `"budget"`, `"max_steps"`,
    `"repeated"`, one or several. The turn ends when that is done.
    """

    @known_keywords
    def __init__(
        self,
        rt: Runtime,
        model: ChatModel,
        *,
        name: str = "react",
        system: str = "",
        tools: Collection[str | Tool] | None = None,
        max_steps: int = 20,
        max_calls: int | None = 200,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        max_repeats: int | None = 5,
        max_concurrency: int = 5,
        max_observation: int = 32768,
        max_answer_tokens: int | None = None,
        model_retries: int = 3,
        retry_delay: float = 1.0,
        window: ContextWindow | int | None = None,
        tool_search: bool = False,
        max_offered: int | None = None,
        middleware: Iterable[object] = (),
        checks: Iterable[Check] = (),
        output: type[T] | Output[T] | Mapping[str, Any] | None = None,
        output_retries: int = 2,
        handoffs: Iterable[Handoff | Named | str] = (),
        max_handoffs: int = 5,
        return_to: ReturnTo = "last",
        replace: bool = False,
        on_change: OnChange = "continue",
        deltas: Deltas = "live",
        undo_on: UndoOn | Collection[UndoOn] | None = None,
        on_state_changed: StateChanged | None = None,
    ) -> None:
        self._make(
            rt,
            lambda of: AsyncReActAgent(
                of,
                model,
                name=name,
                system=system,
                tools=tools,
                max_steps=max_steps,
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_cost=max_cost,
                max_seconds=max_seconds,
                max_repeats=max_repeats,
                max_concurrency=max_concurrency,
                max_observation=max_observation,
                max_answer_tokens=max_answer_tokens,
                model_retries=model_retries,
                retry_delay=retry_delay,
                window=window,
                tool_search=tool_search,
                max_offered=max_offered,
                middleware=middleware,
                checks=checks,
                output=output,
                output_retries=output_retries,
                handoffs=handoffs,
                max_handoffs=max_handoffs,
                return_to=return_to,
                replace=replace,
                on_change=on_change,
                deltas=deltas,
                undo_on=undo_on,
                on_state_changed=on_state_changed,
            ),
        )


class PlanExecuteAgent(Agent[T]):
    """`agent = PlanExecuteAgent(rt, model, max_steps=40)`: a planner with a plan tool, and executors that have the tools.

    `executor`: another model for them. `max_steps` bounds all steps of a run together, `max_task_steps` those of one executor,
    `max_parallel` how many of them work at once. The other options are as in `ReActAgent`.
    """

    @known_keywords
    def __init__(
        self,
        rt: Runtime,
        model: ChatModel,
        *,
        executor: ChatModel | None = None,
        name: str = "plan",
        system: str = "",
        tools: Collection[str | Tool] | None = None,
        max_steps: int = 40,
        max_task_steps: int = 10,
        max_parallel: int = 5,
        max_calls: int | None = 200,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        max_repeats: int | None = 5,
        max_concurrency: int = 5,
        max_observation: int = 32768,
        max_answer_tokens: int | None = None,
        model_retries: int = 3,
        retry_delay: float = 1.0,
        window: ContextWindow | int | None = None,
        tool_search: bool = False,
        max_offered: int | None = None,
        middleware: Iterable[object] = (),
        checks: Iterable[Check] = (),
        output: type[T] | Output[T] | Mapping[str, Any] | None = None,
        output_retries: int = 2,
        replace: bool = False,
        on_change: OnChange = "continue",
        deltas: Deltas = "live",
        undo_on: UndoOn | Collection[UndoOn] | None = None,
        on_state_changed: StateChanged | None = None,
    ) -> None:
        self._make(
            rt,
            lambda of: AsyncPlanExecuteAgent(
                of,
                model,
                executor=executor,
                name=name,
                system=system,
                tools=tools,
                max_steps=max_steps,
                max_task_steps=max_task_steps,
                max_parallel=max_parallel,
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_cost=max_cost,
                max_seconds=max_seconds,
                max_repeats=max_repeats,
                max_concurrency=max_concurrency,
                max_observation=max_observation,
                max_answer_tokens=max_answer_tokens,
                model_retries=model_retries,
                retry_delay=retry_delay,
                window=window,
                tool_search=tool_search,
                max_offered=max_offered,
                middleware=middleware,
                checks=checks,
                output=output,
                output_retries=output_retries,
                replace=replace,
                on_change=on_change,
                deltas=deltas,
                undo_on=undo_on,
                on_state_changed=on_state_changed,
            ),
        )
