"""The program's end of the line: takes one command at a time, answers each, and lives until the host closes the line or the
program brings it down. It never says more than the host will read, and leaves without running anything on the way out."""

from __future__ import annotations

import _thread
import builtins
import fcntl
import posix
import sys

from clicket.interpreter.inside.block_runner import Program, attempt
from clicket.interpreter.inside.code_check import check
from clicket.interpreter.inside.displays import Displays
from clicket.interpreter.inside.file_locks import adopt as adopt_locks
from clicket.interpreter.inside.import_hooks import ImportHooks
from clicket.interpreter.inside.interrupts import Interrupts
from clicket.interpreter.inside.process_state import ProcessState
from clicket.interpreter.inside.safe_builtins import BUILTINS, cut
from clicket.interpreter.inside.safe_repr import name_of
from clicket.interpreter.inside.sources import Sources
from clicket.interpreter.inside.tracebacks import Tracebacks
from clicket.interpreter.inside.variables import Variables
from clicket.sandbox.frames import pack, read

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["main"]

globals()["__builtins__"] = BUILTINS

BROKEN = 70
"""The exit status when the program has broken the worker itself."""

_write, _exit, _getpid, _close = posix.write, posix._exit, posix.getpid, posix.close
_count_threads = _thread._count


def main(commands: int, answers: int, settings: dict[str, Any], layers: list[str]) -> None:
    """Never comes back."""
    status, leave = BROKEN, _exit  # a name of this function's own: the program may empty our modules
    try:
        Worker(commands, answers, settings).serve(layers)
        status = 0
    finally:
        leave(status)


class Worker:
    def __init__(self, commands: int, answers: int, settings: dict[str, Any]) -> None:
        home = posix.getcwd()
        self._commands, self._answers = commands, answers
        self._pid = _getpid()
        self._lock = _thread.allocate_lock()
        self._interrupts = Interrupts(commands)
        self._stage = ProcessState(home)
        self._sources = Sources(home)
        self._program = Program(self._stage.names)
        self._displays = Displays(self._send, self._stage.flush_own)
        self._tracebacks = Tracebacks(self._sources)
        self._variables = Variables(self._stage.names)
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "exec": self._exec,
            "check": self._check,
            "preload": self._preload,
        }
        self._prepare(home, settings)

    def serve(self, layers: list[str]) -> None:
        """Until the host closes the line."""
        self._interrupts.restore()
        self._send({"type": "ready", "layers": layers, "python": "{}.{}.{}".format(*sys.version_info[:3])})
        while True:
            self._interrupts.wait()
            order = read(self._commands)
            if order is None:
                return
            answer = self._operations[order["op"]](order)
            self._interrupts.finish()
            self._send(answer)

    def _prepare(self, home: str, settings: dict[str, Any]) -> None:
        posix.register_at_fork(before=self._stage.flush_own, after_in_child=self._on_fork)
        vars(builtins)["display"] = self._displays.show
        adopt_locks(fcntl)
        arrivals = ImportHooks()
        arrivals.after("linecache", self._sources.serve)
        arrivals.after("matplotlib.pyplot", self._displays.figures.adopt)
        arrivals.after("IPython.display", self._displays.adopt)
        _take_ourselves_out()
        sys.argv = [""]
        sys.path.insert(0, home)
        _put_in_front_of_site(settings.get("path") or [])
        if settings.get("packages") is not None:
            from clicket.interpreter.inside.import_allowlist import install

            install(settings["packages"], home)
        if isinstance(settings.get("seed"), str):
            from clicket.interpreter.inside.seed import plant

            plant(settings["seed"])
        _forget_our_modules()

    # --- operations ---------------------------------------------------------------------------------------------------

    def _check(self, order: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "checked",
            "id": order["id"],
            "blocks": [check(text, self._tracebacks) for text in order["codes"]],
        }

    def _preload(self, order: dict[str, Any]) -> dict[str, Any]:
        """Modules that the program is likely to want. One that fails will fail again when the program asks for it."""
        found = []
        for name in order["modules"]:
            try:
                __import__(name)
            except BaseException:  # noqa: S112 - a package may raise anything while it is imported
                continue
            found.append(name)
        return {"type": "preloaded", "id": order["id"], "modules": found}

    def _exec(self, order: dict[str, Any]) -> dict[str, Any]:
        text, name = order["code"], order["name"]
        if order.get("check"):
            looked = self._check({"id": order["id"], "codes": (text,)})
            if looked["blocks"][0]["error"] is not None:
                return looked
            self._send(looked)
        self._stage.restore()
        self._interrupts.seen = False
        self._sources.add(name, text)
        self._displays.begin(order["id"])
        value, error = self._step(self._program.run, text, name)
        shown, second = self._step(self._displays.finish, value)
        error = second if error is None else error
        status, code = self._status_of(error)
        described = self._describe(error, status, name)
        del value, error, second  # see `_step`
        self._step(self._stage.flush)
        self._interrupts.restore()  # now, and not when the next block comes: an interrupt may come before it
        return {
            "type": "done",
            "id": order["id"],
            "status": status,
            "value": shown,
            "error": described,
            "exit_code": code,
            "variables": self._changes(),
            "threads": _count_threads(),
            "names": self._variables.names(),
        }

    def _changes(self) -> list[dict[str, Any]]:
        try:
            return self._variables.changes()
        except Exception:  # a thread of the program changed something while we looked at it
            return []

    def _step(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
        outcome = attempt(self._interrupts, call, *arguments)
        self._stage.settle()
        if _getpid() != self._pid:
            self._leave(outcome[1])
        try:
            return outcome
        finally:
            del outcome  # its traceback leads back to this frame: in a circle, all that the block held would live on

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
            self._step(_say_farewell, error)
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

    # --- the line -----------------------------------------------------------------------------------------------------

    def _send(self, frame: dict[str, Any]) -> None:
        """Whole or not at all: neither an interrupt nor another thread comes between two parts of a frame."""
        data = memoryview(pack(frame))
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
        """A child has no voice on the line."""
        self._displays.mute()
        for fd in (self._commands, self._answers):
            try:  # noqa: SIM105 - contextlib is not loaded for this
                _close(fd)
            except OSError:
                pass

    def _leave(self, error: BaseException | None) -> None:
        """The end of a child that came back from the block: as a script would end."""
        status = 0
        try:
            kind, code = self._status_of(error)
            if kind == "exit":
                status = (code or 0) & 0xFF
                _say_farewell(error)
            elif error is not None:
                status = 1
                sys.stderr.write(self._tracebacks.describe(error)["traceback"] + "\n")
            self._stage.flush()
        finally:
            _exit(status)


def _exit_code(error: BaseException) -> int:
    code = _code_of(error)
    if code is None:
        return 0
    if issubclass(type(code), int):
        code = int.__index__(code)  # not a method of the program's
        return code if -(1 << 31) <= code < 1 << 31 else -1
    return 1


def _say_farewell(error: BaseException | None) -> None:
    """`sys.exit("words")` says them."""
    code = _code_of(error)
    if code is not None and not issubclass(type(code), int):
        sys.stderr.write(f"{cut(str(code), 10_000)}\n")


_code_of: Callable[[Any], Any] = vars(SystemExit)["code"].__get__


def _take_ourselves_out() -> None:
    """The folder from which we came is not the program's to import from."""
    root = __file__.rsplit("/clicket/", 1)[0]
    sys.path[:] = [entry for entry in sys.path if entry != root]


def _forget_our_modules() -> None:
    for name in [name for name in sys.modules if name.split(".", 1)[0] == "clicket"]:
        del sys.modules[name]


def _put_in_front_of_site(folders: list[str]) -> None:
    at = next((i for i, entry in enumerate(sys.path) if entry.endswith("site-packages")), len(sys.path))
    sys.path[at:at] = folders
