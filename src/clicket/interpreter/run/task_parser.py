"""Which parts of a task are Python. Markdown is read by a CommonMark parser; nothing of the code itself is read here.

Fenced blocks without a language or with one of Python's names are code, in lists and quotes too; blocks of other languages
are named and left alone. A task without any fence is code as a whole: indented text is not taken for code, because the
body of a function looks just the same. CommonMark ends a block at the first closing fence, even inside of a string, so each
block knows its further ends: they are tried when it does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile

import msgspec
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from clicket.interpreter.result import Skipped

__all__ = [
    "MAX_TASK",
    "Fence",
    "Joined",
    "Parsed",
    "TooManyPieces",
    "as_code",
    "further_ends",
    "is_quick",
    "join",
    "parse",
    "plain_text",
]

MAX_TASK = 1024 * 1024
"""Bytes of a task."""
_MAX_ENDS = 8
"""Ends of one block that are tried. A string with more fences than that belongs in a file."""
_MAX_NAMED = 50
_MAX_PIECES = 50_000
"""Pieces of Markdown in one task: a megabyte of list items would be a gigabyte of them."""
_MAX_LOOKS = 200_000
"""The same for looks at its lines: one line that goes on in twenty quotes within each other is looked at twenty times."""
_FEW_LINES, _SHORT = 200, 64 * 1024
_MARKDOWN = MarkdownIt("commonmark").disable(
    ["reference", "heading", "lheading"]
)  # none of them can hold or hide a fence
_NEWLINE = re.compile(r"\r\n?")
_LANGUAGE = re.compile(r"\{?[\s.#]*([\w+-]*)")
_PYTHON = re.compile(r"(|i?python[\d.]*|py[\d.]*|pycon)", re.IGNORECASE)
_CELL = re.compile(r"\{code-cell\}\s*(.*)", re.IGNORECASE)
_INDENTED = re.compile(r"(?:[ \t]*[\r\n])*([ \t]+)\S")
_PROMPT = re.compile(r"\s*(?:>>>|\.\.\.)(?: |$)")


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced block. `lines` are counted from 0: the opening fence, and the line after the closing one."""

    code: str
    info: str = ""
    lines: tuple[int, int]
    markup: str = ""
    """The opening fence's own characters; empty where the block is inside of a list or a quote, or is no fence."""

    @property
    def language(self) -> str:
        cell = _CELL.match(self.info)
        match = _LANGUAGE.match(cell[1] if cell else self.info)
        return match[1] if match else ""

    @property
    def is_python(self) -> bool:
        return not self.info or _PYTHON.fullmatch(self.language) is not None


class Parsed(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A task, taken apart. `text` has plain newlines; `bare` says that it was not Markdown."""

    text: str
    fences: tuple[Fence, ...]
    bare: bool = False

    @cached_property
    def blocks(self) -> tuple[Fence, ...]:
        """What is to be run, in order."""
        return tuple(fence for fence in self.fences if fence.is_python and fence.code.strip())

    @cached_property
    def skipped(self) -> tuple[Skipped, ...]:
        """What is not, and why."""
        others = [fence for fence in self.fences if not fence.is_python]
        named = [
            Skipped(what=f"{fence.language} block at line {fence.lines[0] + 1}", why="only Python is run")
            for fence in others[:_MAX_NAMED]
        ]
        if len(others) > _MAX_NAMED:
            named.append(Skipped(what=f"{len(others) - _MAX_NAMED} more blocks", why="only Python is run"))
        return tuple(named)


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """A block that goes on to a later fence. `line` is that fence's."""

    code: str
    line: int


class TooManyPieces(Exception):
    """The Markdown around the code is out of all proportion."""


class _Pieces(list[Token]):
    def append(self, token: Token) -> None:
        if len(self) == _MAX_PIECES:
            raise TooManyPieces(
                f"the Markdown of the task has more than {_MAX_PIECES:,} list items, quotes and blocks. "
                "Send the code alone, and data as files."
            )
        super().append(token)


def _count_looks(state: StateBlock, _line: int, _end: int, _silent: bool) -> bool:
    """A rule that finds nothing: it is asked first, wherever the parser asks what a line begins."""
    state.env["looks"] += 1
    if state.env["looks"] > _MAX_LOOKS:
        raise TooManyPieces(
            f"the Markdown of the task takes more than {_MAX_LOOKS:,} looks at its lines. Send the code alone, without "
            "quotes and lists around it, and data as files."
        )
    return False


_MARKDOWN.block.ruler.before("code", "looks", _count_looks, {"alt": ["paragraph", "blockquote", "list"]})


def is_quick(task: str) -> bool:
    """Is it taken apart in a few milliseconds, whatever is in it? Otherwise that is a thread's work."""
    if not _has_fences(task):
        return len(task) <= _SHORT or _INDENTED.match(task) is None
    return len(task) <= _SHORT and task.count("\n") + task.count("\r") <= _FEW_LINES


def parse(task: str) -> Parsed:
    """The blocks of a task. One without any fence is a single block of bare code. May raise `TooManyPieces`."""
    text = plain_text(task)
    fences = tuple(_fences(text, 0))
    if fences:
        return Parsed(text=text, fences=fences)
    return as_code(text)


def plain_text(task: str) -> str:
    """The text that lines are counted in: with plain newlines, and flush left."""
    text = task.removeprefix("\ufeff")
    if "\r" in text:
        text = _NEWLINE.sub("\n", text)
    return _flush_left(text)


def as_code(text: str) -> Parsed:
    """The whole text as one block."""
    return Parsed(text=text, fences=(Fence(code=_plain(text), lines=(0, 0)),) if text.strip() else (), bare=True)


def further_ends(parsed: Parsed, index: int) -> list[Joined]:
    """The block, ended by each of the next fences that could close it as well."""
    block = parsed.blocks[index]
    if not block.markup:
        return []
    lines = parsed.text.split("\n")
    first, after = block.lines
    indent = len(lines[first]) - len(lines[first].lstrip(" "))
    closing = re.compile(rf" {{0,3}}{re.escape(block.markup[0])}{{{len(block.markup)},}}[ \t]*")
    ends: list[Joined] = []
    for line in range(after, len(lines)):
        if closing.fullmatch(lines[line]):
            body = (_outdented(text, indent) for text in lines[first + 1 : line])
            ends.append(Joined(code="".join(f"{text}\n" for text in body), line=line))
            if len(ends) == _MAX_ENDS:
                break
    return ends


def join(parsed: Parsed, index: int, joined: Joined) -> Parsed:
    """The task with that block ended there, and all that follows read anew."""
    block = parsed.blocks[index]
    before = [fence for fence in parsed.fences if fence.lines[0] < block.lines[0]]
    whole = msgspec.structs.replace(block, code=joined.code, lines=(block.lines[0], joined.line + 1))
    rest = "\n".join(parsed.text.split("\n")[joined.line + 1 :])
    return Parsed(text=parsed.text, fences=(*before, whole, *_fences(rest, joined.line + 1)))


def _fences(text: str, offset: int) -> Iterator[Fence]:
    if not _has_fences(text):
        return
    pieces = _Pieces()
    _MARKDOWN.block.parse(text, _MARKDOWN, {"looks": 0}, pieces)
    for token in pieces:
        if token.type != "fence" or token.map is None:
            continue
        yield Fence(
            code=_plain(token.content),
            info=token.info.strip(),
            lines=(token.map[0] + offset, token.map[1] + offset),
            markup=token.markup if token.level == 0 else "",
        )


def _has_fences(text: str) -> bool:
    return "```" in text or "~~~" in text


def _plain(code: str) -> str:
    """A console session without its prompts and answers; any other code as it is."""
    if not code.lstrip().startswith(">>>"):
        return _flush_left(code)
    return "".join(f"{line[match.end() :]}\n" for line in code.split("\n") if (match := _PROMPT.match(line)))


def _flush_left(text: str) -> str:
    """Text that is indented as a whole, as in a string in somebody's function, without that. Python would refuse it anyway."""
    first = _INDENTED.match(text)
    if first is None:
        return text
    margin = first[1]
    lines = text.split("\n")
    for line in lines:
        if not line.startswith(margin) and line.strip():
            margin = "".join(
                char for char, _ in takewhile(lambda pair: pair[0] == pair[1], zip(margin, line, strict=False))
            )
    return "\n".join(line.removeprefix(margin) for line in lines) if margin else text


def _outdented(line: str, indent: int) -> str:
    """A line of a fence that is itself indented loses as much."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
