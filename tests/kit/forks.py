"""Python programs that are forked from a process that has everything imported, instead of started.

A command of clicket takes a third of a second to start, one that speaks MCP takes more than one, and nearly all of that is imports. A
test whose point is not the start puts `FORKED` into the command: `[sys.executable, *FORKED, "-m", "clicket", "ps"]`. The process that
it gets is a process like any other: a child of this one with a pid, files, environment, working directory and end of its own, made
through `subprocess` or asyncio. To Python itself the option means nothing: where it cannot be heeded (another system than Linux,
coverage, a setting of the interpreter), or once the test's own children start it, the program starts in the usual way.

`FORKED` imports the command line; `forked("tests.scenarios.fleet_child")` names another program. The worker processes of tools that a
runtime of the test itself starts are forked, too; `started(patch)` starts them as everywhere else.

`python -m tests.kit.forks` is that process. It reads orders from its stdin, which is a socket, together with the child's stdin, stdout
and stderr. For each it forks a process that forks the child and ends: whoever asked, being a subreaper for the moment, becomes the
child's parent.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.kit.children import ROOT, environment

__all__ = ["FORKED", "SERVER", "adopted_pids", "forked", "install", "server_pids", "started", "take_terminal"]

_OPTION = "forked="
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37  # of prctl
_KNOWN = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Settings of the interpreter that a forked one can take over. With any other, the program starts in the usual way."""

_INHERITED = ("LC_ALL", "LC_CTYPE", "LANG")  # likewise, if they differ


def forked(*modules: str) -> tuple[str, str]:
    """What to put after `sys.executable`, with the modules that the program needs beside those of a runtime."""
    runtime = ("clicket.runtime.compose", "clicket.runtime.runtime", "clicket.stores.sqlite", "clicket.tools.pydantic_arguments",
        "pydantic.plugin._loader")  # fmt: skip
    return ("-X", _OPTION + ",".join([*runtime, *modules]))


FORKED = forked(
    "clicket.cli.app", "clicket.cli.call_progress", "clicket.cli.completion", "clicket.cli.errors", "clicket.cli.context",
    "clicket.cli.tool_loader", "clicket.runtime.reader", "email.parser", "rich.json", "rich.table", "typer._adapters",
    "typer._click.decorators",
)  # fmt: skip
SERVER = ("clicket.server.app", "clicket.mcp", "clicket.agents", "clicket.runtime.agent_config", "anyio._backends._asyncio",
    "uvicorn.protocols.http.auto", "uvicorn.lifespan.on", "uvicorn.loops.auto")  # fmt: skip
"""What a server needs."""


WORKER = forked("clicket.engine.executors.retry", "clicket.engine.executors.tracebacks", "clicket.system.frames", "clicket.model.output",
    "clicket.tools.function", "ctypes", "tests.kit.children")  # fmt: skip
"""What a process of tools needs."""

_OF_A_PROCESS = tuple(f"clicket.engine.executors.processes.{name}" for name in ("body", "termination", "job_loop"))
"""Modules that know the pid from their import on: a child imports them anew."""

_HIGH = 512
"""Descriptors from here up are free for what is sent to a child until its own numbers are."""


def take_terminal() -> None:
    """As `preexec_fn` of a process with a session of its own: its stdin becomes its controlling terminal, so that Ctrl-C sends a signal.

    No other `preexec_fn` is forked.
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


_COMMANDS = {
    "chat": ("clicket.cli.chat.agent_runner", "clicket.cli.chat.prompt"),
    "code": ("clicket.interpreter", "clicket.cli.notebook_view"),
    "demo": ("clicket.cli.demo.tour",),
    "mcp": ("clicket.adapters.mcp.stdio", "tests.mcp.toolbox"),
    "serve": SERVER,
}
"""What commands import when they are under way."""
_STORES = {"redis": "clicket.stores.redis", "postgresql": "clicket.stores.postgres"}


class _Server:
    """A process that forks, started when it is first needed; ends with this one. There is one for each LD_PRELOAD."""

    def __init__(self, preload: str) -> None:
        self._preload = preload
        self._line: socket.socket | None = None
        self.pid = 0

    def fork(self, order: dict[str, Any], files: Sequence[int]) -> int:
        with _starting:
            if self._line is None:
                self._start()
            assert self._line is not None
            text = json.dumps(order).encode(errors="surrogateescape")
            before = _own_children()
            with _subreaper():
                socket.send_fds(self._line, [len(text).to_bytes(8, "big")], list(files))
                self._line.sendall(text)
                answer = self._line.recv(8)
            pid = int.from_bytes(answer, "big")
            _adopted.update(_own_children() - before - {pid})
        assert len(answer) == 8, "the process that forks is gone"
        return pid

    def _start(self) -> None:
        self._line, far = socket.socketpair()
        with far:
            env = environment(**({"LD_PRELOAD": self._preload} if self._preload else {}))
            del env["PYTHONPATH"]  # its own sys.path is then that of a program without one
            command = [sys.executable, "-m", "tests.kit.forks"]
            process = subprocess.Popen(command, stdin=far.fileno(), cwd=ROOT, env=env)
        self.pid = process.pid
        atexit.register(self._end, process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert self._line is not None
        self._line.close()
        process.wait()


_servers: dict[str, _Server] = {}
_starting = threading.RLock()
"""One process is started at a time, so that a child which is new meanwhile was adopted."""
_adopted: set[int] = set()
"""Processes whose parent was killed just while this one was a subreaper. Elsewhere they are children of init, which reaps them."""


def server_pids() -> list[int]:
    """Of the processes that fork, which stay."""
    return [server.pid for server in _servers.values()]


def adopted_pids() -> set[int]:
    """Of children that no test has started. Those that have ended are reaped."""
    with _starting:
        for pid in list(_adopted):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    continue
            _adopted.discard(pid)
        return set(_adopted)


def _own_children() -> set[int]:
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended while we looked
            found.update(map(int, listed.read_text().split()))
    return found


def install(patch: Any) -> None:
    """From now on subprocess and asyncio fork the programs that ask for it."""
    if sys.platform.startswith("linux") and not any(name.startswith(("COVERAGE_", "COV_")) for name in os.environ):
        start = subprocess._fork_exec  # type: ignore[attr-defined]  # that of all ways to start a process

        def fork_exec(*given: Any) -> int:
            found = _order(*given)
            if found is None:
                with _starting:
                    started: int = start(*given)
                return started
            preload = found[0]["environment"].get("LD_PRELOAD", "")
            return _servers.setdefault(preload, _Server(preload)).fork(*found)

        patch.setattr(subprocess, "_fork_exec", fork_exec)
        patch.setattr(subprocess, "_args_from_interpreter_flags", lambda: [*WORKER, *_flags()])


def started(patch: Any) -> None:
    """Worker processes of tools are started again, not forked."""
    patch.setattr(subprocess, "_args_from_interpreter_flags", _flags)


_flags = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]  # of which a worker's command is made


def _order(
    args: Sequence[Any], programs: Sequence[bytes], close_fds: bool, keep: Sequence[int], cwd: Any, env: list[bytes] | None,
    stdin: int, _p2cwrite: int, _c2pread: int, stdout: int, _errread: int, stderr: int, _errpipe_read: int, errpipe_write: int,
    _restore_signals: bool, session: bool, group: int, gid: Any, gids: Any, uid: Any, umask: int, before: Any, *_: Any,
) -> tuple[dict[str, Any], list[int]] | None:  # fmt: skip
    """What to fork, and its stdin, stdout and stderr; None for all that is not to be forked."""
    words = [os.fsdecode(arg) for arg in args]
    if len(words) < 4 or words[1] != "-X" or not words[2].startswith(_OPTION):
        return None
    rest = words[3:]
    flags = {rest.pop(0) for flag in ("-B", "-P") if rest[0] == flag}
    kind, (what, *arguments) = (rest[0], rest[1:]) if rest[0] in ("-m", "-c") else ("file", rest)
    passed = sorted(set(keep) - {errpipe_write})
    own = list(programs) == [os.fsencode(sys.executable)] and close_fds and max(passed, default=0) < _HIGH
    if (
        not own
        or what.startswith("-")
        or before not in (None, take_terminal)
        or (gid, gids, uid) != (None, None, None)
        or umask != -1
    ):
        return None
    pairs = [os.fsdecode(pair).partition("=") for pair in env] if env is not None else None
    settings = {name: value for name, _, value in pairs} if pairs is not None else dict(os.environ)
    python = {name for name in settings if name.startswith("PYTHON")}
    other = [name for name in _INHERITED if settings.get(name) not in (None, os.environ.get(name))]
    if other or not python <= set(_KNOWN):
        return None
    order = {
        "modules": [
            *words[2].removeprefix(_OPTION).split(","),
            *_more(what, arguments, settings.get("CLICKET_STORE", "")),
        ],
        "kind": kind,
        "what": what,
        "flags": sorted(flags),
        "passed": passed,
        "arguments": arguments,
        "cwd": os.fsdecode(cwd) if cwd is not None else os.getcwd(),
        "environment": settings,
        "session": session,
        "group": group,
        "terminal": before is take_terminal,
    }
    return order, [*(own if own != -1 else usual for usual, own in enumerate((stdin, stdout, stderr))), *passed]


def _more(what: str, arguments: Sequence[str], store: str) -> Iterator[str]:
    """Modules of this command line."""
    if what == "clicket":
        for name in arguments:
            if (ROOT / "src" / "clicket" / "cli" / "commands" / f"{name}.py").exists():
                yield f"clicket.cli.commands.{name}"
                yield from _COMMANDS.get(name, ())
                break
        if module := _STORES.get(store.partition("://")[0]):
            yield module


@contextmanager
def _subreaper() -> Iterator[None]:
    """A descendant whose parent ends becomes a child of this process."""
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(_GET_SUBREAPER, ctypes.byref(before))
    prctl(_SET_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_SET_SUBREAPER, before.value)


# --- the process that forks ---------------------------------------------------------------------------------------------


def main() -> None:
    """Until whoever started it closes the line or ends."""
    line = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    base = sys.path[1:]
    sys.path[:0] = environment()["PYTHONPATH"].split(os.pathsep)
    while True:
        head, files, _, _ = socket.recv_fds(line, 8, 64)
        if not head:
            return
        text = b""
        while len(text) < int.from_bytes(head, "big"):
            text += line.recv(1 << 20)
        order = json.loads(text)
        _import(order["modules"])
        line.sendall(_fork(order, files, base, line).to_bytes(8, "big"))
        for file in files:
            os.close(file)


def _import(modules: list[str]) -> None:
    new = [name for name in modules if name not in sys.modules]
    for name in new:
        importlib.import_module(name)
    if new:
        if loader := sys.modules.get("pydantic.plugin._loader"):
            loader.get_plugins()  # the first model of a process looks for them in all installed packages: 15 ms
        assert threading.active_count() == 1, "a fork takes one thread along, and the locks of all others"
        gc.collect()
        gc.freeze()


def _fork(order: dict[str, Any], files: list[int], base: list[str], line: socket.socket) -> int:
    """The pid of the child, which by then has its new parent."""
    told, tell = os.pipe()
    go, let_go = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.close(let_go)
            os.close(told)
            os.close(tell)
            os.read(go, 1)
            os.close(go)
            line.close()
            _become(order, files, base)  # never returns
        os.write(tell, child.to_bytes(8, "big"))
        os._exit(0)
    pid = int.from_bytes(os.read(told, 8), "big")
    os.waitpid(between, 0)
    for file in (told, tell, go, let_go):
        os.close(file)  # the end of the last one lets the child go
    return pid


def _become(order: dict[str, Any], files: list[int], base: list[str]) -> None:
    """This process is the program from here on."""
    code = 1
    try:
        held = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH) for file in files]
        os.closerange(3, _HIGH)
        for number, file in zip((0, 1, 2, *order["passed"]), held, strict=True):
            os.dup2(file, number)
        os.closerange(_HIGH, 2 * _HIGH)
        if order["session"]:
            os.setsid()
        if order["group"] >= 0:
            os.setpgid(0, order["group"])
        if order["terminal"]:
            take_terminal()
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).shim_begin()  # tests/crash/faults: where it is loaded, it reads the environment again
        sys.dont_write_bytecode = "-B" in order["flags"] or bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        added = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        first = {"-m": os.getcwd(), "-c": "", "file": os.path.dirname(os.path.abspath(order["what"]))}
        sys.path[:] = [*([] if "-P" in order["flags"] else [first[order["kind"]]]), *added, *base]
        importlib.invalidate_caches()
        sys.path_importer_cache.clear()
        for name in _OF_A_PROCESS:
            sys.modules.pop(name, None)
        sys.argv = [order["what"] if order["kind"] == "file" else order["kind"], *order["arguments"]]
        _open_streams()
        code = _run(order)
        threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does when it ends: waits for threads
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)


def _open_streams() -> None:
    direct = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = open(number, "rb" if number == 0 else "wb", 0 if direct and number else -1, closefd=False)  # noqa: SIM115  # for good
        at_once = number == 2 or os.isatty(number)
        errors = "backslashreplace" if number == 2 else "strict"
        stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=at_once, write_through=direct and number > 0)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(order: dict[str, Any]) -> int:
    """The program's exit code, as the interpreter makes it of what the program raises."""
    try:
        if order["kind"] == "-m":
            sys.modules.pop(
                order["what"] if "." in order["what"] else "", None
            )  # imported before: now it is the program
            runpy.run_module(order["what"], run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = module = ModuleType("__main__")
            name, text = "<string>", order["what"]
            if order["kind"] == "file":
                name, text = os.path.abspath(order["what"]), Path(order["what"]).read_text("utf-8")
                module.__file__ = name
            exec(compile(text, name, "exec"), module.__dict__)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
