"""A turn is taken: the state machine around whatever drives it. Every change of state goes through the table, and every way out
leaves the thread paired, on record, and ready for the next turn."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

from clicket.agents import entries
from clicket.agents.feed import Feed
from clicket.agents.limits import Limits, Stopped
from clicket.agents.loop import NO_STEPS
from clicket.agents.memory import Head, Memory, TurnDocument
from clicket.agents.threads import document_of, ended_before, result_of
from clicket.agents.transcript import paired
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.values import AgentResult
from clicket.errors import ClicketError
from clicket.execution import TurnLog
from clicket.kernel import AGENT, AgentState
from clicket.model.codec import clean
from clicket.ports import AgentHost
from clicket.vault import hide_text

__all__ = ["Drive", "Hook", "StateChanged", "TurnLifecycle", "with_thread"]

logger = logging.getLogger("clicket.agents")

Drive = Callable[[Turn], Awaitable[tuple[Stopped, str]]]
Hook = Callable[..., Any]
"""`(before, after)` or `(before, after, thread)`; it may be async."""
StateChanged = Callable[[AgentState, AgentState, str], Any]
_MAX_ERROR = 4_000


class TurnLifecycle:
    """Brings turns of one agent to their end. `turns` are those under way in this process."""

    def __init__(
        self,
        name: str,
        memory: Memory,
        drive: Drive,
        limits: Limits,
        hook: StateChanged,
        turns: dict[tuple[str, str], Turn],
    ) -> None:
        self.turns = turns
        self._name = name
        self._memory = memory
        self._drive = drive
        self._limits = limits
        self._hook = hook

    async def take(
        self, host: AgentHost, log: TurnLog, feed: Feed, *, thread: str, number: int, message: str, tag: str
    ) -> tuple[AgentResult, BaseException | None]:
        """The result, and what to raise instead. It is cancelled only after all of it is on record; when the runtime closes,
        nothing is: whoever opens the store next goes on."""
        done = await self._memory.turn(host, thread, number) if log.entries else None
        known = await self._memory.load(host, thread)
        if done is not None:  # it was over, and its process died right after saying so
            await self._memory.save(host, thread, done)
            known = await self._memory.load(host, thread)
            return result_of(done, thread, known.messages), _failure(done)
        over = ended_before(log.entries)
        if over is not None:  # nor is what went wrong, or who stopped it, asked anew
            document = await self._memory.save(host, thread, document_of(number, message, log.shown_entries, over))
            known = await self._memory.load(host, thread)
            return result_of(document, thread, known.messages), _failure(document)
        turn = Turn(
            host, log, feed,
            thread=thread, number=number, mark=f"{self._name}.{number}", message=message,
            history=known.messages, limits=self._limits, tag=tag,
        )  # fmt: skip
        place = (host.caller, thread)
        self.turns[place] = turn
        try:
            return await self._through(turn, known.head, message)
        finally:
            if self.turns.get(place) is turn:
                del self.turns[place]

    async def _begin(self, turn: Turn, head: Head, message: str) -> None:
        if turn.recorded("begun") is not None:
            return
        states = [AgentState.IDLE] if head.state is AgentState.IDLE else [head.state, AgentState.IDLE]
        states.append(AgentState.RUNNING)
        changes = [(before, AGENT.advance(before, after)) for before, after in pairwise(states)]
        turn.write(
            f"Turn {turn.number} begins.",
            entries.begun(turn.number, message, changes, turn.clock.now()),
            (message,),
            soon=True,
        )
        for before, after in changes:
            await self._changed(before, after, turn.thread)

    async def _through(self, turn: Turn, head: Head, message: str) -> tuple[AgentResult, BaseException | None]:
        raised: BaseException | None = None
        stopped: Stopped | None
        try:
            await self._begin(turn, head, message)
            stopped, text = await self._drive(turn)
            state = AgentState.FINISHED if stopped == "finished" else AgentState.IDLE
        except TurnStopped as over:
            stopped, text, state = over.stopped, over.message, AgentState.IDLE
        except asyncio.CancelledError as cancelled:
            if turn.stopping == "shutdown" or turn.lost:
                raise
            if _cancelled(turn):
                raised, state, stopped = cancelled, AgentState.IDLE, "cancelled"
                text = "Terminated: Cancelled" if turn.spent.steps else NO_STEPS
            else:
                raised = RuntimeError("the model, or a window, raised CancelledError though nobody cancelled the run")
                state, stopped, text = AgentState.ERROR, None, ""
        except Exception as error:
            turn.leave_if_closing()
            raised, state, stopped, text = error, AgentState.ERROR, None, ""
        AGENT.advance(AgentState.RUNNING, state)
        return await self._end(turn, state, stopped, text, raised), raised

    async def _end(
        self, turn: Turn, state: AgentState, stopped: Stopped | None, text: str, raised: BaseException | None
    ) -> AgentResult:
        spent, now = turn.spent, turn.clock.now()
        declared = turn.declared
        error = "" if state is not AgentState.ERROR or raised is None else declared.text(_said(raised))
        if turn.recorded("ended") is None:
            entry = entries.ended(state, stopped or "", text, spent.steps, spent.calls, spent.usage, now, error)
            turn.write(f"Turn {turn.number} ends: {error or stopped}.", entry, (text, error))
        document = TurnDocument(
            turn=turn.number,
            messages=tuple(map(declared.message, paired(turn.messages[turn.begins :]))),
            state=state,
            stopped=stopped,
            text=declared.text(text),
            steps=spent.steps,
            calls=spent.calls,
            usage=spent.usage,
            error=error,
            plan=declared.plan(turn.plan),
            at=now,
        )
        document = await self._saved(turn, document, state)
        return result_of(document, turn.thread, [*turn.messages[: turn.begins], *document.messages])

    async def _saved(self, turn: Turn, document: TurnDocument, state: AgentState) -> TurnDocument:
        """Report the change of state, then put the turn into the thread's memory: from then on the next one may begin."""
        is_reported = False
        try:
            with suppress(ClicketError):
                await turn.flush()
            turn.leave_if_lost()  # only the process that has the turn writes the memory
            is_reported = True
            await self._changed(AgentState.RUNNING, state, turn.thread)
            return await self._memory.save(turn.host, turn.thread, document)
        except asyncio.CancelledError:  # stopped while it ended: it has ended as it had, and is remembered so
            if turn.stopping != "shutdown":
                if not is_reported:
                    await self._changed(AgentState.RUNNING, state, turn.thread)
                await self._memory.save(turn.host, turn.thread, document)
            raise

    async def _changed(self, before: AgentState, after: AgentState, thread: str) -> None:
        try:
            waiting = self._hook(before, after, thread)
            if inspect.isawaitable(waiting):
                await waiting
        except Exception:
            logger.exception("on_state_changed failed on %s -> %s; the agent is not affected", before, after)


def with_thread(hook: Hook) -> StateChanged:
    """The hook as one of three arguments. The thread is passed to a parameter called `thread`, or else as the third argument that the
    hook requires. Other hooks, written for two arguments, are called without it."""
    try:
        parameters = inspect.signature(hook).parameters
    except (TypeError, ValueError):
        return lambda before, after, thread: hook(before, after)
    named = parameters.get("thread")
    if named is not None and named.kind in (named.POSITIONAL_OR_KEYWORD, named.KEYWORD_ONLY):
        return lambda before, after, thread: hook(before, after, thread=thread)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters.values() if each.kind in kinds and each.default is each.empty]
    return hook if len(required) >= 3 else lambda before, after, thread: hook(before, after)


def _cancelled(turn: Turn) -> bool:
    """Did somebody stop the turn, or whoever waits for it in this task?"""
    task = asyncio.current_task()
    return turn.stopping is not None or (task is not None and task.cancelling() > 0)


def _said(error: BaseException) -> str:
    try:
        text = error.message if isinstance(error, ClicketError) else f"{type(error).__name__}: {error}"
    except Exception:  # an exception is foreign code, and may fail even at saying what it is
        text = type(error).__name__
    return hide_text(clean(text), None)[:_MAX_ERROR]


def _failure(document: TurnDocument) -> BaseException | None:
    if document.state is AgentState.ERROR:
        return ClicketError(f"turn {document.turn} failed: {document.error}")
    return None
