"""A synthesizer for small and slow models: a few short passages in, one sentence and one number out.

The built-in synthesizer chooses the sentences and decides whether there is an answer, as it does without a model. The model then sees
these sentences as numbered lines, and writes one sentence from them, or says that they do not answer. The part of the prompt that is always
the same comes first, so that a server which keeps prompts reads it once.

Nothing that the model says is used unchecked: a sentence counts only if one of the passages supports it. If it is late, fails or invents,
the answer of the built-in synthesizer is there already. Only a refusal is believed: then the documents do not answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Citation
from clicket.model.ports.services import ChatModel
from clicket.model.text.surrogates import one_line
from clicket.model.text.terms import STOPWORDS, fold, terms
from clicket.search.findings import Findings, Synthesis
from clicket.search.llm.context_budget import Passage, PromptDocument, passages_of
from clicket.search.llm.parts import cited_synthesis
from clicket.search.llm.prompts import BRIEF_EXAMPLES, brief_prompt
from clicket.search.llm.response_formats import BRIEF, Brief
from clicket.search.llm.structured_chat import SPENT, NoAnswer, StructuredChat
from clicket.search.llm.verification import is_supported
from clicket.search.protocols import Synthesizer
from clicket.search.synthesis.citations import EXTRACTIVE, unmarked
from clicket.search.synthesis.extractive import NOT_ANSWERED
from clicket.search.text.names import is_cjk
from clicket.search.text.sentences import sentences
from clicket.search.usage import add_note, current_usage

__all__ = ["BriefSynthesizer"]

_WORD = re.compile(r"\w+")
_YES_OR_NO = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|can|could|may|must|will|would|should|has|have|had)\b", re.IGNORECASE
)

_PASSAGES = 8
_PROMPT_TOKENS = 320
_SECONDS = 600.0
_RESERVED = 600
"""Tokens for the rest of the prompt, and for the answer."""
_MAX_TITLE = 120
_MAX_NEAREST = 3


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
        if reply.refused:
            return self._not_answered(passages)
        return self._checked(reply, passages, findings.question, extracted)

    def _tokens_for_passages(self) -> int:
        left = current_usage().tokens_left
        return self._max_prompt_tokens if left is None else min(self._max_prompt_tokens, left - _RESERVED)

    def _checked(self, reply: Brief, passages: Sequence[Passage], question: str, extracted: Synthesis) -> Synthesis:
        """The sentences that a passage supports; if there is none, the fallback's answer."""
        text = reply.statement
        held: list[tuple[str, tuple[Citation, ...]]] = []
        unsupported: list[str] = []
        for start, end in sentences(text) or [(0, len(text))]:
            statement = unmarked(text[start:end]).strip()
            if cited := find_support(statement, reply.passage, passages, question):
                held.append((statement, cited))
            elif statement:
                unsupported.append(statement)
        if not held:
            return self._fall_back(extracted, "gave no statement that a passage bears out", tuple(unsupported))
        if unsupported:
            add_note(f"Synthesis: {len(unsupported)} of the model's statements had no support and were left out.")
        return cited_synthesis(held, tuple(unsupported), f"model {self._chat.name}")

    def _not_answered(self, passages: Sequence[Passage]) -> Synthesis:
        add_note(f"Synthesis: the model {self._chat.name} found no answer in the sentences that come nearest.")
        titles = dict.fromkeys(one_line(unmarked(one.document.title), _MAX_TITLE) for one in passages)
        nearest = [title for title in titles if title][:_MAX_NEAREST]
        lines = [NOT_ANSWERED, *([f"The nearest documents: {'; '.join(nearest)}."] if nearest else [])]
        return Synthesis(answer="\n\n".join(lines), by=EXTRACTIVE, answered=False)

    def _fall_back(self, extracted: Synthesis, why: str, unsupported: tuple[str, ...] = ()) -> Synthesis:
        add_note(f"Synthesis: the model {self._chat.name} {why}; the answer is made of sentences of the documents.")
        return msgspec.structs.replace(extracted, unsupported=(*extracted.unsupported, *unsupported))


def find_support(
    statement: str, number: int | None, passages: Sequence[Passage], question: str
) -> tuple[Citation, ...]:
    """The passage that supports the statement; empty if none does.

    The model's own passage is looked at first. Small models often name a wrong one, so the others are looked at too, those that share
    most with the statement first. Two passages never support a statement together: what they have in common may be only the question.
    """
    stated = frozenset(terms(statement))
    ordered = sorted(
        passages,
        key=lambda one: (one.number != number, -len(stated.intersection(terms(one.citation.text))), one.number),
    )
    for one in ordered:
        shown = [PromptDocument(number=one.number, document=one.document, text="")]
        if is_supported(statement, (one.citation,), shown, question) and _is_grounded(statement, one, question):
            return (one.citation,)
    return ()


def _is_grounded(statement: str, passage: Passage, question: str) -> bool:
    """Small models join words of the question and of a passage to something that neither says. So what is not a sentence, such as a command
    or a name, must be in the passage as it is. A sentence must have two thirds of what it adds to the question from the passage, and the
    passage at least half of what the sentence repeats of the question: else it is about something else."""
    quoted = passage.citation.text
    if _is_fragment(statement):
        return f" {_plain(statement)} " in f" {_plain(quoted)} "
    if is_cjk(statement) != is_cjk(quoted):  # another language has other words
        return True
    known = frozenset(terms(f"{quoted} {passage.document.title}"))
    stated, asked = frozenset(terms(statement)), frozenset(terms(question))
    added, repeated = stated - asked, stated & asked
    if not added and not _YES_OR_NO.match(question):  # it only repeats the question
        return False
    return len(added & known) * 3 >= len(added) * 2 and len(repeated & known) * 2 >= len(repeated)


def _is_fragment(statement: str) -> bool:
    """A few words without a full stop, none of them one that holds a sentence together."""
    ended = statement.rstrip().endswith((".", "!", "?"))
    return not ended and not is_cjk(statement) and not any(fold(word) in STOPWORDS for word in _WORD.findall(statement))


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(fold(text)))
