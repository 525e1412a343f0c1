"""One model step: sends the request, retries transient errors within the turn's time, and records the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from functools import partial
from math import inf
from typing import Any, NamedTuple

from clicket.agents.attached_files import FileCache, with_files
from clicket.agents.background_tools import BackgroundCalls
from clicket.agents.chain import Chain
from clicket.agents.checking import check_reply, lets_pass
from clicket.agents.entries import Refusal
from clicket.agents.middleware import bring_tools_again, edits, instructed, offered, replied
from clicket.agents.model_chain import TurnTries
from clicket.agents.model_holds import SharedHolds
from clicket.agents.model_request import OutOfTime, asked_once, sent_to, within
from clicket.agents.model_spend import count_replayed, priced, reserve, settle, with_budgets
from clicket.agents.read_result import ReadResult
from clicket.agents.run_options import model_name
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_limits import check_counts
from clicket.agents.verdicts import Edit
from clicket.engine.executors import backoff, transient
from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolOffer
from clicket.model.codec import clean
from clicket.model.ports import ChatModel, StreamingModel, sleep
from clicket.model.ports.model_chain import ModelChain
from clicket.model.ports.model_trace import MODEL_TRACE
from clicket.system import random_generator
from clicket.tools import Options

__all__ = ["OutOfTime", "Thinker"]

Collect = Callable[[Turn], Awaitable[None]]


class _Answered(NamedTuple):
    """A new reply, how long it took, what the ledger needs to count it, and which model of a chain gave it."""

    reply: ChatReply
    took: float
    note: dict[str, Any]
    model: str = ""


class Thinker:
    """Asks one model. `system`: the agent's instructions; `role`: those of this part of it, which follow. `retries` and `retry_delay` work
    as those of a tool: exponential backoff with jitter, not before Retry-After. `middleware`: of this model alone, nearer to it than that
    of the agent; None: it offers `read_result` and tools for background calls where they are needed."""

    def __init__(
        self,
        model: ChatModel,
        *,
        system: str = "",
        role: str = "",
        max_tokens: int | None = None,
        retries: int = 3,
        retry_delay: float = 1.0,
        middleware: Iterable[object] | None = None,
    ) -> None:
        if not hasattr(model, "chat"):
            raise UsageError(
                f"{model!r} is not a model: it has no method chat(request). Use OpenAIModel, AnthropicModel, "
                "model_of('openai:NAME'), or ScriptedModel in tests."
            )
        check_counts(0, model_retries=retries)
        check_counts(1, optional=True, max_answer_tokens=max_tokens)
        if isinstance(retry_delay, bool) or not isinstance(retry_delay, int | float) or not 0 <= retry_delay < inf:
            raise UsageError(f"retry_delay must be a number of seconds of at least 0, not {retry_delay!r}.")
        self._use(model)
        self._role = role
        self._given = system
        self._system = self._instructions(system)
        self._max_tokens = max_tokens
        self._policy = Options(max_retries=retries, retry_delay=retry_delay)
        self._chance = random_generator()  # jitter, not secrets
        self._own = Chain((ReadResult(), BackgroundCalls()) if middleware is None else middleware)
        self._holds = SharedHolds()
        self._files = FileCache()

    def _use(self, model: ChatModel) -> None:
        self.model = model
        self.name: str = model_name(model)
        self._streams = isinstance(model, StreamingModel)
        self._chain = model if isinstance(model, ModelChain) else None

    def _with(self, model: ChatModel) -> Thinker:
        """The same for another model."""
        other = copy(self)
        other._use(model)
        return other

    def _instructions(self, *texts: str) -> tuple[ChatMessage, ...]:
        text = "\n\n".join(filter(None, (*texts[:1], self._role, *texts[1:])))
        return (ChatMessage(role="system", content=text),) if text else ()

    async def think(
        self, turn: Turn, offers: tuple[ToolOffer, ...], *, tool_choice: Any = "auto", collect: Collect | None = None
    ) -> ChatMessage:
        """The next message of the model: the recorded one after a crash, else a new one, which has then been recorded. `collect` is called
        after a wait for a budget, which may take days: it adds to the turn's messages what has come meanwhile. An answer that middleware
        refuses is followed by another request; `TurnStopped`: there were too many, or a limit forbids the next one."""
        if turn.model is not None and turn.model is not self.model:
            return await self._with(turn.model).think(turn, offers, tool_choice=tool_choice, collect=collect)
        while True:
            message = await self._next(turn, offers, tool_choice, collect)
            refusal = turn.refusal
            if refusal is None:
                return message
            if turn.refusals[refusal.stopped] > turn.middleware.output_retries:
                raise TurnStopped(refusal.stopped, f"Terminated: No answer was accepted ({refusal.by}: {refusal.text})")
            over = turn.over()
            if over is not None:
                raise TurnStopped(*over)

    async def _next(
        self, turn: Turn, offers: tuple[ToolOffer, ...], tool_choice: Any, collect: Collect | None
    ) -> ChatMessage:
        turn.take_edits()
        if turn.resumed and turn.journaled and turn.middleware.tools:
            await bring_tools_again(turn)
        if not turn.is_replaying and not turn.branch and turn.held() is None:
            await self._hear(turn)
        known = turn.recorded_reply()
        if known is not None:
            await count_replayed(turn)
            return known
        turn.spent.asking += 1  # before the first await, so that a concurrent branch counts it in `turn.over`
        try:
            return await self._ask_and_record(turn, offers, tool_choice, collect)
        finally:
            turn.spent.asking -= 1

    async def _hear(self, turn: Turn) -> None:
        """Take the messages that were sent to the running turn."""
        mailbox, host, thread = turn.mailbox, turn.host, turn.thread
        rung = await mailbox.has_rung(host, thread, turn.bell)
        if rung == turn.bell:
            return
        turn.bell = rung
        for message in await mailbox.list(host, thread):
            if message.when != "now" or message.id in (turn.id, *turn.heard):
                continue
            # One that does not pass begins a turn of its own, which the checks decide about.
            if await lets_pass(turn, message.text) and await mailbox.take(host, message):
                turn.hear(message)

    async def _request(self, turn: Turn, offers: tuple[ToolOffer, ...], tool_choice: Any) -> ChatRequest:
        chain = turn.middleware
        own = self._own
        if chain.tools and turn.journaled:  # a planner calls none
            offers = await offered(turn, offers)
        texts = await instructed(turn) if chain.instructions else []

        def made() -> ChatRequest:
            messages = turn.decisions.shown(turn.messages)
            system = self._system if turn.system is None and not texts else self._instructions(given, *texts)
            return ChatRequest(
                messages=system + messages if system else messages,
                tools=offers,
                tool_choice=tool_choice,
                max_tokens=self._max_tokens,
            )

        given = self._given if turn.system is None else turn.system
        request = made()
        for method in chain.before_model:
            edit = await edits(turn, method, request)
            if isinstance(edit, Edit):
                texts += [edit.instructions] if edit.instructions else []
                if edit.tools is not None:
                    offers = tuple(offer for offer in offers if offer.name in edit.tools)
                request = made()
            else:
                request = edit or request
        for method in own.before_model:
            changed = await edits(turn, method, request)
            request = changed if isinstance(changed, ChatRequest) else request
        return await with_files(turn, self.model, request, self._files)

    async def _ask_and_record(
        self, turn: Turn, offers: tuple[ToolOffer, ...], tool_choice: Any, collect: Collect | None
    ) -> ChatMessage:
        turn.leave_if_closing()
        monotonic, now = turn.clock.monotonic, turn.clock.now
        started, since = monotonic(), now()
        refused: Refusal | None = None
        held = turn.held()
        if held is None:
            reply, took, note, model = await self._reply(turn, offers, tool_choice, collect)
            if turn.middleware.after_model or self._own.after_model:
                reply, refused = await replied(turn, reply, self._own.after_model)
        else:
            reply, took, note, model = held.chat_reply, held.reply.took, held.reply.spend or {}, held.reply.model

        async def hold(reply: ChatReply, by: str) -> None:
            turn.hold(reply, by, took, note, model)
            await settle(turn, turn.steps + 1, note, reply.usage)

        if turn.middleware.output and refused is None:
            reply, refused = await check_reply(turn, reply, hold, held_by="" if held is None else held.by)
        if turn.lost:
            await settle(turn, turn.steps + 1, note, reply.usage)
            turn.leave_if_lost()
        message = turn.record_reply(reply, took, note, refused, model)
        settling = turn.spending.settle(turn.spender, turn.steps, note, reply.usage)
        if settling is not None:
            await settling
        if turn.has_paused(started, since):
            await turn.flush()
        return message

    async def _reply(
        self, turn: Turn, offers: tuple[ToolOffer, ...], tool_choice: Any, collect: Collect | None
    ) -> _Answered:
        if turn.must_stop:
            turn.give_in()
        request = await self._request(turn, offers, tool_choice)
        if turn.decisions.are_new:
            await turn.flush()
            turn.decisions.are_new = False
        turn.restart_if_resumed()

        async def renew(request: ChatRequest) -> ChatRequest:
            known = len(turn.messages)
            if collect is not None:
                await collect(turn)
            return request if len(turn.messages) == known else await self._request(turn, offers, tool_choice)

        if self._chain is not None:
            tries = TurnTries(turn, self._chain, self._holds, request, renew)
            reply = await self._ask(turn, request, tries)
            reply, note = priced(turn, tries.model, reply, tries.reserved)
            return _Answered(reply, tries.took, note, tries.name)
        held = await reserve(turn, self.model, request, renew=renew) if turn.spending.budgets else None
        if held is not None:
            request = with_budgets(held.request, held.left)
        started = turn.clock.monotonic()
        left = None if turn.limits.max_seconds is None else turn.spent.seconds_left(turn.limits.max_seconds)
        try:
            reply = await (self._ask(turn, request) if left is None else within(turn, left, self._ask(turn, request)))
        except (OutOfTime, asyncio.CancelledError):
            if held is not None:
                turn.spending.assume(held)
            raise
        except Exception:
            if held is not None:
                await turn.spending.release(held)
            raise
        took = turn.clock.monotonic() - started
        reply, note = priced(turn, self.model, reply, held)
        return _Answered(reply, took, note)

    async def _ask(self, turn: Turn, request: ChatRequest, tries: TurnTries | None = None) -> ChatReply:
        retry = 0
        while True:
            try:
                if tries is not None and self._chain is not None:
                    reply = await self._chain.try_each(tries)
                elif MODEL_TRACE.get() is None and not (self._streams and turn.has_piece_readers):
                    reply = await self.model.chat(request)
                else:
                    reply = await asked_once(turn, self.model, request, partial(sent_to, self.model))
            except Exception as error:
                retry += 1
                if retry > self._policy.max_retries or not transient(error, self._policy):
                    raise
                delay = backoff(retry, self._policy, error, self._chance)
                turn.void_pieces("the request is sent again")
                turn.publish("retry", retry=retry, delay=round(delay, 3), error=turn.sensitive.text(_error_text(error)))
                await (sleep(turn.clock, delay) if tries is None else tries.pause(delay))
                turn.leave_if_closing()
            else:
                if not isinstance(reply, ChatReply):
                    raise UsageError(
                        f"{getattr(self.model, 'name', self.model)} answered with {type(reply).__name__}: a model's chat() "
                        "returns a ChatReply."
                    )
                return reply


def _error_text(error: Exception) -> str:
    try:
        return clean(error)[:500]
    except Exception:  # `__str__` of a foreign exception may raise
        return type(error).__name__
