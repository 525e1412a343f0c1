"""What of the documents a prompt can hold: by rank, and of long texts the sentences that the question is about.

What is shown is the document's own text, word for word, so that it can be quoted; where something is left out, a mark stands.
"""

from __future__ import annotations

import msgspec

from clicket.model.document import Document, Span
from clicket.search.dossier import Dossier
from clicket.search.ledger import current
from clicket.search.text.sentences import sentences
from clicket.search.text.terms import terms

__all__ = ["Shown", "shown", "tokens_of"]

_GAP = " […] "
_LEAST = 40
"""Tokens: with less, a document says nothing."""
_SHARE = 0.3
"""Of what is left, for each document in turn: the best have most, and none has all."""
_REST = 1_500
"""Tokens for what else a prompt says, and for the answer."""
_MAX_READ = 20_000
"""Characters of one document that are looked at."""
_AROUND = 400


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    document: Document
    text: str


def tokens_of(text: str) -> int:
    """About how many tokens. Four letters make one; of other scripts each character counts."""
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + len(text) - plain


def shown(dossier: Dossier, *, documents: int, tokens: int, each: int | None = None) -> list[Shown]:
    """The best documents that fit into `tokens` and into the stage's budget, numbered from 1; at most `each` of one."""
    wanted = frozenset(terms(dossier.question))
    made: list[Shown] = []
    budget = current().left
    left = tokens if budget is None else min(tokens, budget - _REST)
    for document in dossier.best(documents):
        share = int(left * _SHARE) if each is None else min(each, left)
        if share < _LEAST:
            break
        text = _cut(document, wanted, share)
        if text.strip():
            made.append(Shown(number=len(made) + 1, document=document, text=text))
            left -= tokens_of(text) + 30  # its title and its frame
    return made


def _cut(document: Document, wanted: frozenset[str], tokens: int) -> str:
    text = document.text
    if len(text) <= tokens * 4 and tokens_of(text) <= tokens:
        return text
    spans = [span for part in _parts(document) for span in _sentences(text, part)]
    scored = sorted(
        range(len(spans)), key=lambda at: (-len(wanted.intersection(terms(text[spans[at][0] : spans[at][1]]))), at)
    )
    # The first sentence says what the text is about.
    order = [0, *(at for at in scored if at != 0)] if spans else []
    chosen: list[int] = []
    for at in order:
        cost = tokens_of(text[spans[at][0] : spans[at][1]]) + 2
        if cost <= tokens:
            chosen.append(at)
            tokens -= cost
    return _joined(text, [spans[at] for at in sorted(chosen)])


def _parts(document: Document) -> list[Span]:
    """The start, and what was found, with what is around it; nothing twice."""
    end = len(document.text)
    if not document.spans:
        return [(0, min(end, _MAX_READ))]
    parts: list[Span] = [(0, min(end, _AROUND))]
    read = _AROUND
    for start, stop in sorted(document.spans):
        first, last = max(start - _AROUND, parts[-1][1]), min(stop + _AROUND, end, start + _MAX_READ)
        if first < last and read < _MAX_READ:
            parts.append((first, last))
            read += last - first
    return parts


def _sentences(text: str, part: Span) -> list[Span]:
    return [(part[0] + start, part[0] + end) for start, end in sentences(text[part[0] : part[1]])]


def _joined(text: str, spans: list[Span]) -> str:
    """Neighbours stay as they stand in the text, with what is between them."""
    made = ""
    before: Span | None = None
    for start, end in spans:
        between = text[before[1] : start] if before is not None else ""
        if before is not None:
            made += between if len(between) < 20 and not between.strip() else _GAP
        made += text[start:end]
        before = (start, end)
    return made
