"""Scripted parts of a search, and an event loop whose clock jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from clicket.model.document import Document
from clicket.search import Analysis, Findings, Synthesis, deep_search_stream

T = TypeVar("T")


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer instead of waiting. For work without threads."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def leap(timeout: float | None = None) -> Any:
            ready = select(0)
            if not ready and timeout:
                self.now += timeout
            assert ready or timeout is not None, "all tasks wait, and no timer is set"
            return ready

        self._selector.select = leap  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


def leaping(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a `LeapingLoop`."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work())


def document(id: str, text: str = "", **more: Any) -> Document:
    return Document(id=id, title=more.pop("title", f"Title {id}"), text=text or f"Text of {id}.", **more)


class Engine:
    """Answers by table: documents, an exception to raise, or "hang". Every other query finds its own document."""

    def __init__(self, table: Mapping[str, Any] | None = None, name: str = "fake", default: Any = None) -> None:
        self.name = name
        self.asked: list[str] = []
        self._table = dict(table or {})
        self._default = default

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Any:
        self.asked.append(query)
        answer = self._table.get(query, self._default)
        if answer is None:
            return [document(f"of {query}")]
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Plans:
    """A planner with one list of queries for each round; after the last one, none."""

    def __init__(self, *rounds: Any) -> None:
        self._rounds = rounds
        self.seen: list[Findings] = []

    async def plan(self, findings: Findings) -> Any:
        self.seen.append(findings)
        at = len(findings.rounds)
        planned = self._rounds[at] if at < len(self._rounds) else []
        if planned == "hang":
            await asyncio.Event().wait()
        if isinstance(planned, BaseException):
            raise planned
        return planned


class Scores:
    """An analyzer with one (score, areas) for each round; the last one repeats."""

    def __init__(self, *rounds: Any) -> None:
        self._rounds = rounds
        self.seen: list[Findings] = []

    async def analyze(self, findings: Findings) -> Any:
        self.seen.append(findings)
        given = self._rounds[min(len(findings.rounds), len(self._rounds)) - 1]
        if given == "hang":
            await asyncio.Event().wait()
        if isinstance(given, BaseException):
            raise given
        if not isinstance(given, tuple):
            return given
        score, areas = given
        return Analysis(completeness_score=score, unexplored_areas=tuple(areas))


class Cites:
    """A synthesizer that cites the first 40 characters of every document, the best first."""

    def __init__(self) -> None:
        self.seen: list[Findings] = []

    async def synthesize(self, findings: Findings) -> Synthesis:
        self.seen.append(findings)
        best = [one for one in findings.best(len(findings.ranked)) if one.text]
        citations = tuple(one.cite(0, min(40, len(one.text))) for one in best)
        return Synthesis(
            answer=" ".join(f"{one.text} [{at}]" for at, one in enumerate(citations, 1)), citations=citations
        )


def kinds(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The state of each state message, the type of each other message."""
    return [one["state"] if one["messageType"] == "state" else one["messageType"] for one in messages]


OPEN: tuple[float, list[str]] = (0.2, ["something"])
DONE: tuple[float, list[str]] = (0.9, [])
"""Analyses for `Scores`: the search continues, or has found enough."""


async def messages_of(question: str = "What is it?", **options: Any) -> list[dict[str, Any]]:
    return [one async for one in deep_search_stream(question, **options)]
