"""The events of one run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR.

A run ends when its turn does, or when the turn waits: for a person (an interrupt) or for tools that the client runs. Where it ended
is written down before it is sent to the client, so the run that continues the turn begins there, and a repeated run ends there again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from clicket.agents import Agent, AgentEvent
from clicket.agents.event_feed import FeedReader
from clicket.errors import ClicketError, NotFound
from clicket.model.names import FRONTEND
from clicket.runtime.runtime import Runtime
from clicket.server.ag_ui.interrupts import interrupt_of
from clicket.server.ag_ui.run_input import RunAgentInput
from clicket.server.ag_ui.translator import Translator
from clicket.server.ag_ui.wire import (
    PROTOCOL_VERSION,
    Event,
    event,
    history_messages,
    run_error,
    token_usage,
)
from clicket.server.turn_follower import Blocked, TurnFollower
from clicket.server.turn_questions import asked_from
from clicket.server.turn_requests import Asked, ThreadRequests, TurnRequest
from clicket.server.waits import Wait

__all__ = ["RunStream", "refused_run", "run_started"]

_MAX_HISTORY = 1_000


def run_started(given: RunAgentInput) -> Event:
    return event(
        "RUN_STARTED",
        threadId=given.thread_id,
        runId=given.run_id,
        protocolVersion=PROTOCOL_VERSION,
        parentRunId=given.parent_run_id,
    )


async def refused_run(given: RunAgentInput, error: ClicketError) -> AsyncIterator[Event]:
    """A run that breaks the protocol's rules for interrupts: the protocol wants the error as an event."""
    yield run_started(given)
    yield run_error(error.message, error.code)


class RunStream:
    """`agent` and `runtime` act for the caller. `messages`: the client's, as it sent them. `decided_elsewhere`: waits of calls that go on
    until another person has decided. `may_read`: the caller may see what other runs made; else only this run's events are sent.
    `reader`: of `agent.listening`, entered before the turn began."""

    def __init__(
        self,
        agent: Agent,
        runtime: Runtime,
        requests: ThreadRequests,
        given: RunAgentInput,
        messages: list[Event],
        request: TurnRequest | None,
        decided_elsewhere: frozenset[Wait] = frozenset(),
        *,
        may_read: bool,
        reader: FeedReader,
    ) -> None:
        self._agent = agent
        self._runtime = runtime
        self._requests = requests
        self._given = given
        self._messages = messages
        self._request = request
        self._decided_elsewhere = decided_elsewhere
        self._may_read = may_read
        self._reader = reader
        self._state: Event = {}

    async def events(self) -> AsyncIterator[Event]:
        given, request = self._given, self._request
        yield run_started(given)
        base = await self._base()
        if base is not self._messages:
            yield event("MESSAGES_SNAPSHOT", messages=base)
        yield await self._state_snapshot()
        if request is None:  # nothing to run: the client has the thread as it is
            yield self._finished({"type": "success"})
            return
        follower = TurnFollower(
            self._agent,
            self._runtime,
            given.thread_id,
            request.turn,
            reported=self._decided_elsewhere,
            reader=self._reader,
        )
        translator = Translator(request.turn, request.after, request.until)
        items: Any = follower.items()
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Blocked):
                    if request.until is None:
                        asked = [asked_from(each) for each in item.waiting]
                        await self._requests.end(request, translator.position, asked)
                        async for each in self._suspended(translator, base, asked):
                            yield each
                        return
                    continue
                for each in translator.take(item):
                    yield each
                if translator.has_reached_its_end:
                    async for each in self._suspended(translator, base, request.asked):
                        yield each
                    return
                if item.task is None and item.event.type in ("final", "error"):
                    for each in self._ended(translator, base, item.event):
                        yield each
                    return

    async def _base(self) -> list[Event]:
        """The messages before those of this run: the client's; or the thread's, if the client does not have them."""
        given = self._messages
        if not self._may_read or any(message["role"] == "assistant" for message in given):
            return given
        page = await self._agent.history(self._given.thread_id, limit=_MAX_HISTORY)
        turns = [turn for turn in page.turns if self._request is None or turn.turn < self._request.turn]
        if not turns:
            return given
        history = history_messages(turns, await self._requests.message_ids())
        known = {message["id"] for message in history}
        return [*history, *(message for message in given if message["id"] not in known)]

    async def _state_snapshot(self) -> Event:
        view = await self._agent.look(self._given.thread_id)
        running = self._request is not None and self._request.turn > view.turns
        turn = view.turns if self._request is None else self._request.turn
        self._state = {"agent": view.agent, "turn": turn, "state": "running" if running else str(view.state)}
        if view.plan is not None and self._may_read:
            self._state["plan"] = view.plan
        return self._snapshot()

    def _snapshot(self, **more: Any) -> Event:
        theirs: Mapping[str, Any] = self._given.state if isinstance(self._given.state, dict) else {}
        return event("STATE_SNAPSHOT", snapshot={**theirs, "clicket": {**self._state, **more}})

    async def _suspended(
        self, translator: Translator, base: list[Event], asked: Sequence[Asked]
    ) -> AsyncIterator[Event]:
        interrupts: list[Event] = []
        pending: list[str] = []
        for each in asked:
            try:
                record = await self._runtime.get(each.id, thread=each.thread)
            except NotFound:  # a run that is read again after its calls were removed
                continue
            if record.tool == FRONTEND:
                pending.append(each.use_id)
            else:
                interrupts.append(interrupt_of(self._runtime, record, each))
        owners: dict[str, list[str]] = {}
        for each in asked:
            if each.task:
                owners.setdefault(each.task, []).append(each.question_id)
        for closing in translator.close(0.0, owners):
            yield closing
        yield self._snapshot(waitingFor=[interrupt["id"] for interrupt in interrupts])
        yield event("MESSAGES_SNAPSHOT", messages=_merged(base, translator.messages))
        outcome: Event = {"type": "interrupt", "interrupts": interrupts}
        if not interrupts:
            outcome = {"type": "success", "pendingToolCallIds": pending}
        yield self._finished(outcome, translator)

    def _ended(self, translator: Translator, base: list[Event], last: AgentEvent) -> list[Event]:
        made = translator.close(last.at)
        if translator.has_discarded:
            made.append(event("MESSAGES_SNAPSHOT", messages=_merged(base, translator.messages)))
        if last.type == "error":
            return [*made, run_error(last.data["message"], "agent_error", translator.usage)]
        stopped = last.data["stopped"]
        if stopped == "cancelled":
            return [*made, self._finished({"type": "cancelled"}, translator)]
        if stopped != "finished":
            made += _said(f"t{last.turn}-end", last)
        result = {name: last.data.get(name) for name in ("text", "stopped", "ended", "value", "steps", "calls")}
        return [*made, self._finished({"type": "success"}, translator, {**result, "turn": last.turn})]

    def _finished(self, outcome: Event, translator: Translator | None = None, result: Event | None = None) -> Event:
        usage = [] if translator is None else token_usage(translator.usage)
        return event(
            "RUN_FINISHED",
            threadId=self._given.thread_id,
            runId=self._given.run_id,
            outcome=outcome,
            result=result,
            usage=usage or None,
        )


def _merged(base: Sequence[Event], made: Sequence[Event]) -> list[Event]:
    """The messages of the thread. A message that the client had in part is the whole one."""
    new = {message["id"]: message for message in made}
    merged = [new.pop(message["id"], message) for message in base]
    return [*merged, *new.values()]


def _said(id: str, last: AgentEvent) -> list[Event]:
    """Why a turn ended that a limit ended, as a message."""
    return [
        event("TEXT_MESSAGE_START", last.at, messageId=id, role="assistant"),
        event("TEXT_MESSAGE_CONTENT", last.at, messageId=id, delta=last.data["text"]),
        event("TEXT_MESSAGE_END", last.at, messageId=id),
    ]
