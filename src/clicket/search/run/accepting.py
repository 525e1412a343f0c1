"""What a part gave, as the machine uses it. Whatever does not fit raises, and then the part has failed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

import msgspec

from clicket.search.dossier import Analysis, Dossier, Synthesis
from clicket.search.synthesis.citations import check
from clicket.search.text.surrogates import clean

__all__ = ["analysis", "queries", "ranking", "synthesis"]

_MAX_QUERIES = 200
"""Queries of one plan that are looked at: a planner may never stop."""
_MAX_RANKED = 100_000
"""Entries of one ranking that are looked at: neither may a ranker."""
_MAX_AREAS = 20
_MAX_AREA = 300


def queries(given: Any, dossier: Dossier) -> tuple[str, ...]:
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"a plan is a list of queries, not {type(given).__name__}")
    if isinstance(given, AbstractSet):
        given = sorted(one for one in given if isinstance(one, str))
    listed = list(islice(given, _MAX_QUERIES))
    kept = tuple(clean(one) for one in listed if isinstance(one, str))
    if listed and not kept:
        raise TypeError("a plan is a list of queries, and none of these is text")
    return kept


def analysis(given: Any, dossier: Dossier) -> Analysis:
    if isinstance(given, Mapping):
        given = Analysis(
            completeness_score=given["completeness_score"], unexplored_areas=given.get("unexplored_areas") or ()
        )
    if not isinstance(given, Analysis):
        raise TypeError(f"an analysis is needed, not {type(given).__name__}")
    areas = given.unexplored_areas
    if isinstance(areas, str) or not isinstance(areas, Sequence):
        raise TypeError("unexplored_areas is a list of texts")
    named = (" ".join(clean(one).split())[:_MAX_AREA] for one in areas if isinstance(one, str))
    return msgspec.structs.replace(
        given,
        completeness_score=round(min(max(_finite(given.completeness_score), 0.0), 1.0), 6),
        unexplored_areas=tuple(dict.fromkeys(one for one in named if one))[:_MAX_AREAS],
        components={clean(str(name)): round(_finite(value), 6) for name, value in given.components.items()},
        by=clean(str(given.by)),
        reasons=tuple(clean(one)[:_MAX_AREA] for one in given.reasons[:_MAX_AREAS] if isinstance(one, str)),
    )


def ranking(given: Any, dossier: Dossier) -> tuple[tuple[str, float], ...]:
    """Every document that was found has a score; those that the ranker left out come last."""
    documents = dossier.documents
    scores: dict[str, float] = {}
    for key, score in islice(given, _MAX_RANKED):
        if key in documents:
            scores.setdefault(key, round(_finite(score), 6))
    if len(scores) < len(documents):
        least = min([0.0, *scores.values()])
        for key in documents:
            scores.setdefault(key, least)
    return tuple(sorted(scores.items(), key=lambda one: (-one[1], one[0])))


def synthesis(given: Any, dossier: Dossier) -> Synthesis:
    """Every citation is looked up in the documents, whoever wrote it."""
    if isinstance(given, str):
        given = Synthesis(answer=given)
    if isinstance(given, Mapping):
        given = msgspec.convert({"citations": (), **given}, Synthesis)
    if not isinstance(given, Synthesis) or not isinstance(given.answer, str):
        raise TypeError(f"a synthesis is needed, not {type(given).__name__}")
    checked = check(given, dossier.documents)
    return msgspec.structs.replace(
        checked,
        answer=clean(checked.answer),
        by=clean(str(checked.by)),
        unsupported=tuple(clean(str(one)) for one in checked.unsupported),
    )


def _finite(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, bool) or not isinstance(value, float | int) or not math.isfinite(value):
        raise TypeError(f"a finite number is needed, not {value!r}")
    return float(value)
