"""Reads one command at a time from the host and answers it, until the host closes the pipe or the program ends the
process. Answers stay within the host's limits; the process exits without exit handlers."""

from __future__ import annotations

import _thread
import builtins
import fcntl
import os
import posix
import sys

from clicket.interpreter.inside.block_runner import BlockRunner, run_guarded
from clicket.interpreter.inside.code_check import check
from clicket.interpreter.inside.displays import Displays
from clicket.interpreter.inside.file_locks import patch_flock
from clicket.interpreter.inside.import_hooks import ImportHooks
from clicket.interpreter.inside.interrupts import Interrupts
from clicket.interpreter.inside.process_state import ProcessState
from clicket.interpreter.inside.safe_builtins import BUILTINS, cut
from clicket.interpreter.inside.safe_repr import name_of
from clicket.interpreter.inside.sources import Sources
from clicket.interpreter.inside.tools import install, remove, sign
from clicket.interpreter.inside.tracebacks import Tracebacks
from clicket.interpreter.inside.use_mailbox import UseMailbox
from clicket.interpreter.inside.variables import Variables
from clicket.interpreter.sandbox.frames import pack, read

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["main"]

globals()["__builtins__"] = BUILTINS

BROKEN = 70
"""The exit status when the program has broken the child itself."""

_MAX_FONT_LIST = 8 * 1024 * 1024

_write, _exit, _getpid, _close = posix.write, posix._exit, posix.getpid, posix.close
_count_threads = _thread._count


def main(commands: int, answers: int, settings: dict[str, Any], layers: list[str]) -> None:
    """Never returns."""
    status, leave = BROKEN, _exit  # a local name: the program may empty our modules
    try:
        CommandLoop(commands, answers, settings).serve(layers)
        status = 0
    finally:
        leave(status)


class CommandLoop:
    def __init__(self, commands: int, answers: int, settings: dict[str, Any]) -> None:
        home = posix.getcwd()
        self._commands, self._answers = commands, answers
        self._pid = _getpid()
        self._lock = _thread.allocate_lock()
        self._interrupts = Interrupts(commands)
        self._listing: dict[str, Any] | None = None
        self._state = ProcessState(home)
        self._sources = Sources(home)
        self._runner = BlockRunner(self._state.names)
        self._displays = Displays(self._send, self._state.flush_own)
        self._tracebacks = Tracebacks(self._sources)
        self._variables = Variables(self._state.names)
        self._mailbox = UseMailbox(commands, self._write_frame, self._interrupts)
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "exec": self._exec,
            "check": self._check,
            "preload": self._preload,
        }
        self._prepare(home, settings)

    def serve(self, layers: list[str]) -> None:
        """Answer commands until the host closes the pipe."""
        self._interrupts.restore()
        self._send({"type": "ready", "layers": layers, "python": "{}.{}.{}".format(*sys.version_info[:3])})
        while True:
            self._interrupts.wait()
            command = read(self._commands)
            if command is None:
                return
            if command["op"] == "answer":  # to a use whose block has ended
                self._interrupts.finish()
                continue
            answer = self._operations[command["op"]](command)
            self._interrupts.finish()
            self._send(answer)

    def _prepare(self, home: str, settings: dict[str, Any]) -> None:
        posix.register_at_fork(before=self._state.flush_own, after_in_child=self._on_fork)
        vars(builtins)["display"] = self._displays.show
        patch_flock(fcntl)
        hooks = ImportHooks()
        hooks.after("linecache", self._sources.fill_linecache)
        hooks.after("matplotlib.pyplot", self._displays.figures.patch_pyplot)
        hooks.after("IPython.display", self._displays.patch_ipython)
        hooks.after("inspect", sign)
        _remove_own_path()
        sys.argv = [""]
        sys.path.insert(0, home)
        _insert_before_site(settings.get("path") or [])
        if settings.get("packages") is not None:
            from clicket.interpreter.inside.import_allowlist import install

            install(settings["packages"], home)
        _copy_font_cache(settings.get("font_cache"))
        _remove_own_modules()

    # --- operations ---------------------------------------------------------------------------------------------------

    def _check(self, command: dict[str, Any]) -> dict[str, Any]:
        blocks = [check(text, self._tracebacks) for text in command["codes"]]
        return {"type": "checked", "id": command["id"], "blocks": blocks}

    def _preload(self, command: dict[str, Any]) -> dict[str, Any]:
        """Import modules that the program is likely to need. The errors of others come when the program imports them."""
        found = []
        for name in command["modules"]:
            try:
                __import__(name)
            except BaseException:  # noqa: S112 - a package may raise anything while it is imported
                continue
            found.append(name)
        return {"type": "preloaded", "id": command["id"], "modules": found}

    def _exec(self, command: dict[str, Any]) -> dict[str, Any]:
        text, name = command["code"], command["name"]
        if command.get("check"):
            checked = self._check({"id": command["id"], "codes": (text,)})
            if checked["blocks"][0]["error"] is not None:
                return checked
            self._send(checked)
        self._state.restore()
        self._interrupts.seen = False
        self._sources.add(name, text)
        self._displays.begin(command["id"])
        self._offer(command)
        value, error = self._step(self._runner.run, text, name)
        shown, second = self._step(self._displays.finish, value)
        self._mailbox.end()
        error = second if error is None else error
        status, code = self._status_of(error)
        described = self._describe(error, status, name)
        del value, error, second  # see `_step`
        self._step(self._state.flush)
        self._interrupts.restore()  # not only at the next block: an interrupt may arrive before it
        return {
            "type": "done",
            "id": command["id"],
            "status": status,
            "value": shown,
            "error": described,
            "exit_code": code,
            "variables": self._changes(),
            "threads": _count_threads(),
            "names": self._variables.names(),
        }

    def _offer(self, command: dict[str, Any]) -> None:
        """The tools of this block, if they are others than those of the block before."""
        if "tools" in command:
            self._listing = command["tools"]
            if self._listing is None:
                remove()
        if self._listing is not None:
            if "tools" in command or "tools" not in vars(builtins):
                install(self._mailbox, self._listing)
            self._mailbox.begin(command["id"])

    def _changes(self) -> list[dict[str, Any]]:
        try:
            return self._variables.changes()
        except Exception:  # a thread of the program changed the namespace meanwhile
            return []

    def _step(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
        outcome = run_guarded(self._interrupts, call, *arguments)
        self._state.clear_hooks()
        if _getpid() != self._pid:
            self._exit_child(outcome[1])
        try:
            return outcome
        finally:
            del outcome  # its traceback refers to this frame: the cycle would keep alive all that the block held

    def _status_of(self, error: BaseException | None) -> tuple[str, int | None]:
        if error is None:
            return "ok", None
        if issubclass(type(error), SystemExit):
            return "exit", _exit_code(error)
        if issubclass(type(error), KeyboardInterrupt) and self._interrupts.seen:
            return "interrupted", None
        return "error", None

    def _describe(self, error: BaseException | None, status: str, name: str) -> dict[str, Any] | None:
        if error is None:
            return None
        if status == "exit":
            self._step(_print_exit_message, error)
            return None
        described: dict[str, Any]
        described, failure = self._step(self._tracebacks.describe, error, name)
        if failure is None:
            return described
        return {
            "type": name_of(type(error)),
            "message": f"(its text could not be made: {name_of(type(failure))})",
            "traceback": "",
            "line": None,
        }

    def _send(self, frame: dict[str, Any]) -> None:
        self._write_frame(pack(frame))

    def _write_frame(self, frame: bytes) -> None:
        """Write a whole frame: neither an interrupt nor another thread can split it."""
        data = memoryview(frame)
        held = self._interrupts.hold()
        try:
            with self._lock:
                while data:
                    data = data[_write(self._answers, data) :]
        finally:
            if held:
                self._interrupts.release()

    # --- forks --------------------------------------------------------------------------------------------------------

    def _on_fork(self) -> None:
        """A forked child must not write to the host."""
        self._displays.mute()
        self._mailbox.mute()
        for fd in (self._commands, self._answers):
            try:  # noqa: SIM105 - contextlib is not loaded for this
                _close(fd)
            except OSError:
                pass

    def _exit_child(self, error: BaseException | None) -> None:
        """A forked child has finished the block: exit as a script would."""
        status = 0
        try:
            kind, code = self._status_of(error)
            if kind == "exit":
                status = (code or 0) & 0xFF
                _print_exit_message(error)
            elif error is not None:
                status = 1
                sys.stderr.write(self._tracebacks.describe(error)["traceback"] + "\n")
            self._state.flush()
        finally:
            _exit(status)


def _exit_code(error: BaseException) -> int:
    code = _code_of(error)
    if code is None:
        return 0
    if issubclass(type(code), int):
        code = int.__index__(code)  # not a method of the program
        return code if -(1 << 31) <= code < 1 << 31 else -1
    return 1


def _print_exit_message(error: BaseException | None) -> None:
    """`sys.exit("text")` prints the text."""
    code = _code_of(error)
    if code is not None and not issubclass(type(code), int):
        sys.stderr.write(f"{cut(str(code), 10_000)}\n")


_code_of: Callable[[Any], Any] = vars(SystemExit)["code"].__get__


def _remove_own_path() -> None:
    """The program cannot import from the folder with the child's modules."""
    root = __file__.rsplit("/clicket/", 1)[0]
    sys.path[:] = [entry for entry in sys.path if entry != root]


def _remove_own_modules() -> None:
    for name in [name for name in sys.modules if name.split(".", 1)[0] == "clicket"]:
        del sys.modules[name]


def _insert_before_site(folders: list[str]) -> None:
    at = next((i for i, entry in enumerate(sys.path) if entry.endswith("site-packages")), len(sys.path))
    sys.path[at:at] = folders


def _copy_font_cache(folder: str | None) -> None:
    """Copy matplotlib's font list to where it looks for it. Errors are ignored: matplotlib then makes its own list."""
    target = os.environ.get("MPLCONFIGDIR")
    try:
        names = os.listdir(folder) if folder and target else []
        if names:
            os.makedirs(target, mode=0o700, exist_ok=True)  # type: ignore[arg-type] # set, for there are names
        for name in names:
            if os.stat(f"{folder}/{name}").st_size <= _MAX_FONT_LIST:
                with open(f"{folder}/{name}", "rb") as source, open(f"{target}/{name}", "xb") as copy:
                    copy.write(source.read())
    except OSError:
        return
