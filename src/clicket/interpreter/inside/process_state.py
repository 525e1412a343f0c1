"""Descriptors, streams, work folder and `__main__`: restored before each block, whatever the previous one did."""

from __future__ import annotations

import io
import posix
import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, restore_builtins

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, TextIO

__all__ = ["ProcessState"]

globals()["__builtins__"] = BUILTINS

_NAMES = ("<stdin>", "<stdout>", "<stderr>")
_MIN_RECURSION = 400
"""Below this the child's own code could not finish a block."""

_fstat, _dup2, _chdir, _mkdir = posix.fstat, posix.dup2, posix.chdir, posix.mkdir
_get_blocking, _set_blocking = posix.get_blocking, posix.set_blocking
_TextIOWrapper, _FileIO, _BufferedReader, _BufferedWriter = (
    io.TextIOWrapper,
    io.FileIO,
    io.BufferedReader,
    io.BufferedWriter,
)
_display_hook = sys.displayhook
_get_recursion, _set_recursion = sys.getrecursionlimit, sys.setrecursionlimit
_set_trace, _set_profile = sys.settrace, sys.setprofile


class ProcessState:
    def __init__(self, home: str) -> None:
        self._home = home
        self._recursion = _get_recursion()
        self._spares = [posix.dup(fd) for fd in (0, 1, 2)]
        self._identities = [_identity(fd) for fd in (0, 1, 2)]
        self._streams: list[Any] = [_stream(fd) for fd in (0, 1, 2)]
        self.main = _new_main()
        self.names: dict[str, Any] = vars(self.main)

    def restore(self) -> None:
        """Before each block."""
        restore_builtins()
        sys.stdin = sys.stdout = sys.stderr = None  # objects that wrap our streams may now close them
        for fd in (0, 1, 2):
            if _identity(fd) != self._identities[fd]:
                _dup2(self._spares[fd], fd)
            elif fd and not _get_blocking(fd):  # asyncio makes a stream non-blocking
                _set_blocking(fd, True)
            if not _sound(self._streams[fd], fd):
                self._streams[fd] = _stream(fd)
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc]
        sys.displayhook = _display_hook
        sys.modules["__main__"] = self.main
        self.names.setdefault("__name__", "__main__")
        self.names.setdefault("__builtins__", sys.modules.get("builtins", BUILTINS))
        self._go_home()

    def clear_hooks(self) -> None:
        """Right after a block: remove the program's trace and profile functions, and restore a usable recursion limit."""
        _set_trace(None)
        _set_profile(None)
        if _get_recursion() < _MIN_RECURSION:
            _set_recursion(self._recursion)

    def flush(self) -> None:
        """Flush all output. Streams that replace ours are code of the program."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not any(stream is ours for ours in self._streams):
                try:  # noqa: SIM105 - contextlib is not loaded for this
                    stream.flush()
                except Exception:  # noqa: S110 - a stream that the program closed or broke
                    pass
        self.flush_own()

    def flush_own(self) -> None:
        for stream in self._streams[1:]:
            try:  # noqa: SIM105 - contextlib is not loaded for this
                stream.flush()
            except (OSError, ValueError):  # the program closed it, or its descriptor
                pass
        _flush_c()

    def _go_home(self) -> None:
        try:
            _chdir(self._home)
        except OSError:  # removed, where it is not a mount
            try:
                _mkdir(self._home, 0o700)
                _chdir(self._home)
            except OSError:
                pass


def _new_main() -> ModuleType:
    main = type(sys)("__main__")
    vars(main)["__builtins__"] = sys.modules["builtins"]
    return main


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = _fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _stream(fd: int) -> TextIO:
    """Line-buffered: output is visible at once, with one system call for each line."""
    raw = _FileIO(fd, "wb" if fd else "rb", closefd=False)
    raw.name = _NAMES[fd]
    buffer: Any = _BufferedWriter(raw) if fd else _BufferedReader(raw)
    stream = _TextIOWrapper(buffer, "utf-8", "backslashreplace" if fd else "surrogateescape", line_buffering=fd > 0)
    stream.mode = "w" if fd else "r"  # type: ignore[misc]
    return stream


def _sound(stream: Any, fd: int) -> bool:
    try:
        if stream.closed or stream.fileno() != fd or stream.encoding != "utf-8":
            return False
        return not fd or bool(stream.line_buffering and stream.errors == "backslashreplace")
    except (ValueError, OSError, AttributeError):  # detached
        return False


_c_flush: Any = None


def _flush_c() -> None:
    """Flush C's own streams, which are used through ctypes, or through numpy, which loads ctypes."""
    global _c_flush
    if _c_flush is None and "ctypes" in sys.modules:
        try:
            import ctypes

            _c_flush = ctypes.CDLL(None).fflush
        except Exception:
            _c_flush = False
    if _c_flush:
        _c_flush(None)
