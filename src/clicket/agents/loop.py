"""Think, act, and again, until the model asks for no tool."""

from __future__ import annotations

from collections.abc import Collection

from clicket.agents.acting import Actor
from clicket.agents.limits import Stopped
from clicket.agents.read_result import READ_OFFER
from clicket.agents.thinking import OutOfTime, Thinker
from clicket.agents.turn import Turn
from clicket.errors import UsageError
from clicket.model.chat import ToolOffer
from clicket.tools import Tool

__all__ = ["NO_STEPS", "Loop"]

NO_STEPS = "No steps executed"
Ending = tuple[Stopped, str]


class Loop:
    """`only`: the tools, by name, that may be offered and called; None: all that the hub offers."""

    def __init__(self, thinker: Thinker, actor: Actor, only: Collection[str | Tool] | None = None) -> None:
        self.thinker = thinker
        self.actor = actor
        self.only = None if only is None else _names(only)

    async def __call__(self, turn: Turn) -> Ending:
        turn.only = self.only
        while True:
            offers = await self.offers(turn)
            over = turn.over()
            if over is not None:
                return over if turn.spent.steps else (over[0], NO_STEPS)
            try:
                message = await self.thinker.think(turn, offers)
            except OutOfTime as late:
                return "budget", f"Terminated: {late.message}" if turn.spent.steps else NO_STEPS
            if not message.uses:
                return "finished", message.content
            stop = await self.actor.act(turn, message)
            if stop is not None:
                return stop

    async def offers(self, turn: Turn) -> tuple[ToolOffer, ...]:
        """Asked for each step: what the hub offers changes with what tools did."""
        offers = await turn.host.offers(turn.thread)
        if self.only is not None:
            offers = tuple(offer for offer in offers if offer.name in self.only)
        if not turn.refers or any(offer.name == READ_OFFER.name for offer in offers):  # a name is offered once
            return offers
        return (*offers, READ_OFFER)


def _names(only: Collection[str | Tool]) -> frozenset[str]:
    if isinstance(only, str) or not isinstance(only, Collection):
        one = only if isinstance(only, str) else getattr(only, "name", "NAME")
        raise UsageError(f"tools is a list of names, not one: write tools=[{one!r}].")
    names: set[str] = set()
    for each in only:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        if not isinstance(name, str):
            raise UsageError(f"tools are named, or given as made by @tool: {each!r:.100} is neither.")
        names.add(name)
    return frozenset(names)
