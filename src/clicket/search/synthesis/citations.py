"""Every citation is looked up, whoever made it: known document, offsets, text and hash, or it is none.

What an answer says on the strength of a false citation is taken out of it and told apart; what it says on no citation at all
is marked. Checking what was checked changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clicket.model.document import Citation, Document
from clicket.search.dossier import Synthesis
from clicket.search.synthesis.quotes import MAX_QUOTE, find_span
from clicket.search.text.sentences import sentences

__all__ = ["EXTRACTIVE", "MARK", "MAX_CITATIONS", "NOTHING_LEFT", "UNSUPPORTED", "check", "find_span", "unmarked"]

EXTRACTIVE = "extractive"
"""`Synthesis.by` of what consists of citations; its other words are about the search and need none."""
UNSUPPORTED = "(not supported by a source)"
NOTHING_LEFT = "Nothing that was said in answer is supported by the documents that were found."
MAX_CITATIONS = 1_000
_MAX_ANSWER = 100_000
_MAX_STATEMENTS = 1_000

MARK = re.compile(
    r"[\[［【][\[［【]{0,2}+\^?\s*+(?P<numbers>\d++(?:\s*+[,;，、–-]\s*+\d++)*+)\s*+[\]］】]{1,3}+"
    r"(?:\((?:[^()\s]|\([^()\s]*+\))*+\))?"
)
"""References as people and models write them: [1], [1, 2], [1-3], [[1]](address), 【1】. A set and no repeat comes first: so
they are found several times faster."""
_NUMBERS = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
_LEADING = re.compile(rf"(?:[ \t]{{0,3}}+{MARK.pattern.replace('?P<numbers>', '')})++")
_GONE = re.compile(r"[ \t]{0,3}\x00")
_BRACKETS = re.compile(r"[\[\]［］【】]")
_MAX_PASSES = 4
"""What is left of brackets in brackets may read as a mark again. After as many passes all brackets are taken out."""
_ENDS = ".!?…。！？｡"
_CLOSERS = "\"'”’»)]」』）】》"
_LABEL = re.compile(r"\s*+(?:#|\*\*[^*]++\*\*\s*+$|[-=_*|:\s]++$)")


def check(synthesis: Synthesis, documents: Mapping[str, Document]) -> Synthesis:
    """The synthesis with the citations that hold, numbered anew, and an answer that refers to no others."""
    kept, numbers = _holding(synthesis.citations, documents)
    lost: list[str] = []
    strict = synthesis.by != EXTRACTIVE
    answer = _settled(synthesis.answer[:_MAX_ANSWER], numbers, len(kept), strict, lost)
    if synthesis.answer.strip() and not answer:
        answer = NOTHING_LEFT
    told = [one for one in synthesis.unsupported if isinstance(one, str)]
    return msgspec.structs.replace(
        synthesis,
        answer=answer,
        citations=tuple(kept),
        unsupported=tuple(dict.fromkeys([*told, *lost]))[:_MAX_STATEMENTS],
    )


def unmarked(text: str) -> str:
    """The text without any marks, and without what would be one when others are gone."""
    for _ in range(_MAX_PASSES):
        if MARK.search(text) is None:
            return text
        text = _GONE.sub("", MARK.sub("\0", text))
    return text if MARK.search(text) is None else _BRACKETS.sub("", text)


def _settled(answer: str, numbers: Mapping[int, int], count: int, strict: bool, lost: list[str]) -> str:
    """The answer, judged until judging changes nothing: what is left of brackets in brackets may read as a mark again."""
    if not strict and all(_renumbered(found, numbers) == found[0] for found in MARK.finditer(answer)):
        return answer
    for _ in range(_MAX_PASSES):
        judged = "\n".join(_line(line, numbers, strict, lost) for line in answer.split("\n"))
        judged = re.sub(r"\n{3,}", "\n\n", judged).strip()
        if judged == answer:
            return answer
        answer, numbers = judged, {number: number for number in range(1, count + 1)}
    return answer if MARK.search(answer) is None else _BRACKETS.sub("", answer)


def _holding(citations: Sequence[Any], documents: Mapping[str, Document]) -> tuple[list[Citation], dict[int, int]]:
    """Those that hold, each once, and the new number of every old one."""
    kept: list[Citation] = []
    numbers: dict[int, int] = {}
    places: dict[tuple[str, int, int], int] = {}
    for number, one in enumerate(citations[:MAX_CITATIONS], 1):
        if not _holds(one, documents):
            continue
        place = (one.doc, one.start, one.end)
        if place not in places:
            kept.append(one)
            places[place] = len(kept)
        numbers[number] = places[place]
    return kept, numbers


def _holds(one: Any, documents: Mapping[str, Document]) -> bool:
    """Nothing about it is taken for granted, its types neither: a model's answer may have been put into it as it came."""
    if not isinstance(one, Citation) or type(one.start) is not int or type(one.end) is not int:
        return False
    if not all(isinstance(value, str) for value in (one.doc, one.text, one.sha256)) or len(one.text) > MAX_QUOTE:
        return False
    document = documents.get(one.doc)
    return document is not None and not one.text.isspace() and one.holds(document)


def _line(line: str, numbers: Mapping[int, int], strict: bool, lost: list[str]) -> str:
    if line == NOTHING_LEFT or (not strict and MARK.search(line) is None):
        return line
    is_label = line.rstrip().endswith((":", "：")) or _LABEL.match(line) is not None
    made: list[str] = []
    carried = ""
    for blank, statement in _statements(line):
        named = MARK.search(statement) is not None
        renumbered = _GONE.sub("", MARK.sub(lambda found: _renumbered(found, numbers), statement))
        if named and MARK.search(renumbered) is None:
            if any(one.isalnum() for one in renumbered):
                lost.append(renumbered.strip())
            carried = carried or ("" if made else blank)  # the mark of a list item goes to what is left of it
            continue
        if strict and not named and not is_label and any(one.isalnum() for one in renumbered):
            renumbered = _marked(renumbered)
        if renumbered:
            made.append((carried or blank) + renumbered)
            carried = ""
    return "".join(made)


def _statements(line: str) -> Iterator[tuple[str, str]]:
    """Sentences of a line, each with what stands before it; marks after a full stop belong to the sentence that it ends."""
    at = 0
    pieces: list[tuple[str, str]] = []
    for start, end in sentences(line):
        begin = start
        leading = _LEADING.match(line, start, end)
        if leading is not None and pieces:
            blank, before = pieces[-1]
            at = begin = leading.end()
            pieces[-1] = (blank, before + line[start - (start > 0 and line[start - 1].isspace()) : at])
        if begin < end and pieces and not _is_ended(pieces[-1][1]):
            blank, before = pieces[-1]
            pieces[-1] = (blank, before + line[at:end])
        elif begin < end:
            while line[begin].isspace() and begin < end - 1:
                begin += 1
            pieces.append((line[at:begin], line[begin:end]))
        at = end
    yield from pieces
    if at < len(line):
        yield line[at:], ""


def _is_ended(text: str) -> bool:
    """Does it end as a sentence does? What was only too long to be one piece does not."""
    return MARK.sub("", text[-400:]).rstrip().rstrip(_CLOSERS).endswith(tuple(_ENDS))


def _renumbered(found: re.Match[str], numbers: Mapping[int, int]) -> str:
    """The mark with the numbers of citations that hold; if there are none, a NUL, which goes with the blanks before it."""
    named: dict[int, None] = {}
    for first, last in _NUMBERS.findall(found["numbers"][:400]):
        low = _number(first)
        high = _number(last) if last else low
        for number in range(low, min(high, low + 50, MAX_CITATIONS) + 1):
            if number in numbers:
                named[numbers[number]] = None
    return "".join(f"[{number}]" for number in named) or "\0"


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 8 else MAX_CITATIONS + 1


def _marked(statement: str) -> str:
    if UNSUPPORTED in statement:
        return statement
    at = len(statement.rstrip(f"{_ENDS}{_CLOSERS};；,，*_ ")) or len(statement)
    return f"{statement[:at]} {UNSUPPORTED}{statement[at:]}"
