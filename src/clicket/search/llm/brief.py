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

_PASSAGES = 8
_PROMPT_TOKENS = 320
_SECONDS = 600.0
_RESERVED = 600
"""Tokens for the rest of the prompt, and for the answer."""


class BriefSynthesizer:
    """A `Synthesizer` that writes one sentence from a few passages, for models that run on your own CPU.

    `fallback` chooses the passages, and answers if the model does not: `ExtractiveSynthesizer(index)`. The model has
    `seconds`, and at most nine tenths of `Budget.synthesizing`. `max_prompt_tokens` limits the passages in the prompt, `max_passages` their
    number.
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
        held: list[tuple[str, tuple[Citation, ...]]] = []
        unsupported: list[str] = []
        for start, end in sentences(text) or [(0, len(text))]:
            statement = unmarked(text[start:end]).strip()
            if cited := find_support(statement, number, passages, question):
                held.append((statement, cited))
            elif statement:
                unsupported.append(statement)
        if not held:
            return self._fall_back(extracted, "gave no statement that a passage bears out", tuple(unsupported))
        if unsupported:
            add_note(f"Synthesis: {len(unsupported)} of the model's statements had no support and were left out.")
        return cited_synthesis(held, tuple(unsupported), f"model {self._chat.name}")

    def _fall_back(self, extracted: Synthesis, why: str, unsupported: tuple[str, ...] = ()) -> Synthesis:
        add_note(f"Synthesis: the model {self._chat.name} {why}; the answer is made of sentences of the documents.")
        return msgspec.structs.replace(extracted, unsupported=(*extracted.unsupported, *unsupported))


def find_support(statement: str, number: int, passages: Sequence[Passage], question: str) -> tuple[Citation, ...]:
    """The passage that supports the statement, or two that do together; empty if there are none.

    The model's own passage is looked at first. Small models often name a wrong one, so the others are looked at too, those that share
    most with the statement first.
    """
    stated = frozenset(terms(statement))
    ordered = sorted(
        passages,
        key=lambda one: (one.number != number, -len(stated.intersection(terms(one.citation.text))), one.number),
    )
    shown = [PromptDocument(number=one.number, document=one.document, text="") for one in passages]
    for some in (*((one,) for one in ordered), *((ordered[0], other) for other in ordered[1:])):
        cited = tuple(one.citation for one in some)
        if is_supported(statement, cited, shown, question):
            return cited
    return ()
