"""The searches of one round, all at once. Each ends on its own: what one does, or does not do, changes nothing for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping

from clicket.search.dossier import Found
from clicket.search.engines.adapter import Answer, AskableEngine, EngineFailed
from clicket.search.engines.document_pool import DocumentPool
from clicket.search.engines.tasks import cancel_tasks, describe_error
from clicket.search.run.checkpoints import SearchKept
from clicket.search.text.surrogates import clean

__all__ = ["found_by", "notes_on", "search_all"]

_GRACE = 1.0
"""Seconds that a search gets to end once it was stopped."""
Ended = Callable[[int, SearchKept], Awaitable[None]]


async def search_all(
    engine: AskableEngine,
    queries: Mapping[int, str],
    ended: Ended,
    *,
    k: int,
    each: float,
    together: float,
    spent: str,
    kept: bool,
) -> None:
    """Tell `ended` of each search as soon as it is over. `each` search has its seconds, and so have all `together`; `spent`
    says whose time that was. Is what ended `kept`, then one that waits for nobody is told before the next one begins: a crash
    there does not repeat it."""
    loop = asyncio.get_running_loop()
    patience = min(each, together)
    over_at = loop.time() + patience
    tasks: dict[asyncio.Task[Answer], int] = {}
    begun: list[asyncio.Task[Answer]] = []
    waiting: set[asyncio.Task[Answer]] = set()
    try:
        for at, query in queries.items():
            task = loop.create_task(engine.ask(query, k=k, deadline=patience))
            tasks[task] = at
            begun.append(task)
            if not kept and len(tasks) < len(queries):
                continue
            await asyncio.sleep(0)
            for task in begun:
                if task.done():
                    await ended(tasks[task], _outcome(queries[tasks[task]], task))
                else:
                    waiting.add(task)
            begun.clear()
        while waiting:
            left = max(over_at - loop.time(), 0.0)
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for task in sorted(done, key=tasks.__getitem__):
                at = tasks[task]
                await ended(at, _outcome(queries[at], task))
    finally:
        await cancel_tasks(tasks, _GRACE)
    cut = together < each
    why = spent if cut else f"no answer within {each:g} s"
    for task in sorted(waiting, key=tasks.__getitem__):
        at = tasks[task]
        await ended(at, SearchKept(fingerprint="", query=queries[at], error=f"{engine.name}: {why}", cut=cut))


def _outcome(query: str, task: asyncio.Task[Answer]) -> SearchKept:
    if task.cancelled():
        return SearchKept(fingerprint="", query=query, error="the search was cancelled by its engine")
    error = task.exception()
    if error is not None:
        told = clean(error.message) if isinstance(error, EngineFailed) else describe_error(error)
        return SearchKept(fingerprint="", query=query, error=told)
    answer = task.result()
    if not isinstance(answer, Answer):  # of an engine that somebody else wrote
        return SearchKept(
            fingerprint="", query=query, error=f"it answered with {type(answer).__name__}, not with an Answer"
        )
    return SearchKept(fingerprint="", query=query, documents=answer.documents, notes=tuple(map(clean, answer.notes)))


def found_by(ended: SearchKept, pool: DocumentPool) -> Found:
    """What a search found, with the ids that its documents have in the pool."""
    scores: dict[str, float] = {}
    for document in ended.documents:
        key = pool.add(document)
        if key is not None:
            scores.setdefault(key, round(document.score, 6))
    return Found(
        query=ended.query,
        documents=tuple(scores),
        scores=tuple(scores.values()),
        error=ended.error,
        notes=ended.notes,
    )


def notes_on(found: Found, loop: int) -> Iterator[str]:
    if found.error is not None:
        yield f"Round {loop}: the search for {found.query!r} failed: {found.error}"
    for note in found.notes:
        yield f"Round {loop}, {found.query!r}: {note}"
