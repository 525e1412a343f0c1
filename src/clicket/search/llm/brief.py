"""A synthesizer for small and slow models: a few short passages in, one sentence and one number out.

The built-in synthesizer chooses the sentences and decides whether there is an answer, as it does without a model. The model then sees
these sentences as numbered lines, and writes one sentence from them, or says that they do not answer. The part of the prompt that is always
the same comes first, so that a server which keeps prompts reads it once.

Nothing that the model says is used unchecked: a sentence counts only if one of the passages supports it. Whatever goes wrong, the answer
of the built-in synthesizer is there already.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Citation
from clicket.ports.services import ChatModel
from clicket.search.findings import Findings, Synthesis
from clicket.search.llm.cited_synthesis import cited_synthesis
from clicket.search.llm.context_budget import PromptDocument
from clicket.search.llm.passages import Passage, passages_of
from clicket.search.llm.prompts import BRIEF_EXAMPLES, brief_prompt
from clicket.search.llm.response_formats import BRIEF
from clicket.search.llm.structured_chat import SPENT, NoAnswer, StructuredChat
from clicket.search.llm.verification import is_supported
from clicket.search.protocols import Synthesizer
from clicket.search.synthesis.citations import unmarked
from clicket.search.text.sentences import sentences
from clicket.search.text.terms import terms
from clicket.search.usage import add_note, current_usage

__all__ = ["BriefSynthesizer"]

_PASSAGES = 6
_PROMPT_TOKENS = 700
_SECONDS = 30.0
_RESERVED = 600
"""Tokens for the rest of the prompt, and for the answer."""


class BriefSynthesizer:
    """A `Synthesizer` that writes one sentence from a few passages, for models that run on your own CPU.

    `fallback` chooses the passages, and answers if the model does not: `ExtractiveSynthesizer(index)`. `seconds` is what the model has;
    `max_prompt_tokens` limits the passages in the prompt, `max_passages` their number.
    """

    def __init__(
        self,
        model: ChatModel,
        fallback: Synthesizer,
        *,
        seconds: float = _SECONDS,
        max_passages: int = _PASSAGES,
        max_prompt_tokens: int = _PROMPT_TOKENS,
        chat: StructuredChat | None = None,
    ) -> None:
        for name, given in (("max_passages", max_passages), ("max_prompt_tokens", max_prompt_tokens)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 1:
                raise UsageError(f"BriefSynthesizer: {name} is a whole number from 1 up, not {given!r}.")
        self._chat = chat or StructuredChat(model, attempts=2, seconds=seconds)
        self._fallback = fallback
        self._max_passages = max_passages
        self._max_prompt_tokens = max_prompt_tokens

    async def synthesize(self, findings: Findings) -> Synthesis:
        extracted = await self._fallback.synthesize(findings)
        if not extracted.answered or not extracted.citations:
            return extracted
        passages = passages_of(
            extracted.citations, findings.documents, most=self._max_passages, tokens=self._tokens_for_passages()
        )
        try:
            if not passages:
                raise NoAnswer(SPENT)
            reply = await self._chat.ask(BRIEF, *brief_prompt(findings.question, passages), BRIEF_EXAMPLES)
        except NoAnswer as why:
            return self._fall_back(extracted, str(why))
        if not reply.statement:
            return self._fall_back(extracted, "found no answer in the passages")
        return self._checked(reply.statement, reply.passage, passages, findings.question, extracted)

    def _tokens_for_passages(self) -> int:
        left = current_usage().tokens_left
        return self._max_prompt_tokens if left is None else min(self._max_prompt_tokens, left - _RESERVED)

    def _checked(
        self, text: str, number: int, passages: Sequence[Passage], question: str, extracted: Synthesis
    ) -> Synthesis:
        """The sentences that a passage supports; if there is none, the fallback's answer."""
        held: list[tuple[str, Citation]] = []
        unsupported: list[str] = []
        for start, end in sentences(text) or [(0, len(text))]:
            statement = unmarked(text[start:end]).strip()
            citation = find_support(statement, number, passages, question)
            if citation is not None:
                held.append((statement, citation))
            elif statement:
                unsupported.append(statement)
        if not held:
            return self._fall_back(extracted, "gave no statement that a passage bears out", tuple(unsupported))
        if unsupported:
            add_note(f"Synthesis: {len(unsupported)} of the model's statements had no support and were left out.")
        return cited_synthesis(
            [(statement, (citation,)) for statement, citation in held], tuple(unsupported), f"model {self._chat.name}"
        )

    def _fall_back(self, extracted: Synthesis, why: str, unsupported: tuple[str, ...] = ()) -> Synthesis:
        add_note(f"Synthesis: the model {self._chat.name} {why}; the answer is made of sentences of the documents.")
        return msgspec.structs.replace(extracted, unsupported=(*extracted.unsupported, *unsupported))


def find_support(statement: str, number: int, passages: Sequence[Passage], question: str) -> Citation | None:
    """The sentence, or else the passage, that supports the statement. The model's own passage is looked at first; small models
    often name a wrong one, so the others are looked at too."""
    ordered = sorted(passages, key=lambda one: (one.number != number, one.number))
    for passage in ordered:
        citation = _support_in(passage, statement, question)
        if citation is not None:
            return citation
    return None


def _support_in(passage: Passage, statement: str, question: str) -> Citation | None:
    document, (first, last) = passage.document, passage.span
    shown = [PromptDocument(number=1, document=document, text="")]
    stated = frozenset(terms(statement))
    parts = [(first + start, first + end) for start, end in sentences(document.text[first:last])]
    # The sentence that shares most with it, and the whole passage if no sentence is enough by itself.
    parts.sort(key=lambda one: -len(stated.intersection(terms(document.text[one[0] : one[1]]))))
    for start, end in (*parts, (first, last)):
        citation = document.cite(start, end)
        if is_supported(statement, (citation,), shown, question):
            return citation
    return None
