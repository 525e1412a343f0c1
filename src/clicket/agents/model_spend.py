"""What a request to a model costs: reserved before it is sent, settled when the reply is on record, counted in the ledger either way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import msgspec

from clicket.agents.entries import Asked, Summary
from clicket.agents.questions import ask_person
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_limits import NO_STEPS, counted
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Usage
from clicket.model.ports import ChatModel
from clicket.model.ports.model_trace import observed_chat
from clicket.model.ports.spending import Reserved
from clicket.model.spend import BudgetBusy, BudgetStatus, Refusal

__all__ = ["count_replayed", "count_summaries", "paid_summary", "priced", "reserve", "settle", "with_budgets"]

_RAISE = "raise_budget"


async def reserve(
    turn: Turn,
    model: ChatModel,
    request: ChatRequest,
    *,
    ask: bool = True,
    renew: Callable[[ChatRequest], Awaitable[ChatRequest]] | None = None,
) -> Reserved | None:
    """Reserve what the request may cost; None: no budget counts it. While requests under way have reserved what is left, the turn waits
    for them. A budget that asks makes it wait for a person, as an approval does. Raises `TurnStopped` if the request does not fit.
    `renew`: called after each wait, with the request; returns it as it is to be now."""
    spending = turn.spending
    tries = 0
    while True:
        found = await spending.reserve(turn.spender, turn.steps + 1, model, request)
        if isinstance(found, BudgetBusy):
            turn.wait_for("budget", f"Step {turn.steps + 1}: {found.text}.")
            await spending.settled(found)
            turn.leave_if_closing()
            if renew is not None:
                request = await renew(request)
            continue
        turn.wait_for(
            None, f"Step {turn.steps + 1}: waits for no budget any more."
        )  # writes nothing if it waited for none
        if not isinstance(found, Refusal):
            return found
        if not found.ask or not ask:
            _stop(turn, found.text)
        await _ask(turn, found, tries)
        tries += 1
        if renew is not None:
            request = await renew(request)


async def _ask(turn: Turn, refusal: Refusal, tries: int) -> None:
    """Ask a person to raise the budget, and wait; the call is found again after a crash, and ended if the turn was stopped."""
    id, step = turn.budget_call_id(tries), turn.steps + 1
    if not turn.record.has_asked(id):
        turn.write(f"Step {step}: asks a person to raise a budget.", Asked(step=step, call=id, at=turn.clock.now()))
        sending = turn.sent()  # no person is asked before the question is on record
        if sending is not None:
            await sending
    try:
        result = await ask_person(turn, turn.host, _RAISE, refusal.arguments, id)
    except StoreUnavailable:  # the turn waits for the store, and finds the question again
        raise
    except ClicketError as error:
        turn.leave_if_closing()
        _stop(turn, f"{refusal.text}; a person could not be asked: {error.message}")
    turn.leave_if_closing()
    if not result.success:
        why = "nobody raised it" if result.error is None else result.error.message.rstrip(".")
        _stop(turn, f"{refusal.text}; {why}")


def _stop(turn: Turn, text: str) -> NoReturn:
    raise TurnStopped("budget", f"Terminated: {text}" if turn.spent.steps else f"{NO_STEPS}: {text}")


def with_budgets(request: ChatRequest, left: Any) -> ChatRequest:
    """The request with a sentence on what is left. It comes last: the vendor's prompt cache keeps only what is the same in each request."""
    if not left:
        return request
    told = ChatMessage(role="user", content="\n".join(_left(status) for status in left))
    return msgspec.structs.replace(request, messages=(*request.messages, told))


def _left(status: BudgetStatus) -> str:
    parts = [] if status.left_usd is None else [f"{status.left_usd:.4g} USD"]
    parts += [] if status.left_tokens is None else [f"{status.left_tokens:,} tokens"]
    return f"Budget {status.name}: {' and '.join(parts)} left ({status.scope}, {status.period})."


def priced(turn: Turn, model: ChatModel, reply: ChatReply, held: Reserved | None) -> tuple[ChatReply, dict[str, Any]]:
    """The reply with a usage that can be counted, and its cost if its price is known; and what the journal keeps for the ledger."""
    usage = counted(reply.usage)
    note = turn.spending.note(model, usage, held, f"{turn.branch}:{turn.steps + 1}")
    if not usage.cost and note["nano"] and usage.total:
        usage = msgspec.structs.replace(usage, cost=note["nano"] / 1e9)
    return (reply if usage is reply.usage else msgspec.structs.replace(reply, usage=usage)), note


async def count_replayed(turn: Turn) -> None:
    """The reply was recorded before a crash: make sure that it is counted."""
    found = turn.replayed_spend()
    if found is not None:
        await settle(turn, turn.steps, *found)


async def count_summaries(turn: Turn) -> None:
    """Summaries, and answers that were not used, were recorded before a crash: count them for the turn, and make sure that the ledger has
    them."""
    for each in turn.take_summaries():
        if each.spend is not None:
            await settle(turn, each.step + isinstance(each, Summary), each.spend, each.usage)


async def settle(turn: Turn, step: int, note: dict[str, Any], usage: Usage) -> None:
    settling = turn.spending.settle(turn.spender, step, note, usage)
    if settling is not None:
        await settling


async def paid_summary(turn: Turn, model: ChatModel, request: ChatRequest) -> ChatReply:
    """Ask a model for a summary, which is not a step of the turn, and record what it used. Raises `TurnStopped` if no budget is left."""
    spending = turn.spending
    held = await reserve(turn, model, request, ask=False)
    try:
        reply = await observed_chat(model, request if held is None else held.request)
    except asyncio.CancelledError:
        if held is not None:
            spending.assume(held)
        raise
    except Exception:
        if held is not None:
            await spending.release(held)
        raise
    if isinstance(reply, ChatReply):
        reply, note = priced(turn, model, reply, held)
        if not turn.lost:
            turn.record_summary(reply.usage, note)
        await settle(turn, turn.steps + 1, note, reply.usage)
    elif held is not None:
        await spending.release(held)
    return reply
