"""`ReActAgent`, and its loop: ask the model, run the tools that it asks for, and repeat until it asks for none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from clicket.agents.agent import Agent, HasHost, T
from clicket.agents.agent_options import AgentOptions
from clicket.agents.background_tools import BackgroundCalls
from clicket.agents.check import Check
from clicket.agents.context_window import ContextWindow
from clicket.agents.handoff import Handoff, Named, offers_of
from clicket.agents.model_step import OutOfTime, Thinker
from clicket.agents.output import Output
from clicket.agents.read_result import ReadResult
from clicket.agents.run_options import tool_names
from clicket.agents.tool_step import Actor
from clicket.agents.turn import Turn
from clicket.agents.turn_lifecycle import Deltas, OnChange, ReturnTo, StateChanged
from clicket.agents.turn_limits import NO_STEPS, Ending
from clicket.agents.typed_answers import TypedAnswers
from clicket.agents.undo_turn import UndoOn
from clicket.errors import known_keywords
from clicket.model.chat import ToolOffer
from clicket.model.ports import ChatModel
from clicket.tools import Tool

__all__ = ["Loop", "ReActAgent"]


class ReActAgent(Agent[T]):
    """`agent = ReActAgent(rt, model, max_steps=20, system="…"); r = await agent.run("question", thread="t1")`.

    `tools`: names of the tools that may be offered and called; the default is all that the hub offers. `name`: agents with the same
    name on one store share their threads. `max_steps`, `max_calls`, `max_tokens`, `max_cost`, `max_seconds` and `max_repeats` limit one
    run. `max_observation`: characters of a result that the model reads at once. `window`: the approximate maximum of tokens in a
    request, or a `ContextWindow`. `tool_search`: if there are more than `max_offered` tools (20), the model is offered that many and
    the tool `find_tools`; the tools that it finds are offered from the next step on. `max_offered` alone turns it on, too.
    `middleware`: surrounds its requests to the model and its tool calls, see `Middleware`. `checks`: what it may be told, answer, call
    and read, see `Check`. `output`: the type of the answer, which `r.value` has: a pydantic model, a dataclass, a `msgspec.Struct`, a
    `TypedDict`, a type such as `list[int]`, or a JSON Schema. `output_retries`: how many answers of a turn may be refused, by checks,
    by middleware or because they do not fit, before it ends as `refused` or `invalid_output`. `handoffs`: agents, or their names, to
    which its model may hand a turn, with a tool `hand_to_NAME` for each; see `Handoff`. The other agent then drives the turn with its own
    system, model, tools, middleware and output; the turn stays in this agent's thread, under its limits, spend and checks of messages.
    `max_handoffs`: in one turn. `return_to`: the next turn of the thread begins with the `last` agent, or with this one (`first`).
    `replace`: put it in the place of another agent of its name on this runtime that has other tools or limits. `on_change`: what
    becomes of an interrupted turn that an agent of this name with other tools or limits began: `continue` with the tools that both may
    use, or `refuse`. `deltas`: `stored` keeps the pieces of an answer in the store until it is on record, so that readers in any process
    get them (`events`); `live` passes them to readers in this process alone.
    `undo_on`: after which ends of a turn its calls are undone, the last one first: `"failed"` (an error, or
    `invalid_output`, or `refused`), `"cancelled"`, `"budget"`, `"max_steps"`, `"repeated"`, one or several. The turn ends when that is
    done.
    """

    @known_keywords
    def __init__(
        self,
        rt: HasHost,
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
        max_observation: int = 32_768,
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
        options = AgentOptions.of(locals())
        own = (*options.tool_choice(model), ReadResult(), BackgroundCalls(), TypedAnswers.by(model))
        loop = Loop(options.thinker(model, *own), options.actor(), tools)
        super().__init__(
            rt,
            loop,
            kind="react",
            model=loop.thinker.name,
            tools=loop.only or (),
            only=loop.only,
            handoffs=handoffs,
            max_handoffs=max_handoffs,
            return_to=return_to,
            **options.of_agent(),
        )


class Loop:
    """The drive of a `ReActAgent`. `only`: names of the tools that may be offered and called; None: all that the hub offers."""

    def __init__(self, thinker: Thinker, actor: Actor, only: Collection[str | Tool] | None = None) -> None:
        self.thinker = thinker
        self.actor = actor
        self.only = None if only is None else tool_names(only)

    async def __call__(self, turn: Turn) -> Ending:
        turn.allow(self.only)
        while True:
            await self.actor.collect(turn)
            offers = await self.offers(turn)
            over = turn.over()
            if over is not None:
                return over if turn.spent.steps else (over[0], NO_STEPS)
            try:
                message = await self.thinker.think(turn, offers, collect=self.actor.collect)
            except OutOfTime as late:
                return "budget", f"Terminated: {late.message}" if turn.spent.steps else NO_STEPS
            if not message.uses:
                return "finished", message.content
            stop = await self.actor.act(turn, message)
            if stop is not None:
                return stop
            if turn.answer is not None:  # it came with the calls
                return "finished", message.content

    async def offers(self, turn: Turn) -> tuple[ToolOffer, ...]:
        """The tools for the next request. The hub's offer changes with the outcomes of tool calls, so it is read for each step."""
        offers = await turn.host.offers(turn.thread)
        allowed = turn.allowed_tools
        if allowed is not None:
            offers = tuple(offer for offer in offers if offer.name in allowed)
        if turn.frontend:
            offers = (*(offer for offer in offers if offer.name not in turn.frontend), *turn.frontend.values())
        return (*offers, *offers_of(turn.handoffs.values())) if turn.handoffs else offers
