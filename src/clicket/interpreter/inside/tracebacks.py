"""Errors as text for the program's author: the program's own lines, the place in a library, causes and contexts. The `__str__` of the
program's exceptions is their code: it may fail, lie or be endless."""

from __future__ import annotations

import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, clean, cut
from clicket.interpreter.inside.safe_repr import name_of, path_of
from clicket.interpreter.inside.sources import pick

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from clicket.interpreter.inside.sources import Sources

    Row = tuple[str, int, str, Any, int]  # file, line, function; code and position in it

__all__ = ["Tracebacks"]

globals()["__builtins__"] = BUILTINS

MAX_TRACEBACK = 20_000
MAX_MESSAGE = 8_000
_MAX_LINE = 300
_MAX_CHAIN = 8
_MAX_GROUP = 12
_ENDS = 12
"""Frames that are shown at the start and at the end of a long traceback."""
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"

# Through the slots of the base class: a property of the same name in the program's class is not called.
_slots = vars(BaseException)
_cause_of: Callable[[Any], Any] = _slots["__cause__"].__get__
_context_of: Callable[[Any], Any] = _slots["__context__"].__get__
_is_suppressed: Callable[[Any], bool] = _slots["__suppress_context__"].__get__
_trace_of: Callable[[Any], Any] = _slots["__traceback__"].__get__
_members_of: Callable[[Any], tuple[Any, ...]] = vars(BaseExceptionGroup)["exceptions"].__get__
_STDLIB = "/lib/python{}.{}/".format(*sys.version_info)
_OURS = (lambda: 0).__code__.co_filename.rsplit("/", 1)[0] + "/"


class Tracebacks:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self, error: BaseException, name: str = "") -> dict[str, Any]:
        """`name` is the block that ran: the line is one of its lines, if possible."""
        pieces: list[str] = []
        self._chain(error, pieces, "", set())
        return _described(error, "".join(pieces), self._line_of(error, name))

    def describe_syntax(self, error: BaseException, text: str) -> dict[str, Any]:
        """For a block that does not compile: the place instead of a traceback."""
        if not issubclass(type(error), (SyntaxError, ValueError)):  # the compiler ran out of stack or memory
            error = type(error)("the code is too long or too deeply nested to be compiled")
        place = _syntax(error, lambda _, number: pick(text.split("\n"), number))
        return _described(error, f"{place}{_headline(error)}", _line_number(error))

    # --- one exception and those before it ----------------------------------------------------------------------------

    def _chain(self, error: Any, pieces: list[str], indent: str, seen: set[int]) -> None:
        links: list[tuple[Any, str]] = []
        link = ""
        while error is not None and id(error) not in seen and len(links) < _MAX_CHAIN:
            seen.add(id(error))
            links.append((error, link))
            cause = _cause_of(error)
            link = _CAUSE if cause is not None else _CONTEXT
            error = cause if cause is not None else None if _is_suppressed(error) else _context_of(error)
        for each, after in reversed(links):
            self._one(each, pieces, indent, seen)
            if after:
                pieces.append(_indented(after, indent))

    def _one(self, error: Any, pieces: list[str], indent: str, seen: set[int]) -> None:
        rows = self._rows(_trace_of(error))
        text = "Traceback (most recent call last):\n" + self._frames(rows) if rows else ""
        if issubclass(type(error), SyntaxError):
            text += _syntax(error, self._sources.line)
        pieces.append(_indented(f"{text}{_headline(error)}{_notes(error)}", indent))
        if issubclass(type(error), BaseExceptionGroup) and len(indent) < 8:
            members = _members_of(error)
            for number, member in enumerate(members[:_MAX_GROUP], 1):
                pieces.append(f"{indent}  +- {number} of {len(members)} ----\n")
                self._chain(member, pieces, indent + "  | ", seen)
            if len(members) > _MAX_GROUP:
                pieces.append(f"{indent}  +- and {len(members) - _MAX_GROUP} more\n")

    # --- frames -------------------------------------------------------------------------------------------------------

    def _rows(self, trace: Any) -> list[Row]:
        """From the program's first line on, without the child's frames."""
        rows: list[Row] = []
        while trace is not None:
            code = trace.tb_frame.f_code
            name = code.co_filename
            if not name.startswith(_OURS) and (rows or self._sources.is_program(name)):
                rows.append((name, trace.tb_lineno, code.co_qualname, code, trace.tb_lasti))
            trace = trace.tb_next
        return rows

    def _line_of(self, error: BaseException, name: str) -> int | None:
        rows = [row for row in self._rows(_trace_of(error)) if self._sources.is_program(row[0])]
        lines = [row[1] for row in rows if row[0] == name] or [row[1] for row in rows]
        return lines[-1] if lines else _line_number(error)

    def _frames(self, rows: list[Row]) -> str:
        folded = _fold_library(rows, self._sources.is_program)
        texts: list[str] = []
        repeated = 0
        before: Any = None
        for row in folded:
            if row[:3] == before:
                repeated += 1
                continue
            texts += [_again(repeated)] if repeated else []
            repeated = 0
            before = row[:3]
            texts.append(row if type(row) is str else self._frame(*row))
        texts += [_again(repeated)] if repeated else []
        if len(texts) > 2 * _ENDS:
            left_out = f"  … {len(texts) - 2 * _ENDS} frames left out …\n"
            texts = [*texts[:_ENDS], left_out, *texts[-_ENDS:]]
        return "".join(texts)

    def _frame(self, name: str, number: int, function: str, code: Any, position: int) -> str:
        head = f'  File "{_shown(name)}", line {number}, in {clean(function)[:_MAX_LINE]}\n'
        if not self._sources.is_program(name):
            return head
        line = self._sources.line(name, number)
        stripped = line.strip()
        if not stripped:
            return head
        text = f"{head}    {cut(stripped, _MAX_LINE)}\n"
        columns = _columns(code, number, position)
        marks = _marks(line, columns) if columns else ""
        return f"{text}    {marks}\n" if marks else text


def _described(error: BaseException, traceback: str, line: int | None) -> dict[str, Any]:
    found = {"type": name_of(type(error)), "message": _message(error)}
    return {**found, "traceback": _middle_out(traceback, MAX_TRACEBACK), "line": line}


def _fold_library(rows: list[Row], is_program: Callable[[str], bool]) -> list[Any]:
    """Of consecutive library frames only the last is shown; the others are counted."""
    folded: list[Any] = []
    inside: list[Row] = []
    for row in [*rows, None]:
        if row is not None and not is_program(row[0]):
            inside.append(row)
            continue
        if len(inside) > 3:
            folded.append(f"  … {len(inside) - 1} frames in {_shown(inside[0][0])} and below …\n")
            inside = inside[-1:]
        folded += inside
        inside = []
        if row is not None:
            folded.append(row)
    return folded


def _again(times: int) -> str:
    return f"  [Previous line repeated {times} more time{'s' if times > 1 else ''}]\n"


def _shown(name: str) -> str:
    """Library files relative to the library, without the path on this machine."""
    for mark in ("/site-packages/", "/dist-packages/", _STDLIB):
        if mark in name:
            return clean(name.rsplit(mark, 1)[1])[-_MAX_LINE:]
    return clean(name)[-_MAX_LINE:]


def _columns(code: Any, number: int, position: int) -> tuple[int, int] | None:
    """The part of the line that was being evaluated, in bytes."""
    for index, (line, end_line, start, end) in enumerate(code.co_positions()):
        if index == position // 2:
            is_on_line = line == end_line == number and start is not None and end is not None
            return (start, end) if is_on_line else None
    return None


def _marks(line: str, columns: tuple[int, int]) -> str:
    """Carets under that part; empty if it is the whole line."""
    raw = line.encode("utf-8", "replace")
    start, end = (len(raw[:at].decode("utf-8", "replace")) for at in columns)
    margin = len(line) - len(line.lstrip())
    if end - start >= len(line.strip()) or end > _MAX_LINE:
        return ""
    return " " * (start - margin) + "^" * (end - start)


# --- what an exception says of itself --------------------------------------------------------------------------------


def _message(error: BaseException) -> str:
    try:
        if type(error) is SyntaxError or issubclass(type(error), SyntaxError):
            text = error.msg if type(error.msg) is str else str(error)  # type: ignore[attr-defined]
        else:
            text = str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:
        return f"(its text could not be made: {name_of(type(failure))})"
    return cut(str.__str__(text), MAX_MESSAGE)


def _headline(error: BaseException) -> str:
    kind = path_of(type(error)).removeprefix("__main__.")
    message = _message(error)
    return f"{kind}: {message}\n" if message else f"{kind}\n"


def _notes(error: BaseException) -> str:
    try:
        notes = getattr(error, "__notes__", None)
    except Exception:
        return ""
    if type(notes) is not list:
        return ""
    return "".join(f"{cut(note, 1000)}\n" for note in notes[:10] if type(note) is str)


def _line_number(error: Any) -> int | None:
    number = error.lineno if issubclass(type(error), SyntaxError) else None
    return number if type(number) is int and 0 < number < 1 << 31 else None


def _syntax(error: Any, line_of: Callable[[str, int], str]) -> str:
    """The place of a syntax error, with a caret. Its fields can be anything, because the program can raise one itself."""
    number = _line_number(error)
    if number is None:
        return ""
    name = error.filename if type(error.filename) is str else "<unknown>"
    head = f'  File "{_shown(name)}", line {number}\n'
    line = error.text if type(error.text) is str else line_of(name, number)
    line = line.split("\n", 1)[0].rstrip()
    margin = len(line) - len(line.lstrip())
    start: Any = error.offset
    end: Any = error.end_offset
    head += f"    {cut(line.strip(), _MAX_LINE)}\n" if line.strip() else ""
    if type(start) is not int or not line.strip() or not margin < start <= min(len(line) + 1, _MAX_LINE):
        return head
    on_one_line = type(end) is int and error.end_lineno == number and start < end <= len(line) + 1
    width = end - start if on_one_line else 1
    return f"{head}    {' ' * (start - 1 - margin)}{'^' * width}\n"


# --- text ------------------------------------------------------------------------------------------------------------


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" for line in text.rstrip("\n").split("\n")) if indent else text


def _middle_out(text: str, limit: int) -> str:
    """The beginning and the end, which has the error itself."""
    text = text.rstrip("\n")
    if len(text) <= limit:
        return clean(text)
    half = limit // 2
    return clean(f"{text[:half]}\n  … {len(text) - 2 * half} characters left out …\n{text[-half:]}")
