"""Runs one part of a search: planner, ranker, analyzer or synthesizer, built in or given by the user.

A user's part that raises, exceeds its time or returns an unusable value is replaced by the built-in part for this stage, and a
note says so. The search fails only if the built-in part fails.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import msgspec

from clicket.errors import UsageError
from clicket.model.chat import Usage
from clicket.model.text.surrogates import clean
from clicket.search.engines.tasks import cancel_tasks, describe_error, run_by_size
from clicket.search.findings import Analysis, Findings, SearchFailed, Synthesis
from clicket.search.synthesis.citations import check
from clicket.search.usage import track_usage
from clicket.system.bridge import run_in_thread

__all__ = ["Part", "PartResult", "threaded"]

T = TypeVar("T")
_GRACE = 1.0
"""Seconds that a cancelled part has to end; after that it is abandoned."""
_MAX_QUERIES = 200
"""Queries of one plan that are read: a planner may return an endless iterator."""
_MAX_RANKED = 100_000
"""Entries of one ranking that are read, for the same reason."""
_MAX_AREAS = 20
_MAX_AREA = 300


class PartResult(msgspec.Struct, Generic[T], frozen=True):
    """What a part returned in one stage, and what it noted and used."""

    value: T
    notes: tuple[str, ...]
    usage: Usage


class Part(Generic[T]):
    """One part of a search: the user's (`given`), or else the built-in one (`default`). What either returns is checked."""

    def __init__(self, role: str, *, given: Any | None, default: Any) -> None:
        method, self._accept = _ROLES[role]
        self.role = role
        self._given = None if given is None else _callable(role, method, given)
        self._default: Callable[[Findings], Any] = getattr(default, method)
        self.name = _name_of(default if given is None else given)

    async def run(self, findings: Findings, seconds: float, max_tokens: int | None) -> PartResult[T]:
        with track_usage(max_tokens, seconds) as stage:
            failed = ""
            if self._given is not None:
                try:
                    value = self._accept(await _call_with_timeout(self._given, findings, seconds), findings)
                    return PartResult(value, tuple(map(clean, stage.notes)), stage.usage)
                except Exception as error:
                    failed = f"The {self.role} failed ({describe_error(error)}); the built-in one took over"
            try:
                value = self._accept(await _run_built_in(self._default, findings), findings)
            except Exception as error:
                raise SearchFailed(f"The {self.role} failed: {describe_error(error)}", role=self.role) from error
            notes = (*stage.notes, failed) if failed else stage.notes
            return PartResult(value, tuple(map(clean, notes)), stage.usage)


def threaded(part: Any) -> Any:
    """A built-in part as the fallback of a part that asks a model: over long texts it runs in a thread, as it does in `Part`."""
    methods = [method for method, _ in _ROLES.values() if hasattr(part, method)]
    return SimpleNamespace(**{method: partial(_run_built_in, getattr(part, method)) for method in methods})


async def _run_built_in(part: Callable[[Findings], Any], findings: Findings) -> Any:
    """Run it on the loop, or in a thread if the texts are long."""
    size = sum([len(one.text) for one in findings.documents.values()])
    return await run_by_size(size, lambda: _finished(part(findings)))


def _finished(answer: Any) -> Any:
    """The value of a built-in part. An async one never waits, so its first step is its last."""
    if not inspect.iscoroutine(answer):
        return answer
    try:
        answer.send(None)
    except StopIteration as end:
        return end.value
    answer.close()
    raise RuntimeError("a built-in part does not wait")


async def _call_with_timeout(function: Callable[[Findings], Any], findings: Findings, seconds: float) -> Any:
    """Call a user's part. One that is not async runs in a thread, so that it can be abandoned."""
    task = asyncio.ensure_future(_called(function, findings))
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


async def _called(function: Callable[[Findings], Any], findings: Findings) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(findings)
    answer = await run_in_thread(lambda: function(findings))
    return await answer if inspect.isawaitable(answer) else answer


def _callable(role: str, method: str, given: Any) -> Callable[[Findings], Any]:
    for one in (getattr(given, method, None), given):
        if callable(one) and not isinstance(given, type):
            return one  # type: ignore[no-any-return]
    raise UsageError(f"{role}= takes an object with a method `{method}(findings)`, or a function; not {given!r}.")


def _name_of(thing: Any) -> str:
    named = thing if inspect.isfunction(thing) or inspect.ismethod(thing) else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


# --- checks of what a part returned; they raise if it cannot be used --------------------------------------------------


def _check_queries(given: Any, findings: Findings) -> tuple[str, ...]:
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"a plan is a list of queries, not {type(given).__name__}")
    if isinstance(given, AbstractSet):
        given = sorted(one for one in given if isinstance(one, str))
    listed = list(islice(given, _MAX_QUERIES))
    queries = tuple(clean(one) for one in listed if isinstance(one, str))
    if listed and not queries:
        raise TypeError("a plan is a list of queries, and none of these is text")
    return queries


def _check_analysis(given: Any, findings: Findings) -> Analysis:
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
    )


def _check_ranking(given: Any, findings: Findings) -> tuple[tuple[str, float], ...]:
    """Every document gets a score; documents that the ranker left out come last."""
    documents = findings.documents
    scores: dict[str, float] = {}
    for key, score in islice(given, _MAX_RANKED):
        if key in documents:
            scores.setdefault(key, round(_finite(score), 6))
    if len(scores) < len(documents):
        least = min([0.0, *scores.values()])
        for key in documents:
            scores.setdefault(key, least)
    order = sorted(sorted(scores), key=scores.__getitem__, reverse=True)  # faster than by pairs
    return tuple([(key, scores[key]) for key in order])


def _check_synthesis(given: Any, findings: Findings) -> Synthesis:
    """Every citation is compared with its document, also those of a built-in synthesizer."""
    if isinstance(given, str):
        given = Synthesis(answer=given)
    if isinstance(given, Mapping):
        given = msgspec.convert({"citations": (), **given}, Synthesis)
    if not isinstance(given, Synthesis) or not isinstance(given.answer, str):
        raise TypeError(f"a synthesis is needed, not {type(given).__name__}")
    checked = check(given, findings.documents)
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


_ROLES: Mapping[str, tuple[str, Callable[[Any, Findings], Any]]] = {
    "planner": ("plan", _check_queries),
    "ranker": ("rank", _check_ranking),
    "analyzer": ("analyze", _check_analysis),
    "synthesizer": ("synthesize", _check_synthesis),
}
"""The method of each part, and the check of what it returns."""
