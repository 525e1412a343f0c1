"""Checks the citations of an answer, from the built-in synthesizer or a model: document, offsets, text and hash must match.

Statements that rest only on false citations are removed from the answer and listed as unsupported. Statements without a
citation are marked as such. Checking an answer twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clicket.model.document import Citation, Document
from clicket.search.findings import Synthesis
from clicket.search.synthesis.quotes import MAX_QUOTE
from clicket.search.text.sentences import sentences

__all__ = ["EXTRACTIVE", "MARK", "MAX_CITATIONS", "NOTHING_LEFT", "UNSUPPORTED", "check", "unmarked"]

EXTRACTIVE = "extractive"
"""`Synthesis.by` of the built-in synthesizer. Its sentences without citation are about the search and need none."""
UNSUPPORTED = "(not supported by a source)"
NOTHING_LEFT = "Nothing that was said in answer is supported by the documents that were found."
MAX_CITATIONS = 1_000
_MAX_ANSWER = 100_000
_MAX_STATEMENTS = 1_000

MARK = re.compile(
    r"[\[［【][\[［【]{0,2}+\^?\s*+(?P<numbers>\d++(?>(?:\s*+[,;，、–-]\s*+\d++)*))\s*+[\]］】]{1,3}+"
    r"(?:\((?>(?:[^()\s]|\([^()\s]*+\))*)\))?"
)
"""Citation marks as people and models write them: [1], [1, 2], [1-3], [[1]](address), 【1】. The pattern begins with a plain
set of characters, which makes it several times faster."""
_NUMBERS = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
_LEADING = re.compile(rf"(?>(?:[ \t]{{0,3}}+{MARK.pattern.replace('?P<numbers>', '')})+)")
_REMOVED = re.compile(r"[ \t]{0,3}\x00")
_BRACKETS = re.compile(r"[\[\]［］【】]")
_MAX_PASSES = 4
"""Removing a mark from nested brackets may leave another mark. After this many passes all brackets are removed."""
_ENDS = ".!?…。！？｡"
_CLOSERS = "\"'”’»)]」』）】》"
_LABEL = re.compile(r"\s*+(?:#|\*\*[^*]++\*\*\s*+$|[-=_*|:\s]++$)")


def check(synthesis: Synthesis, documents: Mapping[str, Document]) -> Synthesis:
    """The synthesis with only the citations that hold, renumbered, and an answer that refers to no others."""
    valid, numbers = _valid_citations(synthesis.citations, documents)
    lost: list[str] = []
    strict = synthesis.by != EXTRACTIVE
    answer = _checked_answer(synthesis.answer[:_MAX_ANSWER], numbers, len(valid), strict, lost)
    if synthesis.answer.strip() and not answer:
        answer = NOTHING_LEFT
    listed = [one for one in synthesis.unsupported if isinstance(one, str)]
    return msgspec.structs.replace(
        synthesis,
        answer=answer,
        answered=synthesis.answered is not False and answer != NOTHING_LEFT,
        citations=tuple(valid),
        unsupported=tuple(dict.fromkeys([*listed, *lost]))[:_MAX_STATEMENTS],
    )


def unmarked(text: str) -> str:
    """The text without citation marks, also those that appear when others are removed."""
    if "[" not in text and "［" not in text and "【" not in text:
        return text
    for _ in range(_MAX_PASSES):
        if MARK.search(text) is None:
            return text
        text = _REMOVED.sub("", MARK.sub("\0", text))
    return text if MARK.search(text) is None else _BRACKETS.sub("", text)


def _checked_answer(answer: str, numbers: Mapping[int, int], count: int, strict: bool, lost: list[str]) -> str:
    """The answer, checked until checking changes nothing."""
    if not strict:
        marks = {found[0] for found in MARK.finditer(answer)}
        if marks <= {f"[{number}]" for number, new in numbers.items() if number == new}:
            return answer
    for _ in range(_MAX_PASSES):
        checked = "\n".join(_line(line, numbers, strict, lost) for line in answer.split("\n"))
        checked = re.sub(r"\n{3,}", "\n\n", checked).strip()
        if checked == answer:
            return answer
        answer = checked
        numbers = {number: number for number in range(1, count + 1)}
    return answer if MARK.search(answer) is None else _BRACKETS.sub("", answer)


def _valid_citations(
    citations: Sequence[Any], documents: Mapping[str, Document]
) -> tuple[list[Citation], dict[int, int]]:
    """The citations that hold, each once, and the new number of every old one."""
    valid: list[Citation] = []
    numbers: dict[int, int] = {}
    places: dict[tuple[str, int, int], int] = {}
    for number, one in enumerate(citations[:MAX_CITATIONS], 1):
        if not _holds(one, documents):
            continue
        place = (one.doc, one.start, one.end)
        if place not in places:
            valid.append(one)
            places[place] = len(valid)
        numbers[number] = places[place]
    return valid, numbers


def _holds(one: Any, documents: Mapping[str, Document]) -> bool:
    """Does it match its document? Types are checked too: a user's synthesizer may put anything into it."""
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
    parts: list[str] = []
    carried = ""
    for blank, statement in _statements(line):
        named = MARK.search(statement) is not None
        renumbered = _REMOVED.sub("", MARK.sub(lambda found: _renumbered(found, numbers), statement))
        if named and MARK.search(renumbered) is None:
            if any(one.isalnum() for one in renumbered):
                lost.append(renumbered.strip())
            carried = carried or ("" if parts else blank)  # the bullet of a list item goes to what is left of it
            continue
        if strict and not named and not is_label and any(one.isalnum() for one in renumbered):
            renumbered = _marked(renumbered)
        if renumbered:
            parts.append((carried or blank) + renumbered)
            carried = ""
    return "".join(parts)


def _statements(line: str) -> Iterator[tuple[str, str]]:
    """Sentences of a line, each with the blanks before it. Marks after a full stop belong to the sentence before."""
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
    """Does it end like a sentence? A sentence that was cut because of its length does not."""
    return MARK.sub("", text[-400:]).rstrip().rstrip(_CLOSERS).endswith(tuple(_ENDS))


def _renumbered(found: re.Match[str], numbers: Mapping[int, int]) -> str:
    """The mark with the new numbers of citations that hold. Without any it becomes NUL, which is removed with the blanks before it."""
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
