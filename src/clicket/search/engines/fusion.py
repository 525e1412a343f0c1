"""Several engines as one: each is asked at once, and their orders are fused by reciprocal rank. One that fails or hangs is told
of and harms no other; when all fail, the whole has failed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.search.engines.adapting import MAX_RESULTS, Answer, Asked, EngineFailed, as_engine, beside, said, stop
from clicket.search.engines.merging import Pool

__all__ = ["Mixed"]

_DEPTH = 60
"""The constant of reciprocal rank fusion: how little the first ranks stand out."""
_PATIENCE = 20.0
"""Seconds for engines that are asked without a deadline."""
_SHARE = 0.8
"""Of the deadline: what is left is for the fusion, so that those who answered in time are not lost with those who did not."""


class Mixed:
    """`weights` say how much an engine's order counts, 1 when not told."""

    def __init__(self, engines: Iterable[Any], weights: Sequence[float] | None = None, *, name: str = "mixed") -> None:
        self.name = name
        self.engines: tuple[Asked, ...] = tuple(as_engine(one) for one in engines)
        if not self.engines:
            raise UsageError("Mixed needs at least one engine.")
        self.weights: tuple[float, ...] = tuple(weights) if weights is not None else (1.0,) * len(self.engines)
        if len(self.weights) != len(self.engines):
            raise UsageError(f"{len(self.engines)} engines need as many weights; {len(self.weights)} were given.")
        if not all(isinstance(one, float | int) and math.isfinite(one) and one >= 0 for one in self.weights):
            raise UsageError("The weights of engines are numbers from 0 up.")
        self._names = _apart([one.name for one in self.engines])

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return (await self.ask(query, k=k, deadline=deadline)).documents

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        patience = _SHARE * (_PATIENCE if deadline is None else deadline)
        tasks = [asyncio.ensure_future(one.ask(query, k=k, deadline=patience)) for one in self.engines]
        try:
            await asyncio.wait(tasks, timeout=patience)
        finally:
            await stop(tasks, patience / 20)
        answers: list[Answer] = []
        notes: list[str] = []
        failed: list[str] = []
        for name, task in zip(self._names, tasks, strict=True):
            answer = _outcome(name, task, patience)
            if isinstance(answer, str):
                failed.append(answer)
                notes.append(f"failed: {answer}")
                answer = Answer()
            answers.append(answer)
            notes.extend(answer.notes)
        if len(failed) == len(self.engines):
            raise EngineFailed("; ".join(failed), engine=self.name)
        size = sum(len(one.text) for answer in answers for one in answer.documents)
        fused = await beside(size, lambda: self._fused(answers, min(k, MAX_RESULTS)))
        return Answer(documents=fused, notes=tuple(notes))

    def _fused(self, answers: Sequence[Answer], k: int) -> tuple[Document, ...]:
        pool = Pool()
        scores: dict[str, float] = {}
        for own, name, weight, answer in zip(self.engines, self._names, self.weights, answers, strict=True):
            for rank, found in enumerate(answer.documents, 1):
                # Engines of one kind have one name; their documents are kept apart by the name they have here.
                document = found if found.source != own.name else msgspec.structs.replace(found, source=name)
                key = pool.add(document)
                assert key is not None
                scores[key] = scores.get(key, 0.0) + weight / (_DEPTH + rank)
        best = sorted(scores, key=lambda key: (-round(scores[key], 6), key))[:k]
        return tuple(msgspec.structs.replace(pool.documents[key], score=round(scores[key], 6)) for key in best)


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, with numbers where one occurs again."""
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(apart)


def _outcome(name: str, task: asyncio.Future[Answer], patience: float) -> Answer | str:
    """The answer, or how it failed."""
    if not task.done() or task.cancelled():
        return f"{name}: no answer within {patience:g} s"
    error = task.exception()
    if error is None:
        return task.result()
    return error.message if isinstance(error, EngineFailed) else f"{name}: {said(error)}"
