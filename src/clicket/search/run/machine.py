"""One question's way through the states of the search table. Every change goes through the table and is announced once it has
happened. What is kept from an earlier run is taken as it is and not done again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from clicket.kernel import SEARCH, SearchState
from clicket.model.chat import Usage
from clicket.search.dossier import Analysis, Dossier, Round, SearchResult
from clicket.search.engines.document_pool import DocumentPool
from clicket.search.engines.tasks import run_by_size
from clicket.search.run.calling import Outcome, Part
from clicket.search.run.checkpoints import AnalysisKept, Kept, PlanKept, SearchKept, SynthesisKept
from clicket.search.run.failure import SearchFailed
from clicket.search.run.messages import Message, Speaker
from clicket.search.run.order import Crew, Order
from clicket.search.run.recall import Recall
from clicket.search.run.searching import found_by, notes_on, search_all
from clicket.search.text.queries import fresh

__all__ = ["ENOUGH", "Machine"]

ENOUGH = 0.7
"""The completeness score from which a search may end."""
_LEAST_ROUNDS = 2
_FOR_ROUNDS = 0.8
"""Of the tokens: a model that plans at length must leave some for the answer."""

K = TypeVar("K", bound=Kept)
T = TypeVar("T")


class Machine:
    """Take its `stream` to the end, or let it `finish`: then `result` is there, or `failure`."""

    def __init__(self, order: Order, crew: Crew, recall: Recall) -> None:
        self.state: SearchState = SEARCH.initial
        self.result: SearchResult | None = None
        self.failure: BaseException | None = None
        self._order = order
        self._crew = crew
        self._recall = recall
        self._speaker = Speaker(order.request_id, order.question, order.max_page_size)
        self._said: list[Message] = []
        self._quiet = False
        self._dossier = Dossier(question=order.question, max_loop=order.max_loop)
        self._pool = DocumentPool(near=order.near, limit=order.budget.max_documents)
        self._loop = 1
        """The round that is under way, or about to begin."""
        self._queries: tuple[str, ...] = ()
        self._stopped = "complete"
        self._note = ""
        """What is to be said of the reason why the rounds ended."""
        self._ends_at = 0.0
        self._end: SynthesisKept | None = None
        """How an earlier run ended, when it got so far."""

    @property
    def done(self) -> bool:
        return self.state in SEARCH.terminal

    async def stream(self) -> AsyncGenerator[Message, None]:
        """All messages, the last one `final_result` or `error`. What is not a failure of the search is raised after it."""
        while not self.done:
            await self._step()
            for message in self._taken():
                yield message
        if self.failure is not None and not isinstance(self.failure, SearchFailed):
            raise self.failure

    async def finish(self) -> SearchResult:
        """The result, for those who follow nothing: messages are counted and not made."""
        self._quiet = True
        while not self.done:
            await self._step()
        if self.failure is not None:
            raise self.failure
        assert self.result is not None
        return self.result

    # --- the states ---------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        """The work of the current state, to the next one."""
        try:
            await _WORK[self.state](self)
        except Exception as error:
            self.failure = error
            self.state = SEARCH.advance(self.state, SearchState.ERROR)
            self._recall.go_live()
            text = error.message if isinstance(error, SearchFailed) else f"{type(error).__name__}: {error}"
            self._say(self._speaker.error, self._loop, text)

    async def _initialize(self) -> None:
        self._ends_at = asyncio.get_running_loop().time() + self._order.budget.max_seconds
        self._recall.load()
        if not self._recall.anything:
            self._go_live()
        self._end = self._recall.peek("synthesis", SynthesisKept)
        self._change(SearchState.DECOMPOSING, f"Round {self._loop}: decomposing the question")

    async def _decompose(self) -> None:
        budget = self._order.budget
        kept = self._recalled(f"plan:{self._loop}", PlanKept)
        if kept is None:
            if self._ended_here():
                return
            self._go_live()
            if spent := self._spent():
                self._stop("budget", spent)
                return
            outcome = await self._run(self._crew.planner, budget.decomposing)
            planned = outcome.value
            if not self._dossier.documents and (self._loop > 1 or not fresh(planned, (), 1)):
                planned = (self._order.question, *planned)  # by all that was planned nothing was found
            new = fresh(planned, self._dossier.searched, budget.max_queries)
            kept = await self._keep(f"plan:{self._loop}", PlanKept(fingerprint="", queries=new, **_told(outcome)))
        self._add(notes=kept.notes, usage=kept.usage)
        self._queries = kept.queries
        if not self._queries:
            self._stop("nothing_new")
            return
        self._say(self._speaker.extend, self._loop, self._queries)
        self._change(SearchState.SEARCHING, f"Round {self._loop}: searching")

    async def _search(self) -> None:
        ended = await self._searched()
        done = await self._merged(ended)
        self._say(self._speaker.search, done, self._dossier.documents)
        failed = all(one.error is not None for one in ended)
        if failed and not self._dossier.documents:
            raise _nothing(done, spent=all(one.cut for one in ended))
        if any(one.cut for one in ended):
            self._stop("budget", "The time for searching was spent")
        elif failed:
            self._stop("engines_failed", f"All searches of round {self._loop} failed")
        elif self._pool.refused:
            self._stop("budget", f"No more than {self._order.budget.max_documents} documents were allowed")
        else:
            self._change(SearchState.ANALYZING, f"Round {self._loop}: analyzing what was found")

    async def _analyze(self) -> None:
        kept = self._recalled(f"analysis:{self._loop}", AnalysisKept)
        if kept is None:
            self._go_live()
            ranked = await self._run(self._crew.ranker, self._order.budget.analyzing)
            self._dossier = msgspec.structs.replace(self._dossier, ranked=ranked.value)
            outcome = await self._run(self._crew.analyzer, self._order.budget.analyzing)
            record = AnalysisKept(fingerprint="", analysis=outcome.value, ranked=ranked.value, **_told(ranked, outcome))
            kept = await self._keep(f"analysis:{self._loop}", record)
        analysis = kept.analysis
        *before, last = self._dossier.rounds
        self._dossier = msgspec.structs.replace(
            self._dossier,
            rounds=(*before, msgspec.structs.replace(last, analysis=analysis)),
            ranked=kept.ranked,
            gaps=analysis.unexplored_areas,
        )
        self._add(notes=kept.notes, usage=kept.usage)
        self._decide(analysis)

    def _decide(self, analysis: Analysis) -> None:
        """Iterating is entered only when another round is allowed."""
        if self._ended_here():
            return
        enough = analysis.completeness_score >= ENOUGH and not analysis.unexplored_areas
        if enough and self._loop >= min(_LEAST_ROUNDS, self._order.max_loop):
            self._stop("complete")
        elif self._loop >= self._order.max_loop:
            self._stop("max_loop")
        elif self._loop >= self._order.budget.max_rounds:
            self._stop("budget", f"No more than {self._order.budget.max_rounds} rounds were allowed")
        elif spent := self._spent():
            self._stop("budget", spent)
        else:
            self._change(SearchState.ITERATING, f"Round {self._loop} left something open; another one follows")

    async def _iterate(self) -> None:
        self._loop += 1
        self._change(SearchState.DECOMPOSING, f"Round {self._loop}: decomposing what is left")

    async def _synthesize(self) -> None:
        kept = self._recalled("synthesis", SynthesisKept)
        if kept is None:
            self._go_live()
            seconds = self._order.budget.synthesizing
            ranked = await self._run(self._crew.ranker, seconds, ending=True) if self._unranked() else None
            if ranked is not None:
                self._dossier = msgspec.structs.replace(self._dossier, ranked=ranked.value)
            outcome = await self._run(self._crew.synthesizer, seconds, ending=True)
            record = SynthesisKept(
                fingerprint="",
                synthesis=outcome.value,
                ranked=self._dossier.ranked,
                rounds=len(self._dossier.rounds),
                stopped=self._stopped,
                note=self._note,
                **_told(*([ranked] if ranked else []), outcome),
            )
            kept = await self._keep("synthesis", record)
        self._dossier = msgspec.structs.replace(self._dossier, ranked=kept.ranked)
        self._add(notes=kept.notes, usage=kept.usage)
        self._go_live()
        self.result = self._result(kept)
        self.state = SEARCH.advance(self.state, SearchState.COMPLETED)
        self._say(self._speaker.final_result, self.result)

    # --- what the states need -----------------------------------------------------------------------------------------

    async def _searched(self) -> list[SearchKept]:
        """The end of every search of this round, in the order of the queries: kept ones as they were, the others now."""
        ended: dict[int, SearchKept] = {}
        for at, query in enumerate(self._queries):
            kept = self._recalled(f"search:{self._loop}:{at}", SearchKept)
            if kept is not None and kept.query == query:
                ended[at] = kept
        missing = {at: query for at, query in enumerate(self._queries) if at not in ended}
        if missing:
            self._go_live()

            async def keep(at: int, record: SearchKept) -> None:
                ended[at] = await self._keep(f"search:{self._loop}:{at}", record)

            budget, left = self._order.budget, self._left()
            spent = (
                "the time of the whole search was spent"
                if left < budget.searching
                else "the time for searching was spent"
            )
            together = min(budget.searching, left)
            await search_all(
                self._crew.engine,
                missing,
                keep,
                k=self._order.k,
                each=budget.query,
                together=together,
                spent=spent,
                kept=self._recall.keeps,
            )
        return [ended[at] for at in range(len(self._queries))]

    async def _merged(self, ended: list[SearchKept]) -> Round:
        """The round as part of all that is known; it is merged before anybody judges it."""
        size = sum(len(document.text) for one in ended for document in one.documents)
        found = await run_by_size(size, lambda: tuple(found_by(one, self._pool) for one in ended))
        done = Round(number=self._loop, found=found)
        self._dossier = msgspec.structs.replace(
            self._dossier,
            rounds=(*self._dossier.rounds, done),
            documents=dict(self._pool.documents),
            searched=(*self._dossier.searched, *done.queries),
        )
        self._add(notes=tuple(note for one in done.found for note in notes_on(one, self._loop)))
        return done

    def _result(self, kept: SynthesisKept) -> SearchResult:
        dossier, synthesis = self._dossier, kept.synthesis
        return SearchResult(
            question=dossier.question,
            answer=synthesis.answer,
            citations=synthesis.citations,
            documents=tuple(dossier.best(len(dossier.ranked))),
            rounds=dossier.rounds,
            stopped=kept.stopped,
            notes=dossier.notes,
            unsupported=synthesis.unsupported,
            usage=dossier.usage,
        )

    def _unranked(self) -> bool:
        return len(self._dossier.ranked) != len(self._dossier.documents) or (
            bool(self._dossier.rounds) and self._dossier.rounds[-1].analysis is None
        )

    async def _run(self, part: Part[T], seconds: float, *, ending: bool = False) -> Outcome[T]:
        max_tokens = self._order.budget.max_tokens
        if max_tokens is not None:
            max_tokens = max((max_tokens if ending else self._tokens()) - self._dossier.usage.total, 0)
        return await part.run(self._dossier, seconds if ending else min(seconds, max(self._left(), 0.001)), max_tokens)

    def _tokens(self) -> int:
        """What the rounds may use of the tokens; the rest is for the answer."""
        return int(_FOR_ROUNDS * (self._order.budget.max_tokens or 0))

    def _left(self) -> float:
        return max(self._ends_at - asyncio.get_running_loop().time(), 0.0)

    def _spent(self) -> str:
        """Which budget leaves nothing for another round."""
        if self._left() <= 0:
            return f"The {self._order.budget.max_seconds:g} s of the search were spent"
        if 0 < self._tokens() <= self._dossier.usage.total:
            return f"Of the {self._order.budget.max_tokens} tokens of the search, those for its rounds were spent"
        return ""

    def _add(self, *, notes: tuple[str, ...] = (), usage: Usage | None = None) -> None:
        if notes or usage:
            self._dossier = msgspec.structs.replace(
                self._dossier,
                notes=tuple(dict.fromkeys((*self._dossier.notes, *notes))),
                usage=self._dossier.usage + (usage or Usage()),
            )

    # --- what is kept, and what is said -------------------------------------------------------------------------------

    def _recalled(self, key: str, type: type[K]) -> K | None:
        kept, note = self._recall.take(key, type)
        if note:
            self._add(notes=(note,))
        if kept is not None:
            self._speaker.seq = max(self._speaker.seq, kept.seq)
        return kept

    async def _keep(self, key: str, record: K) -> K:
        return await self._recall.keep(key, record, self._speaker.seq)

    def _go_live(self) -> None:
        """From here on it is work. Said once, when something was taken over."""
        if self._recall.live:
            return
        self._recall.go_live()
        if taken := self._recall.taken:
            text = f"Resumed: {taken} finished {'step was' if taken == 1 else 'steps were'} taken over"
            self._say(self._speaker.resumed, self.state, self._loop, text)
            return
        self._say(self._speaker.state, SearchState.INITIALIZING, self._loop, "The search begins")
        if self.state is not SearchState.INITIALIZING:
            self._say(self._speaker.state, self.state, self._loop, "Nothing that was kept could be used")

    def _say(self, message: Callable[..., Message], *about: Any) -> None:
        if self._recall.live and self._quiet:
            self._speaker.seq += 1
        elif self._recall.live:
            self._said.append(message(*about))

    def _change(self, to: SearchState, text: str) -> None:
        self.state = SEARCH.advance(self.state, to)
        self._say(self._speaker.state, to, self._loop, text)

    def _ended_here(self) -> bool:
        """Did an earlier run stop at this very place?"""
        rounds = len(self._dossier.rounds)
        if (
            self._recall.live
            or self._end is None
            or self._end.rounds != rounds
            or self._recall.has(f"plan:{rounds + 1}")
        ):
            return False
        self._stop(self._end.stopped, self._end.note)
        return True

    def _stop(self, why: str, note: str = "") -> None:
        """No more rounds."""
        self._stopped, self._note = why, note
        if note:
            self._add(notes=(f"{note}; the answer is made of what was found until then.",))
        self._change(SearchState.SYNTHESIZING, "Putting the answer together")

    def _taken(self) -> list[Message]:
        said, self._said = self._said, []
        return said


def _nothing(done: Round, *, spent: bool) -> SearchFailed:
    """No engine answered, and there is nothing from before to answer from."""
    failures = {one.query: one.error for one in done.found}
    what = "; ".join(dict.fromkeys(str(error).rstrip(".") for error in failures.values()))
    text = f"No search came to an answer ({what}). Look at the engine, then ask again."
    return SearchFailed(text, failures=failures, spent=spent)


def _told(*outcomes: Outcome[Any]) -> Mapping[str, Any]:
    """What the outcomes of one stage add to its record."""
    usage = Usage()
    for one in outcomes:
        usage = usage + one.usage
    return {"notes": tuple(note for one in outcomes for note in one.notes), "usage": usage}


_WORK: dict[SearchState, Callable[[Machine], Awaitable[None]]] = {
    SearchState.INITIALIZING: Machine._initialize,
    SearchState.DECOMPOSING: Machine._decompose,
    SearchState.SEARCHING: Machine._search,
    SearchState.ANALYZING: Machine._analyze,
    SearchState.ITERATING: Machine._iterate,
    SearchState.SYNTHESIZING: Machine._synthesize,
}
