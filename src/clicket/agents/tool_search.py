"""Which tools the next request of a turn offers, when there are more than fit: those that suit the user's message, and those that the
thread found or used last. With `find_tools` the model finds the others.

The choice follows from the messages on record and from what the hub offers now, so a turn that continues after a crash makes the same one.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from clicket.agents.middleware import Middleware
from clicket.agents.turn import Turn
from clicket.model.chat import ChatRequest, ToolOffer
from clicket.model.ports import ChatModel
from clicket.tools.search import FIND_OFFER, RecentTools, chosen_limit

__all__ = ["ToolChoice"]

_FOR_MESSAGE = 5
"""Tools that are offered at once because they suit the user's message."""


class ToolChoice(Middleware):
    """`limit`: how many tools are offered at most. `defers`: the model's vendor takes all tools, and shows the model only those that are
    not deferred or that a search has found; see `AnthropicModel`."""

    is_derived = True

    def __init__(self, limit: int, *, defers: bool = False) -> None:
        self._limit = limit
        self._defers = defers
        self._recent: WeakKeyDictionary[Turn, tuple[RecentTools, list[str]]] = WeakKeyDictionary()

    @classmethod
    def of(cls, model: ChatModel, tool_search: bool, max_offered: int | None) -> tuple[ToolChoice, ...]:
        limit = chosen_limit(tool_search, max_offered)
        return () if limit is None else (cls(limit, defers=getattr(model, "defers_tools", False) is True),)

    async def before_model(self, turn: Turn, request: ChatRequest) -> ChatRequest | None:
        """All tools if they fit; else some of them, in their own order, and `find_tools`. Those of the caller, of middleware and handoffs
        stay."""
        stay = {*turn.frontend, *turn.decisions.brought, *turn.handoffs}
        offers = tuple(offer for offer in request.tools if offer.name not in stay)
        if len(offers) <= self._limit:
            return None
        rest = (offer for offer in request.tools if offer.name in stay)
        return msgspec.structs.replace(request, tools=(*await self._chosen(turn, offers), *rest))

    async def _chosen(self, turn: Turn, offers: tuple[ToolOffer, ...]) -> tuple[ToolOffer, ...]:
        names = [offer.name for offer in offers]
        known = self._recent.get(turn)
        if known is None:
            suited = await turn.host.ranked_tools(turn.message, frozenset(names), min(_FOR_MESSAGE, self._limit))
            known = self._recent[turn] = (RecentTools(self._limit), suited)
        recent, suited = known
        recent.read(turn.messages)
        there = set(names)
        chosen = set(list(dict.fromkeys([*recent.among(names), *filter(there.__contains__, suited)]))[: self._limit])
        shown = tuple(offer for offer in offers if offer.name in chosen)
        if not self._defers:
            return (*shown, FIND_OFFER)
        rest = (msgspec.structs.replace(offer, deferred=True) for offer in offers if offer.name not in chosen)
        return (*shown, FIND_OFFER, *rest)
