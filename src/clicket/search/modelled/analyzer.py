"""How far a search is, by a model's judgement. Without documents there is nothing to judge, and none is asked."""

from __future__ import annotations

from clicket.ports.services import ChatModel
from clicket.search.dossier import Analysis, Dossier
from clicket.search.ledger import note
from clicket.search.modelled.asking import SPENT, Asking, NoAnswer
from clicket.search.modelled.fitting import shown
from clicket.search.modelled.forms import JUDGEMENT
from clicket.search.modelled.prompting import analyzing
from clicket.search.parts import Analyzer

__all__ = ["ModelAnalyzer"]


class ModelAnalyzer:
    """`max_prompt_tokens` is for the documents that the model is shown."""

    def __init__(
        self, model: ChatModel, fallback: Analyzer, *, max_prompt_tokens: int = 3_000, asking: Asking | None = None
    ) -> None:
        self._asking = asking or Asking(model)
        self._fallback = fallback
        self._max_prompt_tokens = max_prompt_tokens

    async def analyze(self, dossier: Dossier) -> Analysis:
        found = shown(dossier, documents=10, tokens=self._max_prompt_tokens, each=300)
        if not dossier.documents:
            return await self._fallback.analyze(dossier)
        try:
            if not found:
                raise NoAnswer(SPENT)
            judged = await self._asking.ask(JUDGEMENT, *analyzing(dossier, found))
        except NoAnswer as why:
            note(f"Analysis: the model {self._asking.name} {why}; the built-in analyzer took over.")
            return await self._fallback.analyze(dossier)
        return Analysis(
            completeness_score=judged.score,
            unexplored_areas=judged.areas,
            components={"model": judged.score},
            by=f"model {self._asking.name}",
            reasons=judged.reasons,
        )
