"""`PlanExecuteAgent`: a planner makes a plan, executors run its ready steps concurrently in branches of the turn, and their messages are
merged in the order of the steps; then the planner continues. A branch that fails blocks its own step only."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from clicket.agents.agent import Agent, HasHost, T
from clicket.agents.agent_options import AgentOptions
from clicket.agents.check import Check
from clicket.agents.context_window import ContextWindow
from clicket.agents.entries import Result
from clicket.agents.model_step import OutOfTime, Thinker
from clicket.agents.output import Output
from clicket.agents.plan import PLAN_NAMES, PLAN_OFFER, Plan, apply_command
from clicket.agents.react import Loop
from clicket.agents.read_result import ReadResult
from clicket.agents.task_waits import wait_all
from clicket.agents.transcript import storable
from clicket.agents.turn import Turn
from clicket.agents.turn_lifecycle import Deltas, OnChange, StateChanged
from clicket.agents.turn_limits import NO_STEPS, Ending, check_counts
from clicket.agents.typed_answers import TypedAnswers
from clicket.agents.undo_turn import UndoOn
from clicket.errors import ClicketError, InvalidInput, StoreUnavailable, known_keywords
from clicket.kernel import PlanStep
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.codec import clean, decode
from clicket.model.ports import ChatModel
from clicket.model.ports.model_trace import MODEL_TRACE
from clicket.tools import Tool

__all__ = ["PlanExecuteAgent"]

_PLANNER = (
    "You plan work and leave it to assistants. Make a plan with the tool `plan`; each step is carried out for you."
)
_EXECUTOR = "You carry out one step of a plan with the tools that you have. When it is done, answer with its result."


class PlanExecuteAgent(Agent[T]):
    """`agent = PlanExecuteAgent(rt, model, max_steps=40)`: a planner with a plan tool, and executors that have the tools.

    `executor`: another model for them. `max_steps` bounds all steps of a run together, `max_task_steps` those of one executor,
    `max_parallel` how many of them work at once. The other options are as in `ReActAgent`.
    """

    @known_keywords
    def __init__(
        self,
        rt: HasHost,
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
        replace: bool = False,
        on_change: OnChange = "continue",
        deltas: Deltas = "live",
        undo_on: UndoOn | Collection[UndoOn] | None = None,
        on_state_changed: StateChanged | None = None,
    ) -> None:
        options = AgentOptions.of(locals())
        worker = executor or model
        own = (*options.tool_choice(worker), ReadResult())
        loop = Loop(options.thinker(worker, *own, role=_EXECUTOR), options.actor(), tools)
        planner = options.thinker(model, TypedAnswers.by(model), role=_PLANNER)
        super().__init__(
            rt,
            PlanExecuteLoop(planner, loop, max_task_steps=max_task_steps, max_parallel=max_parallel),
            kind="plan",
            model=planner.name,
            tools=loop.only or (),
            only=loop.only,
            more_limits={"max_task_steps": max_task_steps, "max_parallel": max_parallel},
            **options.of_agent(),
        )


class PlanExecuteLoop:
    """The drive of a `PlanExecuteAgent`."""

    def __init__(self, planner: Thinker, executor: Loop, *, max_task_steps: int, max_parallel: int) -> None:
        check_counts(1, max_task_steps=max_task_steps, max_parallel=max_parallel)
        self._planner = planner
        self._executor = executor
        self._max_task_steps = max_task_steps
        self._max_parallel = max_parallel

    async def __call__(self, turn: Turn) -> Ending:
        plan: Plan | None = None
        turn.journaled = False
        while True:
            over = turn.over()
            if over is not None:
                return over if turn.spent.steps else (over[0], NO_STEPS)
            try:
                message = await self._plan(turn)
            except OutOfTime as late:
                if plan is not None and plan.is_completed and turn.output is None:
                    return "finished", plan.outcome()
                return "budget", f"Terminated: {late.message}" if turn.spent.steps else NO_STEPS
            if not message.uses:
                return "finished", message.content
            plan, summary, stop = self._command(turn, message, plan)
            if stop is not None:
                return stop
            if turn.answer is not None:  # it came with the commands
                return "finished", message.content
            if plan is not None and summary is not None and turn.output is None:
                return "finished", summary or message.content or plan.outcome()
            if plan is None or not plan.steps:
                continue
            plan, stop = await self._execute(turn, plan)
            if stop is not None:
                return stop
            if (
                plan.is_completed and turn.output is None and turn.over() is not None
            ):  # no request is left for the planner's answer
                return "finished", plan.outcome()
            turn.messages.append(ChatMessage(role="user", content=_status(plan)))

    async def _plan(self, turn: Turn) -> ChatMessage:
        trace = None if turn.is_replaying else MODEL_TRACE.get()
        if trace is None:
            return await self._planner.think(turn, (PLAN_OFFER,))
        with trace.part("plan", turn.agent, turn.agent, turn.thread):
            return await self._planner.think(turn, (PLAN_OFFER,))

    # The planner's commands.

    def _command(
        self, turn: Turn, message: ChatMessage, plan: Plan | None
    ) -> tuple[Plan | None, str | None, Ending | None]:
        """Apply the planner's commands and record a result for each. Returns the plan, its summary if it is finished, and why the turn
        ends, if it does."""
        known = turn.recorded_results()
        items: list[Result] = []
        found: dict[str, Result] = {}
        summary: str | None = None
        stop: Ending | None = None
        before = plan
        for use in message.uses:
            why = turn.count_call(use)
            if why is None:
                plan, text, failed, finished = _apply(plan, use)
            else:
                stop, text, failed, finished = stop or why, f"not done: {why[1]}.", True, None
            summary = finished if finished is not None else summary
            item = known.get(use.id) or Result.of(use, "", text, failed=failed)
            found[use.id] = item
            if use.id not in known:
                items.append(item)
        if items:
            turn.record_results(items, 0.0)
        turn.add_result_messages(message, found)
        if plan is not None and plan is not before:
            turn.record_plan(plan.body())
        return plan, summary, stop

    # The executors.

    async def _execute(self, turn: Turn, plan: Plan) -> tuple[Plan, Ending | None]:
        """Run the ready steps, batch by batch, until none is ready or a step is blocked."""
        blocked = False
        while not blocked and (ready := plan.ready()):
            for number in ready:
                plan = plan.marked(number, PlanStep.IN_PROGRESS)
            await turn.record_progress(plan.body())
            branches = [(number, self._branch_for(turn, plan, number)) for number in ready]
            try:
                endings = await self._run_branches([branch for _, branch in branches])
            except asyncio.CancelledError:
                for _, branch in branches:  # their messages stay in the thread
                    turn.merge(branch)
                raise
            stop: Ending | None = None
            for (number, branch), ending in zip(branches, endings, strict=True):
                turn.merge(branch)
                status, notes = _step_outcome(ending)
                plan = plan.marked(number, status, notes)
                blocked = blocked or status is PlanStep.BLOCKED
                if isinstance(ending, tuple) and ending[0] != "finished":
                    stop = stop or turn.spent.over(turn.limits)
            await turn.record_progress(plan.body())
            if stop is not None:
                return plan, stop
        return plan, None

    def _branch_for(self, turn: Turn, plan: Plan, number: int) -> Turn:
        task = f"{plan.as_text()}\n\nCarry out step {number}: {plan.steps[number - 1].text}"
        return turn.new_branch(f"{turn.steps}-{number}", task, turn.bounds.get("max_task_steps", self._max_task_steps))

    async def _run_branches(self, branches: list[Turn]) -> list[Ending | Exception]:
        """Run all branches, at most `max_parallel` at once. Cancellation cancels them; each records results for its calls first."""
        endings: list[Any] = [None] * len(branches)
        rest = iter(range(len(branches)))

        async def work() -> None:
            for place in rest:
                try:
                    endings[place] = await self._executor(branches[place])
                except StoreUnavailable:  # the whole turn waits for the store, and goes on from its entries
                    raise
                except Exception as error:
                    branches[place].leave_if_closing()
                    endings[place] = error

        if len(branches) == 1:
            await work()
            return endings
        tasks = [asyncio.ensure_future(work()) for _ in range(min(self._max_parallel, len(branches)))]
        await wait_all(tasks)
        return endings


def _apply(plan: Plan | None, use: ToolUse) -> tuple[Plan | None, str, bool, str | None]:
    """The plan after a call, the result's text, whether the call failed, and the summary if it finishes the plan."""
    if use.name not in PLAN_NAMES:
        text = f"tool_not_found: you have the tool `plan` alone; make {use.name!r:.100} part of a step."
        return plan, text, True, None
    try:
        given = decode(use.arguments or "{}")
        if not isinstance(given, dict):
            raise InvalidInput("the arguments must be an object")
        plan = apply_command(plan, given)
    except ClicketError as refused:
        return plan, clean(f"{refused.code}: {refused.message}"), True, None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return plan, clean(f"invalid_input: the arguments are no JSON: {error}"), True, None
    finished = storable(given.get("summary")) if given.get("command") == "finish" else None
    return plan, plan.as_text(), False, finished


def _step_outcome(ending: Ending | Exception) -> tuple[PlanStep, str]:
    if isinstance(ending, Exception):
        reason = ending.message if isinstance(ending, ClicketError) else f"{type(ending).__name__}: {ending}"
        return PlanStep.BLOCKED, clean(f"failed: {reason}")
    stopped, text = ending
    return (PlanStep.COMPLETED, text) if stopped == "finished" else (PlanStep.BLOCKED, text)


def _status(plan: Plan) -> str:
    if plan.is_completed:
        return f"{plan.as_text()}\n\nEvery step is completed. Give the final answer in words."
    return f"{plan.as_text()}\n\nNot every step could be carried out. Update the plan, or give the answer that you have in words."
