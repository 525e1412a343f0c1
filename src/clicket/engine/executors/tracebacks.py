"""Where a tool's body raised, as bounded text: the author's frames before all others, the runtime's own frames left out.

The text is for the owner of a call, for administrators and for logs. It is masked before it is recorded, and no model gets it.
"""

from __future__ import annotations

import linecache
import logging
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from clicket.errors import ClicketError
from clicket.model.codec import clean

__all__ = ["MAX_SIZE", "log_failure", "traceback_of"]

logger = logging.getLogger("clicket.tools")

MAX_SIZE = 8_000
"""Characters of a traceback at most."""
_MAX_FRAMES = 24
_MAX_LINE = 200
_MAX_MESSAGE = 2_000
_MAX_CHAIN = 5
_MAX_GROUP = 5
_TITLE = "Traceback (most recent call last):\n"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"

_OURS = str(Path(__file__).parents[2])
_LIBRARY = (sysconfig.get_paths()["stdlib"], "<frozen ", "<string>")
_PACKAGES = ("site-packages", "dist-packages")


class _Frame(NamedTuple):
    file: str
    line: int
    name: str

    @property
    def is_ours(self) -> bool:
        return self.file.startswith(_OURS)

    @property
    def is_authors(self) -> bool:
        return not (self.is_ours or self.file.startswith(_LIBRARY) or any(name in self.file for name in _PACKAGES))


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception; empty for an error of clicket's own that has no frame of anybody else."""
    sent = getattr(error, "traceback", None)  # a child process has made the text
    if isinstance(sent, str):
        return sent[:MAX_SIZE]
    try:
        frames = _frames(error.__traceback__)
        if isinstance(error, ClicketError) and all(frame.is_ours for frame in frames):
            return ""
        return clean(_chain(error))
    except Exception:  # exceptions are foreign code: they may raise at every touch, or recurse
        return ""


def log_failure(tool: str, call_id: str, attempt: int, text: str) -> None:
    """Log a masked traceback, as the traceback of the log record: formatters put it below the message, and `safety.vault.logs`
    indents it."""
    if logger.isEnabledFor(logging.INFO):
        extra = {"call_id": call_id, "tool": tool, "attempt": attempt}
        said = "%s raised in attempt %d of call %r"
        args = (tool, attempt, call_id)
        record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, said, args, None, "log_failure", extra)
        record.exc_text = text.rstrip("\n")
        logger.handle(record)


def _chain(error: BaseException) -> str:
    """The exception after those that led to it, as far as they fit."""
    text = _block(error)
    seen = {id(error)}
    for _ in range(_MAX_CHAIN):
        before = error.__cause__
        words = _CAUSE
        if before is None and not error.__suppress_context__:
            before = error.__context__
            words = _CONTEXT
        if before is None or id(before) in seen:
            break
        earlier = _block(before)
        if len(earlier) + len(words) + len(text) > MAX_SIZE:
            break
        text = earlier + words + text
        seen.add(id(before))
        error = before
    return text[:MAX_SIZE]


def _block(error: BaseException, depth: int = 0) -> str:
    frames = list(_chosen(_frames(error.__traceback__)))
    message = "".join(traceback.format_exception_only(error))
    if len(message) > _MAX_MESSAGE:
        message = f"{message[:_MAX_MESSAGE]}…\n"
    text = f"{_TITLE}{''.join(frames)}{message}" if frames else message
    if isinstance(error, BaseExceptionGroup) and depth < 2:
        for number, each in enumerate(error.exceptions[:_MAX_GROUP], 1):
            inner = "".join(f"    {line}\n" for line in _block(each, depth + 1).splitlines())
            text += f"  exception {number} of {len(error.exceptions)}:\n{inner}"
    return text


def _frames(trace: TracebackType | None) -> list[_Frame]:
    """The frames, without those that led to the author's first one.

    If the author wrote no line of it, the tool is of a library, or ours: then those behind our last one, or our last one alone."""
    frames = [_Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in traceback.walk_tb(trace)]
    first = next((n for n, frame in enumerate(frames) if frame.is_authors), None)
    if first is None:
        behind = next((n for n, frame in reversed([*enumerate(frames, 1)]) if frame.is_ours), 0)
        first = min(behind, max(len(frames) - 1, 0))
    return frames[first:]


def _chosen(frames: list[_Frame]) -> Iterator[str]:
    """The author's frames, the first and the last of them, then the last ones of all; in their order, with the gaps told."""
    kept = set(range(len(frames)))
    if len(frames) > _MAX_FRAMES:
        third = _MAX_FRAMES // 3
        authors = [n for n, frame in enumerate(frames) if frame.is_authors]
        kept = {*authors[:third], *authors[-third:], *range(len(frames) - third, len(frames))}
    left_out = 0
    for number, frame in enumerate(frames):
        if number not in kept:
            left_out += 1
            continue
        if left_out:
            yield f"  … {left_out} more\n"
            left_out = 0
        source = linecache.getline(frame.file, frame.line).strip()[:_MAX_LINE]
        yield f'  File "{frame.file}", line {frame.line}, in {frame.name}\n' + (f"    {source}\n" if source else "")
