"""A turn asks a chain of models. Each try is a request of its own: reserved in the budgets for the model that is asked, in a span of its
own, and on record before the next one begins if it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from clicket.agents.entries import Tried
from clicket.agents.model_holds import SharedHolds
from clicket.agents.model_request import OutOfTime, asked_once, within
from clicket.agents.model_spend import priced, reserve, settle, with_budgets
from clicket.agents.turn import Turn
from clicket.model.chat import ChatReply, ChatRequest, Usage
from clicket.model.ports import ChatModel, Clock, sleep
from clicket.model.ports.model_chain import FailedTry, Hold, ModelChain, Tries, Try
from clicket.model.ports.spending import Reserved
from clicket.safety.vault import hide_text

__all__ = ["TurnTries", "chain_summary"]

T = TypeVar("T")
Renew = Callable[[ChatRequest], Awaitable[ChatRequest]]


class TurnTries(Tries):
    """The tries of one step, its retries included."""

    def __init__(
        self,
        turn: Turn,
        chain: ModelChain,
        holds: SharedHolds,
        request: ChatRequest,
        renew: Renew | None = None,
        *,
        ask: bool = True,
    ) -> None:
        """`renew`, `ask`: as of `reserve`."""
        self.model: ChatModel = chain
        """The model that was asked last, its name in the chain, and what was reserved for it."""
        self.name: str = chain.name
        self.reserved: Reserved | None = None
        self.request = request
        self._turn = turn
        self._holds = holds
        self._renew = renew
        self._may_ask = ask
        self._pieces = False
        self._tried: list[str] = []
        self._started = turn.clock.monotonic()
        self._waited = 0.0

    @property
    def clock(self) -> Clock:
        return self._turn.clock

    @property
    def took(self) -> float:
        """Seconds so far, without those in which a budget made it wait."""
        return self._turn.clock.monotonic() - self._started - self._waited

    async def pause(self, seconds: float) -> None:
        """Before a retry."""
        await self._in_time(sleep(self._turn.clock, seconds))

    async def held(self) -> Mapping[str, Hold]:
        return await self._holds.read(self._turn.host)

    async def hold(self, key: str, hold: Hold) -> None:
        await self._holds.put(self._turn.host, key, hold)

    async def ask(self, one: Try) -> ChatReply:
        turn = self._turn
        self.model, self.name, self.reserved, self._pieces = one.model, one.name, None, False
        request = one.fit(self.request)
        if turn.spending.budgets:
            request = await self._reserved(one, request)
        held = self.reserved
        try:
            return await self._in_time(
                asked_once(turn, one.model, request, one.send, on_piece=self._on_piece, tried=self._tried)
            )
        except (OutOfTime, asyncio.CancelledError):
            if held is not None:
                turn.spending.assume(held)
            raise
        except Exception as error:
            if held is not None:
                await self._give_back(held, error)
            raise

    async def _reserved(self, one: Try, request: ChatRequest) -> ChatRequest:
        turn = self._turn
        since = self._turn.clock.monotonic()

        async def renew(_: ChatRequest) -> ChatRequest:
            if self._renew is not None:
                self.request = await self._renew(self.request)
            return one.fit(self.request)

        try:
            held = await reserve(turn, one.model, request, ask=self._may_ask, renew=renew)
        finally:
            self._waited += turn.clock.monotonic() - since
        self.reserved = held
        return request if held is None else with_budgets(held.request, held.left)

    async def _give_back(self, held: Reserved, error: Exception) -> None:
        """A model that stalled was asked, and its request was stopped: what was reserved counts as spent."""
        if getattr(error, "details", {}).get("reason") == "stalled":
            self._turn.spending.assume(held)
        else:
            await self._turn.spending.release(held)

    def _on_piece(self) -> None:
        self._pieces = True

    async def _in_time(self, work: Awaitable[T]) -> T:
        turn = self._turn
        most = self._turn.limits.max_seconds
        if most is None:
            return await work
        return await within(turn, max(turn.spent.seconds_left(most) - self.took, 0.0), work)

    async def failed(self, one: Try, failed: FailedTry) -> None:
        turn = self._turn
        usage = Usage()
        note = None
        if failed.reply is not None:
            reply, note = priced(turn, one.model, failed.reply, self.reserved)
            usage = reply.usage
        self._tried.append(f"{failed.model}: {failed.reason}")
        step = turn.steps + 1
        error = hide_text(failed.error)
        if not turn.lost:
            turn.spent.usage = turn.spent.usage + usage
            then = f"{failed.next} is asked" if failed.next else "no other model is left"
            turn.write(
                f"Step {step}: {failed.model} gave no answer ({failed.reason}: {error}); {then}.",
                Tried(
                    step=step,
                    model=failed.model,
                    reason=failed.reason,
                    error=error,
                    took=failed.seconds,
                    next=failed.next,
                    pieces=self._pieces,
                    usage=usage,
                    spend=note,
                    at=turn.clock.now(),
                ),
            )
        if note is not None:
            await settle(turn, step, note, usage)
        await turn.flush()
        turn.leave_if_lost()
        turn.leave_if_closing()


async def chain_summary(turn: Turn, chain: ModelChain, request: ChatRequest, holds: SharedHolds) -> ChatReply:
    """`paid_summary` of a chain."""
    tries = TurnTries(turn, chain, holds, request, ask=False)
    reply = await chain.try_each(tries)
    reply, note = priced(turn, tries.model, reply, tries.reserved)
    if not turn.lost:
        turn.record_summary(reply.usage, note)
    await settle(turn, turn.steps + 1, note, reply.usage)
    return reply
