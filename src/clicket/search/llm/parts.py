"""Planner, analyzer and synthesizer that ask a model. If it gives no usable answer, the built-in part runs, and a note says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from clicket.model.document import Citation
from clicket.model.ports.services import ChatModel
from clicket.model.tool_tables import MAX_QUERIES
from clicket.search.findings import Analysis, Findings, Synthesis
from clicket.search.llm.context_budget import fit_documents
from clicket.search.llm.prompts import analysis_prompt, planning_prompt, synthesis_prompt
from clicket.search.llm.response_formats import CLAIMS, JUDGEMENT, QUERIES
from clicket.search.llm.structured_chat import SPENT, NoAnswer, StructuredChat
from clicket.search.llm.verification import verify_claims
from clicket.search.protocols import Analyzer, Planner, Synthesizer
from clicket.search.text.queries import fresh
from clicket.search.text.sentences import sentences
from clicket.search.usage import add_note

__all__ = ["ModelAnalyzer", "ModelPlanner", "ModelSynthesizer", "add_marks", "cited_synthesis"]

_STOPS = ".!?…。！？；"
_CLOSERS = "\"'”’»)]」』）】》"

F = TypeVar("F")


class _ModelPart(Generic[F]):
    _PROMPT_TOKENS = 0

    def __init__(
        self,
        model: ChatModel,
        fallback: F,
        *,
        max_prompt_tokens: int | None = None,
        chat: StructuredChat | None = None,
    ) -> None:
        """`max_prompt_tokens` limits the documents in the prompt: 2,000 of a planner, 3,000 of an analyzer, 8,000 of a synthesizer.
        `chat` sets attempts and seconds."""
        self._chat = chat or StructuredChat(model)
        self._fallback = fallback
        self._max_prompt_tokens = self._PROMPT_TOKENS if max_prompt_tokens is None else max_prompt_tokens


class ModelPlanner(_ModelPart[Planner]):
    """A `Planner` that asks a model for new queries. If it has none, the fallback is asked."""

    _PROMPT_TOKENS = 2_000

    async def plan(self, findings: Findings) -> Sequence[str]:
        found = fit_documents(findings, documents=8, tokens=self._max_prompt_tokens, each=200)
        why = "had nothing new to search for"
        try:
            queries = await self._chat.ask(QUERIES, *planning_prompt(findings, found))
            if new := fresh(queries, findings.searched, MAX_QUERIES):
                return new
        except NoAnswer as error:
            why = str(error)
        add_note(f"Planning: the model {self._chat.name} {why}; the built-in planner took over.")
        return await self._fallback.plan(findings)


class ModelAnalyzer(_ModelPart[Analyzer]):
    """An `Analyzer` that asks a model to judge the documents. Without documents the fallback is asked."""

    _PROMPT_TOKENS = 3_000

    async def analyze(self, findings: Findings) -> Analysis:
        if not findings.documents:
            return await self._fallback.analyze(findings)
        found = fit_documents(findings, documents=10, tokens=self._max_prompt_tokens, each=300)
        try:
            if not found:
                raise NoAnswer(SPENT)
            judged = await self._chat.ask(JUDGEMENT, *analysis_prompt(findings, found))
        except NoAnswer as why:
            add_note(f"Analysis: the model {self._chat.name} {why}; the built-in analyzer took over.")
            return await self._fallback.analyze(findings)
        return Analysis(
            completeness_score=judged.score,
            unexplored_areas=judged.areas,
            components={"model": judged.score},
            by=f"model {self._chat.name}",
        )


class ModelSynthesizer(_ModelPart[Synthesizer]):
    """A `Synthesizer` that writes the answer in the model's words. Statements that their quotes do not support are left out; if
    none is left, the fallback answers."""

    _PROMPT_TOKENS = 8_000

    async def synthesize(self, findings: Findings) -> Synthesis:
        if not findings.documents:
            return await self._fallback.synthesize(findings)
        found = fit_documents(findings, documents=15, tokens=self._max_prompt_tokens)
        try:
            if not found:
                raise NoAnswer(SPENT)
            claims = await self._chat.ask(CLAIMS, *synthesis_prompt(findings, found))
        except NoAnswer as why:
            return await self._fall_back(findings, str(why))
        verified = verify_claims(claims, found, findings.question)
        if not claims:
            return await self._fall_back(findings, "found no answer in the documents")
        if not verified.claims:
            return await self._fall_back(findings, "gave no statement that its quotes bear out", verified.unsupported)
        if verified.unsupported:
            count = len(verified.unsupported)
            add_note(f"Synthesis: {count} of the model's statements had no support in the documents and were left out.")
        return cited_synthesis(verified.claims, verified.unsupported, f"model {self._chat.name}")

    async def _fall_back(self, findings: Findings, why: str, unsupported: tuple[str, ...] = ()) -> Synthesis:
        add_note(f"Synthesis: the model {self._chat.name} {why}; the answer is made of sentences of the documents.")
        synthesis = await self._fallback.synthesize(findings)
        return (
            msgspec.structs.replace(synthesis, unsupported=(*synthesis.unsupported, *unsupported))
            if unsupported
            else synthesis
        )


def cited_synthesis(
    claims: Sequence[tuple[str, tuple[Citation, ...]]], unsupported: tuple[str, ...], by: str
) -> Synthesis:
    """The statements, one a line, with the marks of their citations."""
    citations: dict[tuple[str, int, int], Citation] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    lines: list[str] = []
    for statement, cited in claims:
        marks: dict[int, None] = {}
        for one in cited:
            key = (one.doc, one.start, one.end)
            citations.setdefault(key, one)
            marks.setdefault(numbers.setdefault(key, len(numbers) + 1))
        lines.append(add_marks(statement, "".join(f"[{number}]" for number in marks)))
    return Synthesis(answer="\n".join(lines), citations=tuple(citations.values()), by=by, unsupported=unsupported)


def add_marks(statement: str, marks: str) -> str:
    """Put the marks before the full stop of every sentence: a sentence without marks would count as unsupported."""
    marked: list[str] = []
    for start, end in sentences(statement) or [(0, len(statement))]:
        sentence = statement[start:end]
        body = sentence.rstrip(_CLOSERS)
        at = len(body.rstrip(_STOPS)) if body.endswith(tuple(_STOPS)) else len(sentence)
        marked.append(f"{sentence[:at]} {marks}{sentence[at:]}")
    return " ".join(marked)
