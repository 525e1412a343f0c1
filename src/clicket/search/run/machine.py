"""Runs one search through the states of the table `SEARCH`.

Every change of state goes through the table and is announced after it happened. Stages that an earlier run finished are
replayed from checkpoints, and are neither done nor announced again.

After each round `_decide` ends the rounds or allows another one. They also end earlier if there is nothing new to ask, all engines fail
or a budget is spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from clicket.kernel import SEARCH, SearchState
from clicket.model.chat import Usage
from clicket.search.engines.document_pool import DocumentPool
from clicket.search.engines.tasks import run_by_size
from clicket.search.findings import Analysis, Findings, Round, SearchFailed, SearchResult
from clicket.search.run.checkpoints import (
    AnalysisRecord,
    CheckpointReplay,
    PlanRecord,
    QueryRecord,
    Record,
    SynthesisRecord,
)
from clicket.search.run.messages import Message, MessageBuilder
from clicket.search.run.parallel_search import merge_documents, notes_on, search_all
from clicket.search.run.part import Part, PartResult
from clicket.search.run.spec import Parts, SearchSpec
from clicket.search.text.queries import fresh

__all__ = ["ENOUGH", "Machine"]

ENOUGH = 0.7
"""The completeness score from which a search may end."""
_MIN_ROUNDS = 2
_ROUNDS_SHARE = 0.8
"""The share of the tokens that the rounds may use; the rest is for the synthesis."""

R = TypeVar("R", bound=Record)
T = TypeVar("T")


class Machine:
    """One search. Iterate over `stream` to its end, or await `finish`; then `result` is set, or `failure`."""

    def __init__(self, spec: SearchSpec, parts: Parts, replay: CheckpointReplay) -> None:
        self.state: SearchState = SEARCH.initial
        self.result: SearchResult | None = None
        self.failure: BaseException | None = None
        self._spec = spec
        self._parts = parts
        self._replay = replay
        self._messages = MessageBuilder(spec.request_id, spec.question, spec.max_page_size)
        self._unsent: list[Message] = []
        self._silent = False
        self._findings = Findings(question=spec.question, max_loop=spec.max_loop)
        self._pool = DocumentPool(near=spec.merge_similar, limit=spec.budget.max_documents)
        self._loop = 1
        """The current round, from 1."""
        self._queries: tuple[str, ...] = ()
        self._stopped = "complete"
        self._note = ""
        """The note about why the rounds ended."""
        self._ends_at = 0.0
        self._end: SynthesisRecord | None = None
        """The synthesis of an earlier run, if it got so far."""

    @property
    def done(self) -> bool:
        return self.state in SEARCH.terminal

    async def stream(self) -> AsyncGenerator[Message, None]:
        """All messages, the last one `final_result` or `error`. An error other than `SearchFailed` is raised after it."""
        while not self.done:
            await self._step()
            messages, self._unsent = self._unsent, []
            for message in messages:
                yield message
        if self.failure is not None and not isinstance(self.failure, SearchFailed):
            raise self.failure

    async def finish(self) -> SearchResult:
        """The result, or an exception. Messages are counted and not built."""
        self._silent = True
        while not self.done:
            await self._step()
        if self.failure is not None:
            raise self.failure
        assert self.result is not None
        return self.result

    # --- the states ---------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        """Do the work of the current state, which ends in another state."""
        try:
            await _WORK[self.state](self)
        except Exception as error:
            self.failure = error
            self.state = SEARCH.advance(self.state, SearchState.ERROR)
            self._replay.live = True
            text = error.message if isinstance(error, SearchFailed) else f"{type(error).__name__}: {error}"
            self._announce(self._messages.error, self._loop, text)

    async def _initialize(self) -> None:
        self._ends_at = asyncio.get_running_loop().time() + self._spec.budget.max_seconds
        self._replay.load()
        read = self._parts.read(self._spec.question)
        self._update(question=read.text)
        self._add_notes(notes=read.notes)
        if not self._replay.records:
            self._go_live()
        self._end = self._replay.peek("synthesis", SynthesisRecord)
        self._change(SearchState.DECOMPOSING, f"Round {self._loop}: decomposing the question")

    async def _decompose(self) -> None:
        budget = self._spec.budget
        record = self._replayed(f"plan:{self._loop}", PlanRecord)
        if record is None:
            if self._stopped_here():
                return
            self._go_live()
            if spent := self._spent_budget():
                self._stop("budget", spent)
                return
            result = await self._run(self._parts.planner, budget.decomposing)
            planned = result.value
            if not self._findings.documents and (self._loop > 1 or not fresh(planned, (), 1)):
                planned = (self._findings.question, *planned)  # earlier queries found nothing
            new = fresh(planned, self._findings.searched, budget.max_queries)
            record = await self._save(f"plan:{self._loop}", PlanRecord(queries=new, **_record_fields(result)))
        self._add_notes(notes=record.notes, usage=record.usage)
        self._queries = record.queries
        if not self._queries:
            self._stop("nothing_new")
            return
        self._announce(self._messages.extend, self._loop, self._queries)
        self._change(SearchState.SEARCHING, f"Round {self._loop}: searching")

    async def _search(self) -> None:
        ended = await self._search_round()
        done = await self._add_round(ended)
        self._announce(self._messages.search, done, self._findings.documents)
        failed = all(one.error is not None for one in ended)
        if failed and not self._findings.documents:
            raise _all_failed(done, spent=all(one.cut for one in ended))
        if any(one.cut for one in ended):
            self._stop("budget", "The time for searching was spent")
        elif failed:
            self._stop("engines_failed", f"All searches of round {self._loop} failed")
        elif self._pool.refused:
            self._stop("budget", f"No more than {self._spec.budget.max_documents} documents were allowed")
        else:
            self._change(SearchState.ANALYZING, f"Round {self._loop}: analyzing what was found")

    async def _analyze(self) -> None:
        record = self._replayed(f"analysis:{self._loop}", AnalysisRecord)
        if record is None:
            self._go_live()
            ranked = await self._run(self._parts.ranker, self._spec.budget.analyzing)
            self._update(ranked=ranked.value)
            result = await self._run(self._parts.analyzer, self._spec.budget.analyzing)
            record = AnalysisRecord(analysis=result.value, ranked=ranked.value, **_record_fields(ranked, result))
            record = await self._save(f"analysis:{self._loop}", record)
        analysis = record.analysis
        *before, last = self._findings.rounds
        self._update(
            rounds=(*before, msgspec.structs.replace(last, analysis=analysis)),
            ranked=record.ranked,
            gaps=analysis.unexplored_areas,
        )
        self._add_notes(notes=record.notes, usage=record.usage)
        self._decide(analysis)

    def _decide(self, analysis: Analysis) -> None:
        """End the rounds, or enter `iterating` if another round is allowed."""
        if self._stopped_here():
            return
        enough = analysis.completeness_score >= ENOUGH and not analysis.unexplored_areas
        if enough and self._loop >= min(_MIN_ROUNDS, self._spec.max_loop):
            self._stop("complete")
        elif self._loop >= self._spec.max_loop:
            self._stop("max_loop")
        elif self._loop >= self._spec.budget.max_rounds:
            self._stop("budget", f"No more than {self._spec.budget.max_rounds} rounds were allowed")
        elif spent := self._spent_budget():
            self._stop("budget", spent)
        else:
            self._change(SearchState.ITERATING, f"Round {self._loop} did not find everything; another round follows")

    async def _iterate(self) -> None:
        self._loop += 1
        self._change(SearchState.DECOMPOSING, f"Round {self._loop}: decomposing what is left")

    async def _synthesize(self) -> None:
        record = self._replayed("synthesis", SynthesisRecord)
        if record is None:
            self._go_live()
            seconds = self._spec.budget.synthesizing
            ranked = await self._run(self._parts.ranker, seconds, ending=True) if self._unranked() else None
            if ranked is not None:
                self._update(ranked=ranked.value)
            result = await self._run(self._parts.synthesizer, seconds, ending=True)
            record = SynthesisRecord(
                synthesis=result.value,
                ranked=self._findings.ranked,
                rounds=len(self._findings.rounds),
                stopped=self._stopped,
                note=self._note,
                **_record_fields(*([ranked] if ranked else []), result),
            )
            record = await self._save("synthesis", record)
        self._update(ranked=record.ranked)
        self._add_notes(notes=record.notes, usage=record.usage)
        self._go_live()
        self.result = self._result(record)
        self.state = SEARCH.advance(self.state, SearchState.COMPLETED)
        self._announce(self._messages.final_result, self.result)

    # --- the work of the states ---------------------------------------------------------------------------------------

    async def _search_round(self) -> list[QueryRecord]:
        """The outcome of each query of this round, in order: from checkpoints, the others from the engine."""
        ended: dict[int, QueryRecord] = {}
        for at, query in enumerate(self._queries):
            record = self._replayed(f"search:{self._loop}:{at}", QueryRecord)
            if record is not None and record.query == query:
                ended[at] = record
        first, later = self._spec.k, self._spec.later_k
        missing = {
            at: (query, later if at or self._loop > 1 else first)
            for at, query in enumerate(self._queries)
            if at not in ended
        }
        if missing:
            self._go_live()

            async def save(at: int, record: QueryRecord) -> None:
                ended[at] = await self._save(f"search:{self._loop}:{at}", record)

            budget = self._spec.budget
            left = self._seconds_left()
            whole = "of the whole search" if left < budget.searching else "for searching"
            await search_all(
                self._parts.engine,
                missing,
                save,
                query_seconds=budget.query,
                round_seconds=min(budget.searching, left),
                spent=f"the time {whole} was spent",
                one_by_one=self._replay.saves,
            )
        return [ended[at] for at in range(len(self._queries))]

    async def _add_round(self, ended: list[QueryRecord]) -> Round:
        """Add the round to the findings, its documents merged with those of earlier rounds."""
        size = sum(len(document.text) for one in ended for document in one.documents)
        found = await run_by_size(size, lambda: tuple(merge_documents(one, self._pool) for one in ended))
        done = Round(number=self._loop, found=found)
        self._update(
            rounds=(*self._findings.rounds, done),
            documents=dict(self._pool.documents),
            searched=(*self._findings.searched, *done.queries),
        )
        self._add_notes(notes=tuple(note for one in done.found for note in notes_on(one, self._loop)))
        return done

    def _update(self, **changes: Any) -> None:
        self._findings = msgspec.structs.replace(self._findings, **changes)

    def _result(self, record: SynthesisRecord) -> SearchResult:
        findings = self._findings
        synthesis = record.synthesis
        return SearchResult(
            question=self._spec.question,
            answer=synthesis.answer,
            answered=synthesis.answered,
            citations=synthesis.citations,
            documents=tuple(findings.best(len(findings.ranked))),
            rounds=findings.rounds,
            stopped=record.stopped,
            notes=findings.notes,
            unsupported=synthesis.unsupported,
            usage=findings.usage,
        )

    def _unranked(self) -> bool:
        return len(self._findings.ranked) != len(self._findings.documents) or (
            bool(self._findings.rounds) and self._findings.rounds[-1].analysis is None
        )

    async def _run(self, part: Part[T], seconds: float, *, ending: bool = False) -> PartResult[T]:
        max_tokens = self._spec.budget.max_tokens
        if max_tokens is not None:
            max_tokens = max((max_tokens if ending else self._round_tokens()) - self._findings.usage.total, 0)
        return await part.run(
            self._findings, seconds if ending else min(seconds, max(self._seconds_left(), 0.001)), max_tokens
        )

    def _round_tokens(self) -> int:
        return int(_ROUNDS_SHARE * (self._spec.budget.max_tokens or 0))

    def _seconds_left(self) -> float:
        return max(self._ends_at - asyncio.get_running_loop().time(), 0.0)

    def _spent_budget(self) -> str:
        """Which budget is spent, as a note; empty if another round is possible."""
        if self._seconds_left() <= 0:
            return f"The {self._spec.budget.max_seconds:g} s of the search were spent"
        if 0 < self._round_tokens() <= self._findings.usage.total:
            return f"Of the {self._spec.budget.max_tokens} tokens of the search, those for its rounds were spent"
        return ""

    def _add_notes(self, *, notes: tuple[str, ...] = (), usage: Usage | None = None) -> None:
        if notes or usage:
            self._update(
                notes=tuple(dict.fromkeys((*self._findings.notes, *notes))),
                usage=self._findings.usage + (usage or Usage()),
            )

    # --- checkpoints and messages -------------------------------------------------------------------------------------

    def _replayed(self, key: str, type: type[R]) -> R | None:
        record, note = self._replay.take(key, type)
        if note:
            self._add_notes(notes=(note,))
        if record is not None:
            self._messages.seq = max(self._messages.seq, record.seq)
        return record

    async def _save(self, key: str, record: R) -> R:
        return await self._replay.save(key, record, self._messages.seq)

    def _go_live(self) -> None:
        """End the replay of checkpoints. The first message says whether anything was replayed."""
        if self._replay.live:
            return
        self._replay.live = True
        if count := self._replay.replayed:
            text = f"Resumed: {count} finished {'step was' if count == 1 else 'steps were'} taken over"
            self._announce(self._messages.state, self.state, self._loop, text, resumed=True)
            return
        self._announce(self._messages.state, SearchState.INITIALIZING, self._loop, "The search begins")
        if self.state is not SearchState.INITIALIZING:
            self._announce(self._messages.state, self.state, self._loop, "No checkpoint could be used")

    def _announce(self, message: Callable[..., Message], *about: Any, **more: Any) -> None:
        if self._replay.live and self._silent:
            self._messages.seq += 1
        elif self._replay.live:
            self._unsent.append(message(*about, **more))

    def _change(self, to: SearchState, text: str) -> None:
        self.state = SEARCH.advance(self.state, to)
        self._announce(self._messages.state, to, self._loop, text)

    def _stopped_here(self) -> bool:
        """Did an earlier run end its rounds here? Then this one does too."""
        rounds = len(self._findings.rounds)
        if (
            self._replay.live
            or self._end is None
            or self._end.rounds != rounds
            or f"plan:{rounds + 1}" in self._replay.records
        ):
            return False
        self._stop(self._end.stopped, self._end.note)
        return True

    def _stop(self, why: str, note: str = "") -> None:
        """End the rounds."""
        self._stopped, self._note = why, note
        if note:
            self._add_notes(notes=(f"{note}; the answer is made of what was found until then.",))
        self._change(SearchState.SYNTHESIZING, "Writing the answer")


def _all_failed(done: Round, *, spent: bool) -> SearchFailed:
    """Every query failed, and no earlier round found a document."""
    failures = {one.query: one.error for one in done.found}
    what = "; ".join(dict.fromkeys(str(error).rstrip(".") for error in failures.values()))
    text = f"Every query failed ({what}). Check the engine, then search again."
    return SearchFailed(text, failures=failures, spent=spent)


def _record_fields(*results: PartResult[Any]) -> Mapping[str, Any]:
    """Notes and usage of a stage, for its record."""
    usage = Usage()
    for one in results:
        usage = usage + one.usage
    return {"notes": tuple(note for one in results for note in one.notes), "usage": usage}


_WORK: dict[SearchState, Callable[[Machine], Awaitable[None]]] = {
    SearchState.INITIALIZING: Machine._initialize,
    SearchState.DECOMPOSING: Machine._decompose,
    SearchState.SEARCHING: Machine._search,
    SearchState.ANALYZING: Machine._analyze,
    SearchState.ITERATING: Machine._iterate,
    SearchState.SYNTHESIZING: Machine._synthesize,
}
