"""What a block stands on: descriptors, streams, work folder, `__main__`. All of it is as it should be when a block begins,
whatever the one before has done."""

from __future__ import annotations

import io
import posix
import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, give_back

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, TextIO

__all__ = ["ProcessState"]

globals()["__builtins__"] = BUILTINS

_NAMES = ("<stdin>", "<stdout>", "<stderr>")
_LEAST_RECURSION = 400
"""Below this our own code could not finish a block."""

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
        give_back()
        sys.stdin = sys.stdout = sys.stderr = None  # what wraps our streams may close them now
        for fd in (0, 1, 2):
            if _identity(fd) != self._identities[fd]:
                _dup2(self._spares[fd], fd)
            elif fd and not _get_blocking(fd):  # asyncio does that to a stream that it is given
                _set_blocking(fd, True)
            if not _sound(self._streams[fd], fd):
                self._streams[fd] = _stream(fd)
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc]
        sys.displayhook = _display_hook
        sys.modules["__main__"] = self.main
        self.names.setdefault("__name__", "__main__")
        self.names.setdefault("__builtins__", sys.modules.get("builtins", BUILTINS))
        self._go_home()

    def settle(self) -> None:
        """Right after a block: nothing of the program looks on while we work, and there is room on the stack."""
        _set_trace(None)
        _set_profile(None)
        if _get_recursion() < _LEAST_RECURSION:
            _set_recursion(self._recursion)

    def flush(self) -> None:
        """What was printed leaves this process. Streams that the program put in place of ours are its own code."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not any(stream is ours for ours in self._streams):
                try:  # noqa: SIM105 - contextlib is not loaded for this
                    stream.flush()
                except Exception:  # noqa: S110 - a stream that the program closed or broke has nothing for us
                    pass
        self.flush_own()

    def flush_own(self) -> None:
        for stream in self._streams[1:]:
            try:  # noqa: SIM105 - contextlib is not loaded for this
                stream.flush()
            except (OSError, ValueError):  # closed by the program, or its descriptor is
                pass
        _flush_c()

    def _go_home(self) -> None:
        try:
            _chdir(self._home)
        except OSError:  # removed, where it is no mount
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
    """Lines are sent when they are complete: live to look at, and one system call for each."""
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
    """The buffers of C's own streams. Who writes to them came through ctypes, or through numpy, which loads it too."""
    global _c_flush
    if _c_flush is None and "ctypes" in sys.modules:
        try:
            import ctypes

            _c_flush = ctypes.CDLL(None).fflush
        except Exception:
            _c_flush = False
    if _c_flush:
        _c_flush(None)
