"""The source text of blocks, by file name: for our tracebacks, and for `linecache`, which the program's own tracebacks and `inspect`
use."""

from __future__ import annotations

import posix
import stat

from clicket.interpreter.inside.safe_builtins import BUILTINS

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Sources", "pick"]

globals()["__builtins__"] = BUILTINS

MAX_KEPT = 16 * 1024 * 1024
MAX_FILE = 4 * 1024 * 1024

_open, _fstat, _read, _close = posix.open, posix.fstat, posix.read, posix.close
_FLAGS = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOFOLLOW | posix.O_CLOEXEC  # a named pipe must not block us
_is_regular = stat.S_ISREG


class Sources:
    def __init__(self, home: str) -> None:
        self._home = home.rstrip("/") + "/"
        self._texts: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}
        self._size = 0
        self._linecache: dict[str, Any] | None = None

    def add(self, name: str, text: str) -> None:
        self.drop(name)
        self._texts[name] = text
        self._size += len(text)
        while self._size > MAX_KEPT and len(self._texts) > 1:
            self.drop(next(iter(self._texts)))
        if self._linecache is not None:
            self._linecache[name] = self._entry(name)

    def drop(self, name: str) -> None:
        text = self._texts.pop(name, None)
        if text is not None:
            self._size -= len(text)
            self._lines.pop(name, None)

    def fill_linecache(self, linecache: Any) -> None:
        """Called when `linecache` was imported: it gets all blocks, also later ones."""
        self._linecache = linecache.cache
        for name in self._texts:
            linecache.cache[name] = self._entry(name)

    def is_program(self, name: str) -> bool:
        """Whether it is code of the program: a block, or a file in the work folder."""
        return name in self._texts or (name.startswith(self._home) and "/site-packages/" not in name)

    def line(self, name: str, number: int) -> str:
        """One line; empty if it is not available."""
        lines = self._lines.get(name)
        if lines is None:
            text = self._texts.get(name)
            if text is None:
                text = _contents(name) if name.startswith(self._home) else ""
                return pick(text.splitlines(), number)
            lines = self._lines[name] = text.splitlines()
        return pick(lines, number)

    def _entry(self, name: str) -> tuple[int, None, list[str], str]:
        text = self._texts[name]
        return len(text), None, text.splitlines(keepends=True), name


def pick(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _contents(path: str) -> str:
    try:
        fd = _open(path, _FLAGS)
    except (OSError, ValueError):
        return ""
    try:
        return _read(fd, MAX_FILE).decode("utf-8", "replace") if _is_regular(_fstat(fd).st_mode) else ""
    except OSError:
        return ""
    finally:
        _close(fd)
