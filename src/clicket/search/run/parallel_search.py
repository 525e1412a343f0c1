"""Asks the engine all queries of one round at the same time. Each query ends on its own: a failure affects no other query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping

from clicket.model.text.surrogates import clean
from clicket.search.engines.adapter import Answer, AskableEngine, EngineFailed
from clicket.search.engines.document_pool import DocumentPool
from clicket.search.engines.tasks import cancel_tasks, describe_error
from clicket.search.findings import QueryResult
from clicket.search.run.checkpoints import QueryRecord

__all__ = ["merge_documents", "notes_on", "search_all"]

_GRACE = 1.0
"""Seconds that a cancelled query has to end."""


async def search_all(
    engine: AskableEngine,
    queries: Mapping[int, tuple[str, int]],
    on_ended: Callable[[int, QueryRecord], Awaitable[None]],
    *,
    query_seconds: float,
    round_seconds: float,
    spent: str,
    one_by_one: bool,
) -> None:
    """Await `on_ended` for each query as soon as it ends. A query has the number of documents that it asks for.

    `query_seconds` limits each query, `round_seconds` all of them; `spent` is the error of queries that the latter cut off.
    `one_by_one`: an engine that answers without waiting is asked the next query after `on_ended` has returned, so that a crash
    in between does not repeat the first.
    """
    loop = asyncio.get_running_loop()
    patience = min(query_seconds, round_seconds)
    over_at = loop.time() + patience
    tasks: dict[asyncio.Task[Answer], int] = {}
    begun: list[asyncio.Task[Answer]] = []
    waiting: set[asyncio.Task[Answer]] = set()
    try:
        for at, (query, k) in queries.items():
            task = loop.create_task(engine.ask(query, k=k, deadline=patience))
            tasks[task] = at
            begun.append(task)
            if not one_by_one and len(tasks) < len(queries):
                continue
            await asyncio.sleep(0)
            for task in begun:
                if task.done():
                    await on_ended(tasks[task], _outcome(queries[tasks[task]][0], task))
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
                await on_ended(at, _outcome(queries[at][0], task))
    finally:
        await cancel_tasks(tasks, _GRACE)
    cut = round_seconds < query_seconds
    why = spent if cut else f"no answer within {query_seconds:g} s"
    for task in sorted(waiting, key=tasks.__getitem__):
        at = tasks[task]
        await on_ended(at, QueryRecord(query=queries[at][0], error=f"{engine.name}: {why}", cut=cut))


def _outcome(query: str, task: asyncio.Task[Answer]) -> QueryRecord:
    if task.cancelled():
        return QueryRecord(query=query, error="the search was cancelled by its engine")
    error = task.exception()
    if error is not None:
        text = clean(error.message) if isinstance(error, EngineFailed) else describe_error(error)
        return QueryRecord(query=query, error=text)
    answer = task.result()
    if not isinstance(answer, Answer):  # a user's engine may return anything
        return QueryRecord(query=query, error=f"it answered with {type(answer).__name__}, not with an Answer")
    return QueryRecord(query=query, documents=answer.documents, notes=tuple(map(clean, answer.notes)))


def merge_documents(record: QueryRecord, pool: DocumentPool) -> QueryResult:
    """Add the documents of a query to the pool. The result names them by their ids in the pool."""
    scores: dict[str, float] = {}
    for document in record.documents:
        key = pool.add(document)
        if key is not None:
            scores.setdefault(key, round(document.score, 6))
    return QueryResult(
        query=record.query,
        documents=tuple(scores),
        scores=tuple(scores.values()),
        error=record.error,
        notes=record.notes,
    )


def notes_on(result: QueryResult, loop: int) -> Iterator[str]:
    if result.error is not None:
        yield f"Round {loop}: the search for {result.query!r} failed: {result.error}"
    for note in result.notes:
        yield f"Round {loop}, {result.query!r}: {note}"
