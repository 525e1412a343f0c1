"""Sub-queries by a model. It is asked for new ones; when it has none to give, the built-in planner is asked instead."""

from __future__ import annotations

from collections.abc import Sequence

from clicket.ports.services import ChatModel
from clicket.search.dossier import Dossier
from clicket.search.ledger import note
from clicket.search.modelled.asking import Asking, NoAnswer
from clicket.search.modelled.fitting import shown
from clicket.search.modelled.forms import QUERIES
from clicket.search.modelled.prompting import planning
from clicket.search.parts import Planner
from clicket.search.text.queries import fresh

__all__ = ["ModelPlanner"]

_MAX_QUERIES = 5


class ModelPlanner:
    """`max_prompt_tokens` is for the documents that the model is shown."""

    def __init__(
        self, model: ChatModel, fallback: Planner, *, max_prompt_tokens: int = 2_000, asking: Asking | None = None
    ) -> None:
        self._asking = asking or Asking(model)
        self._fallback = fallback
        self._max_prompt_tokens = max_prompt_tokens

    async def plan(self, dossier: Dossier) -> Sequence[str]:
        found = shown(dossier, documents=8, tokens=self._max_prompt_tokens, each=200)
        try:
            queries = await self._asking.ask(QUERIES, *planning(dossier, found))
        except NoAnswer as why:
            note(f"Planning: the model {self._asking.name} {why}; the built-in planner took over.")
            return await self._fallback.plan(dossier)
        new = fresh(queries, dossier.searched, _MAX_QUERIES)
        if not new:
            note(
                f"Planning: the model {self._asking.name} had nothing new to search for; the built-in planner took over."
            )
            return await self._fallback.plan(dossier)
        return new
