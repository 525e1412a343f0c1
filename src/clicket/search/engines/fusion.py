"""Several engines as one: all are asked at once, and their orders are fused by reciprocal rank.

An engine that fails or hangs is noted and does not affect the others. When all fail, the search has failed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.search.engines.adapter import MAX_RESULTS, Answer, AskableEngine, EngineFailed, as_engine
from clicket.search.engines.document_pool import DocumentPool
from clicket.search.engines.tasks import cancel_tasks, describe_error, run_by_size

__all__ = ["Mixed"]

_RRF = 60
"""The constant of reciprocal rank fusion: the larger, the less the first ranks stand out."""
_TIMEOUT = 20.0
"""Seconds for engines that are asked without a deadline."""
_SHARE = 0.8
"""The part of the deadline that the engines get. The rest is for the fusion of the answers that came in time."""


class Mixed:
    """`weights`: how much the order of each engine counts; 1 by default."""

    def __init__(self, engines: Iterable[Any], weights: Sequence[float] | None = None, *, name: str = "mixed") -> None:
        self.name = name
        self.engines: tuple[AskableEngine, ...] = tuple(as_engine(one) for one in engines)
        if not self.engines:
            raise UsageError("Mixed needs at least one engine.")
        self.weights: tuple[float, ...] = tuple(weights) if weights is not None else (1.0,) * len(self.engines)
        if len(self.weights) != len(self.engines):
            raise UsageError(f"{len(self.engines)} engines need as many weights; {len(self.weights)} were given.")
        if not all(isinstance(one, float | int) and math.isfinite(one) and one >= 0 for one in self.weights):
            raise UsageError("The weights of engines are numbers from 0 up.")
        self._names = _unique([one.name for one in self.engines])

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return (await self.ask(query, k=k, deadline=deadline)).documents

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        timeout = _SHARE * (_TIMEOUT if deadline is None else deadline)
        tasks = [asyncio.ensure_future(one.ask(query, k=k, deadline=timeout)) for one in self.engines]
        try:
            await asyncio.wait(tasks, timeout=timeout)
        finally:
            await cancel_tasks(tasks, timeout / 20)
        answers: list[Answer] = []
        notes: list[str] = []
        failed: list[str] = []
        for name, task in zip(self._names, tasks, strict=True):
            answer = _outcome(name, task, timeout)
            if isinstance(answer, str):
                failed.append(answer)
                notes.append(f"failed: {answer}")
                answer = Answer()
            answers.append(answer)
            notes.extend(answer.notes)
        if len(failed) == len(self.engines):
            raise EngineFailed("; ".join(failed), engine=self.name)
        size = sum(len(one.text) for answer in answers for one in answer.documents)
        fused = await run_by_size(size, lambda: self._fused(answers, min(k, MAX_RESULTS)))
        return Answer(documents=fused, notes=tuple(notes))

    def _fused(self, answers: Sequence[Answer], k: int) -> tuple[Document, ...]:
        pool = DocumentPool()
        scores: dict[str, float] = {}
        for own, name, weight, answer in zip(self.engines, self._names, self.weights, answers, strict=True):
            for rank, found in enumerate(answer.documents, 1):
                # Two engines may have the same name. Their documents are told apart by the unique one.
                document = found if found.source != own.name else msgspec.structs.replace(found, source=name)
                key = pool.add(document)
                assert key is not None
                scores[key] = scores.get(key, 0.0) + weight / (_RRF + rank)
        best = sorted(scores, key=lambda key: (-round(scores[key], 6), key))[:k]
        return tuple(msgspec.structs.replace(pool.documents[key], score=round(scores[key], 6)) for key in best)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, with a number behind a repeated one."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(unique)


def _outcome(name: str, task: asyncio.Future[Answer], timeout: float) -> Answer | str:
    """The answer, or the description of the failure."""
    if not task.done() or task.cancelled():
        return f"{name}: no answer within {timeout:g} s"
    error = task.exception()
    if error is None:
        return task.result()
    return error.message if isinstance(error, EngineFailed) else f"{name}: {describe_error(error)}"
