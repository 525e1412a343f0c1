"""The answer in a model's words, each statement on quotes that were found in the documents. What stands on nothing is left out.

When nothing is left, the built-in synthesizer answers with sentences of the documents, and a note says so.
"""

from __future__ import annotations

import msgspec

from clicket.model.document import Citation
from clicket.ports.services import ChatModel
from clicket.search.dossier import Dossier, Synthesis
from clicket.search.ledger import note
from clicket.search.modelled.asking import SPENT, Asking, NoAnswer
from clicket.search.modelled.fitting import shown
from clicket.search.modelled.forms import CLAIMS
from clicket.search.modelled.prompting import synthesizing
from clicket.search.modelled.proving import Proven, prove
from clicket.search.parts import Synthesizer
from clicket.search.text.sentences import sentences

__all__ = ["ModelSynthesizer"]

_STOPS = ".!?…。！？；"
_CLOSERS = "\"'”’»)]」』）】》"


class ModelSynthesizer:
    """`max_prompt_tokens` is for the documents that the model is shown."""

    def __init__(
        self, model: ChatModel, fallback: Synthesizer, *, max_prompt_tokens: int = 8_000, asking: Asking | None = None
    ) -> None:
        self._asking = asking or Asking(model)
        self._fallback = fallback
        self._max_prompt_tokens = max_prompt_tokens

    async def synthesize(self, dossier: Dossier) -> Synthesis:
        found = shown(dossier, documents=15, tokens=self._max_prompt_tokens)
        if not dossier.documents:
            return await self._fallback.synthesize(dossier)
        try:
            if not found:
                raise NoAnswer(SPENT)
            claims = await self._asking.ask(CLAIMS, *synthesizing(dossier, found))
        except NoAnswer as why:
            return await self._instead(dossier, str(why))
        proven = prove(claims, found, dossier.question)
        if not claims:
            return await self._instead(dossier, "found no answer in the documents")
        if not proven.claims:
            return await self._instead(dossier, "gave no statement that its quotes bear out", proven)
        if proven.unsupported:
            count = len(proven.unsupported)
            note(f"Synthesis: {count} of the model's statements had no support in the documents and were left out.")
        return _written(proven, f"model {self._asking.name}")

    async def _instead(self, dossier: Dossier, why: str, proven: Proven | None = None) -> Synthesis:
        note(f"Synthesis: the model {self._asking.name} {why}; the answer is made of sentences of the documents.")
        made = await self._fallback.synthesize(dossier)
        if proven is None:
            return made
        return msgspec.structs.replace(made, unsupported=(*made.unsupported, *proven.unsupported))


def _written(proven: Proven, by: str) -> Synthesis:
    citations: dict[tuple[str, int, int], Citation] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    lines: list[str] = []
    for statement, cited in proven.claims:
        marks: dict[int, None] = {}
        for one in cited:
            key = (one.doc, one.start, one.end)
            citations.setdefault(key, one)
            marks.setdefault(numbers.setdefault(key, len(numbers) + 1))
        lines.append(_marked(statement, "".join(f"[{number}]" for number in marks)))
    return Synthesis(
        answer="\n".join(lines), citations=tuple(citations.values()), by=by, unsupported=proven.unsupported
    )


def _marked(statement: str, marks: str) -> str:
    """Every sentence bears the marks, before its full stop: a sentence without one would stand on nothing."""
    made: list[str] = []
    for start, end in sentences(statement) or [(0, len(statement))]:
        sentence = statement[start:end]
        said = sentence.rstrip(_CLOSERS)
        at = len(said.rstrip(_STOPS)) if said.endswith(tuple(_STOPS)) else len(sentence)
        made.append(f"{sentence[:at]} {marks}{sentence[at:]}")
    return " ".join(made)
