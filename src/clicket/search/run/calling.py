"""Calls of parts that somebody else wrote. One that raises, hangs or gives what is no answer is replaced by the deterministic
part, with a note; only when that one fails has the search failed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from clicket.errors import UsageError
from clicket.model.chat import Usage
from clicket.search.dossier import Analysis, Dossier, Synthesis
from clicket.search.engines.tasks import cancel_tasks, describe_error, run_by_size, run_in_thread
from clicket.search.ledger import opened
from clicket.search.run.failure import SearchFailed
from clicket.search.text.surrogates import clean

__all__ = ["Aside", "Outcome", "Part", "aside", "bounded"]

T = TypeVar("T")
_GRACE = 1.0
"""Seconds that a part gets to end once it was stopped; one that does not end is left alone."""


class Outcome(Generic[T]):
    """What a stage came to, and what it noted and used."""

    __slots__ = ("notes", "usage", "value")

    def __init__(self, value: T, notes: tuple[str, ...], usage: Usage) -> None:
        self.value = value
        self.notes = notes
        self.usage = usage


class Part(Generic[T]):
    """One part of a search: `given` by the user, or else `default`; `accept` makes sure of what either returns. A default that
    asks a model of its own is `slow`, and keeps nobody waiting."""

    def __init__(
        self,
        role: str,
        method: str,
        *,
        given: Any | None,
        default: Any,
        accept: Callable[[Any, Dossier], T],
        slow: bool = False,
    ) -> None:
        self.role = role
        self._given = None if given is None else _callable(role, method, given)
        self._default: Callable[[Dossier], Any] = getattr(default, method)
        self._accept = accept
        self._slow = slow
        self.name = _name_of(default if given is None else given)

    async def run(self, dossier: Dossier, seconds: float, max_tokens: int | None) -> Outcome[T]:
        with opened(max_tokens, seconds) as ledger:
            failed = ""
            if self._given is not None:
                try:
                    value = self._accept(await bounded(self._given, dossier, seconds), dossier)
                    return Outcome(value, tuple(map(clean, ledger.notes)), ledger.usage)
                except Exception as error:
                    failed = f"The {self.role} failed ({describe_error(error)}); the deterministic one took over"
            try:
                value = self._accept(await aside(self._default, dossier, slow=self._slow), dossier)
            except Exception as error:
                raise SearchFailed(f"The {self.role} failed: {describe_error(error)}", role=self.role) from error
            notes = (*ledger.notes, failed) if failed else ledger.notes
            return Outcome(value, tuple(map(clean, notes)), ledger.usage)


class Aside:
    """A deterministic part for somebody else to fall back on: over long texts it works in a thread, as it does on its own."""

    def __init__(self, part: Any) -> None:
        self._part = part

    async def plan(self, dossier: Dossier) -> Sequence[str]:
        planned: Sequence[str] = await aside(self._part.plan, dossier)
        return planned

    async def analyze(self, dossier: Dossier) -> Analysis:
        analysis: Analysis = await aside(self._part.analyze, dossier)
        return analysis

    async def synthesize(self, dossier: Dossier) -> Synthesis:
        synthesis: Synthesis = await aside(self._part.synthesize, dossier)
        return synthesis


async def aside(part: Callable[[Dossier], Any], dossier: Dossier, *, slow: bool = False) -> Any:
    """What a deterministic part makes of a dossier. The loop goes on while it reads long texts."""
    size = sum([len(one.text) for one in dossier.documents.values()])
    return await (run_in_thread if slow else partial(run_by_size, size))(lambda: _made(part(dossier)))


def _made(answer: Any) -> Any:
    """Deterministic parts wait for nobody, so one that is async is done when it has begun."""
    if not inspect.iscoroutine(answer):
        return answer
    try:
        answer.send(None)
    except StopIteration as end:
        return end.value
    answer.close()
    raise RuntimeError("a deterministic part does not wait")


async def bounded(function: Callable[[Dossier], Any], dossier: Dossier, seconds: float) -> Any:
    """Its answer within that time. What blocks runs in a thread, so that it can be left."""
    task = asyncio.ensure_future(_called(function, dossier))
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        ended = task.done()
        await cancel_tasks((task,), min(_GRACE, seconds))
    if not ended:
        raise TimeoutError(f"no answer within {seconds:g} s")
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


async def _called(function: Callable[[Dossier], Any], dossier: Dossier) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(dossier)
    answer = await run_in_thread(lambda: function(dossier))
    return await _awaited(answer) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _callable(role: str, method: str, given: Any) -> Callable[[Dossier], Any]:
    own = getattr(given, method, None)
    if callable(own) and not isinstance(given, type):
        return own  # type: ignore[no-any-return]
    if callable(given) and not isinstance(given, type):
        return given  # type: ignore[no-any-return]
    raise UsageError(f"{role}= takes an object with a method `{method}(dossier)`, or a function; not {given!r}.")


def _name_of(thing: Any) -> str:
    named = thing if inspect.isfunction(thing) or inspect.ismethod(thing) else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
