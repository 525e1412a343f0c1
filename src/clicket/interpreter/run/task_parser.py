"""Finds the Python blocks of a task with a CommonMark parser. The code itself is not parsed here.

Fenced blocks without a language, or with one of Python's names, are code, also in lists and quotes; blocks of other languages are
skipped. A task without any fence is code as a whole. Indented text is not treated as a code block, because the body of a function
looks the same. CommonMark ends a block at the first closing fence, even inside of a string; `further_ends` gives the later
fences, which are tried when the block does not compile.
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
    "MarkdownTooComplex",
    "Parsed",
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
"""Closing fences that are tried for one block."""
_MAX_NAMED = 50
_MAX_TOKENS = 50_000
"""Markdown tokens of one task: a megabyte of list items would become a gigabyte of tokens."""
_MAX_LINE_VISITS = 200_000
"""The parser visits a line in twenty nested quotes twenty times."""
_FEW_LINES, _SHORT = 200, 64 * 1024
_MARKDOWN = MarkdownIt("commonmark").disable(["reference", "heading", "lheading"])  # none of them can contain a fence
_NEWLINE = re.compile(r"\r\n?")
_LANGUAGE = re.compile(r"\{?[\s.#]*([\w+-]*)")
_PYTHON = re.compile(r"(|i?python[\d.]*|py[\d.]*|pycon)", re.IGNORECASE)
_CELL = re.compile(r"\{code-cell\}\s*(.*)", re.IGNORECASE)
_INDENTED = re.compile(r"(?:[ \t]*[\r\n])*([ \t]+)\S")
_PROMPT = re.compile(r"\s*(?:>>>|\.\.\.)(?: |$)")


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced block. `lines`, counted from 0: the opening fence, and the line after the closing one."""

    code: str
    info: str = ""
    lines: tuple[int, int]
    markup: str = ""
    """The characters of the opening fence; empty for a block in a list or quote, and for bare code."""

    @property
    def language(self) -> str:
        cell = _CELL.match(self.info)
        match = _LANGUAGE.match(cell[1] if cell else self.info)
        return match[1] if match else ""

    @property
    def is_python(self) -> bool:
        return not self.info or _PYTHON.fullmatch(self.language) is not None


class Parsed(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A parsed task. `text` has plain newlines; `bare`: the task is code without Markdown."""

    text: str
    fences: tuple[Fence, ...]
    bare: bool = False

    @cached_property
    def blocks(self) -> tuple[Fence, ...]:
        """The blocks to run, in order."""
        return tuple(fence for fence in self.fences if fence.is_python and fence.code.strip())

    @cached_property
    def skipped(self) -> tuple[Skipped, ...]:
        """The blocks of other languages."""
        others = [fence for fence in self.fences if not fence.is_python]
        named = [
            Skipped(what=f"{fence.language} block at line {fence.lines[0] + 1}", why="only Python is run")
            for fence in others[:_MAX_NAMED]
        ]
        if len(others) > _MAX_NAMED:
            named.append(Skipped(what=f"{len(others) - _MAX_NAMED} more blocks", why="only Python is run"))
        return tuple(named)


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """A block that ends at a later fence, which is in `line`."""

    code: str
    line: int


class MarkdownTooComplex(Exception):
    """The Markdown around the code takes too much time or memory to parse."""


class _Tokens(list[Token]):
    def append(self, token: Token) -> None:
        if len(self) == _MAX_TOKENS:
            raise MarkdownTooComplex(
                f"the Markdown of the task has more than {_MAX_TOKENS:,} list items, quotes and blocks. "
                "Send the code alone, and data as files."
            )
        super().append(token)


def _count_visits(state: StateBlock, _line: int, _end: int, _silent: bool) -> bool:
    """A rule that never matches; the parser calls it first for each line that it visits."""
    state.env["visits"] += 1
    if state.env["visits"] > _MAX_LINE_VISITS:
        raise MarkdownTooComplex(
            f"the Markdown of the task needs more than {_MAX_LINE_VISITS:,} line visits to parse. Send the code alone, "
            "without quotes and lists around it, and data as files."
        )
    return False


_MARKDOWN.block.ruler.before("code", "visits", _count_visits, {"alt": ["paragraph", "blockquote", "list"]})


def is_quick(task: str) -> bool:
    """Whether parsing takes a few milliseconds at most; otherwise it is done in a thread."""
    if not _has_fences(task):
        return len(task) <= _SHORT or _INDENTED.match(task) is None
    return len(task) <= _SHORT and task.count("\n") + task.count("\r") <= _FEW_LINES


def parse(task: str) -> Parsed:
    """The blocks of a task. A task without fences is one block of bare code. Raises `MarkdownTooComplex`."""
    text = plain_text(task)
    fences = tuple(_fences(text, 0))
    if fences:
        return Parsed(text=text, fences=fences)
    return as_code(text)


def plain_text(task: str) -> str:
    """The text that line numbers refer to: with plain newlines and without common indentation."""
    text = task.removeprefix("\ufeff")
    if "\r" in text:
        text = _NEWLINE.sub("\n", text)
    return _flush_left(text)


def as_code(text: str) -> Parsed:
    """The whole text as one block."""
    return Parsed(text=text, fences=(Fence(code=_plain(text), lines=(0, 0)),) if text.strip() else (), bare=True)


def further_ends(parsed: Parsed, index: int) -> list[Joined]:
    """The block, ended by each later fence that could close it too."""
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
    """The task with that block ended there, and the rest parsed again."""
    block = parsed.blocks[index]
    before = [fence for fence in parsed.fences if fence.lines[0] < block.lines[0]]
    whole = msgspec.structs.replace(block, code=joined.code, lines=(block.lines[0], joined.line + 1))
    rest = "\n".join(parsed.text.split("\n")[joined.line + 1 :])
    return Parsed(text=parsed.text, fences=(*before, whole, *_fences(rest, joined.line + 1)))


def _fences(text: str, offset: int) -> Iterator[Fence]:
    if not _has_fences(text):
        return
    tokens = _Tokens()
    _MARKDOWN.block.parse(text, _MARKDOWN, {"visits": 0}, tokens)
    for token in tokens:
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
    """A console transcript without its prompts and output; any other code without common indentation."""
    if not code.lstrip().startswith(">>>"):
        return _flush_left(code)
    return "".join(f"{line[match.end() :]}\n" for line in code.split("\n") if (match := _PROMPT.match(line)))


def _flush_left(text: str) -> str:
    """Text without the indentation that all its lines share."""
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
    """A line of an indented fence, without the fence's indentation."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
