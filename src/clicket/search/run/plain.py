"""The simplest parts that work. They stand in for those that are not there yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.search.dossier import Analysis, Dossier, Synthesis

__all__ = ["PlainAnalyzer", "PlainPlanner", "PlainRanker", "PlainSynthesizer", "check"]

_NAME = re.compile(r"[A-Z][\w'’-]+(?: (?:of|the|de|von|[A-Z][\w'’-]+))*")


class PlainPlanner:
    def __init__(self, collection: Any = None) -> None: ...

    async def plan(self, dossier: Dossier) -> Sequence[str]:
        texts = [dossier.question] if not dossier.rounds else [one.text for one in dossier.best(3)]
        return [
            *([] if dossier.rounds else [dossier.question]),
            *(name for one in texts for name in _NAME.findall(one)),
        ]


class PlainRanker:
    def __init__(self, collection: Any = None) -> None: ...

    def rank(self, dossier: Dossier) -> Sequence[tuple[str, float]]:
        scores: dict[str, float] = {}
        for one in dossier.rounds:
            for found in one.found:
                for rank, key in enumerate(found.documents, 1):
                    scores[key] = scores.get(key, 0.0) + 1 / (60 + rank)
        return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


class PlainAnalyzer:
    def __init__(self, collection: Any = None) -> None: ...

    async def analyze(self, dossier: Dossier) -> Analysis:
        return Analysis(completeness_score=0.5 if dossier.documents else 0.0, by="plain")


class PlainSynthesizer:
    def __init__(self, collection: Any = None) -> None: ...

    async def synthesize(self, dossier: Dossier) -> Synthesis:
        best = [one for one in dossier.best(3) if one.text]
        citations = tuple(one.cite(0, min(200, len(one.text))) for one in best)
        answer = "\n".join(f"{one.text} [{at}]" for at, one in enumerate(citations, 1))
        return Synthesis(answer=answer or "Nothing was found.", citations=citations, by="plain")


def check(synthesis: Synthesis, documents: Mapping[str, Any]) -> Synthesis:
    kept = tuple(one for one in synthesis.citations if one.doc in documents and one.holds(documents[one.doc]))
    return msgspec.structs.replace(synthesis, citations=kept)
