"""A fork server: a process that has everything imported, and forks a child for each line that it reads.

Starting Python takes longer than a child lives. A forked child is a full process with its own pid, files and exit
status. Only its parent, this server, kills it, so a reused pid is never hit by mistake.

`python -m tests.crash.nest` reads `{"target": "module:function", "given": {…}, "signals": [[seconds, signal], …],
"ready": bool}`, calls the function in a child, sends it the signals, each so many seconds after the one before, and
answers with its `Ending`. `ready`: the first delay starts when the child calls `say_ready`, not at the fork. When its
input ends, it kills the child and exits.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec
from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE

__all__ = ["Ending", "Nest", "say_ready"]

_IMPORTED = ("tests.crash.scenes", "clicket.runtime.compose", "clicket.stores.redis", "clicket.stores.postgres")
_LINE = "CRASH_TEST_LINE"
_HUNG = 2 * PATIENCE
"""Seconds after which a child that does not end by itself is called hung."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended: killed by a `signal` (from its parent or itself), or by an exit code."""

    signal: int
    by_parent: bool = False
    hung: bool = False
    code: int = 0
    sent: tuple[int, ...] = ()
    """The signals that its parent sent."""


class Nest:
    """The client of the fork server: one child at a time. It is bound to no event loop, so many tests can share it."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._line, far = socket.socketpair()
        self._line.setblocking(False)
        self._busy = False
        with far:
            self._process = subprocess.Popen(
                [sys.executable, *forked(*_IMPORTED), "-m", "tests.crash.nest"],
                stdin=far.fileno(),
                stdout=far.fileno(),
                cwd=ROOT,
                env=environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kills its child, if there is one."""
        self._line.close()
        self._process.wait()

    def tidy(self) -> None:
        """Restart the server if a test was cancelled while its child lived."""
        if self._busy:
            self.close()
            self._start()

    async def raise_child(
        self,
        target: Callable[[Any], None],
        given: Mapping[str, Any],
        *,
        signals: Sequence[tuple[float, int]] = (),
        ready: bool = False,
    ) -> Ending:
        """Start a child; returns when it is dead."""
        assert not self._busy, "one child at a time"
        self._busy = True
        name = f"{target.__module__}:{target.__name__}"
        order = {"target": name, "given": given, "signals": signals, "ready": ready}
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._line, json.dumps(order).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = await loop.sock_recv(self._line, 4096)
            assert part, "the fork server has exited"
            answer += part
        self._busy = False
        return msgspec.json.decode(answer, type=Ending)


def main() -> None:
    for name in _IMPORTED:
        with suppress(ImportError):
            importlib.import_module(name)  # before the fork, not after each
    assert threading.active_count() == 1, "a fork copies one thread, and the locks of all others"
    while line := sys.stdin.readline():
        order = json.loads(line)
        module, _, name = order["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        ending = _raise(function, order["given"], order["signals"], ready=order["ready"])
        print(json.dumps(msgspec.to_builtins(ending)), flush=True)


def say_ready() -> None:
    """For a child: the delay of the first signal starts now."""
    os.write(int(os.environ[_LINE]), b".")


def _raise(function: Callable[[Any], None], given: Any, signals: Sequence[tuple[float, int]], *, ready: bool) -> Ending:
    alive, held_by_child = os.pipe()  # the kernel closes it when the child ends, however it ends
    pid = os.fork()
    if pid == 0:
        try:
            os.close(alive)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os.environ[_LINE] = str(held_by_child)
            function(given)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(held_by_child)
    if ready:
        select.select([alive, sys.stdin], [], [], _HUNG)
    sent: list[int] = []
    for seconds, number in [*signals, (_HUNG, signal.SIGKILL)]:
        # End of input means that no test waits for the child any more; no order can arrive while there is a child.
        happened = _until_end(alive, seconds)
        if alive in happened:
            break
        sent.append(signal.SIGKILL if happened else number)
        os.kill(pid, sent[-1])
        if sent[-1] == signal.SIGKILL:
            break
    _, status = os.waitpid(pid, 0)
    os.close(alive)
    return Ending(
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        by_parent=signal.SIGKILL in sent,
        hung=signal.SIGKILL in sent and not any(number == signal.SIGKILL for _, number in signals),
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        sent=tuple(map(int, sent)),
    )


def _until_end(alive: int, seconds: float) -> list[Any]:
    """Which ended within that time: the child, or our input."""
    give_up_at = time.monotonic() + seconds
    while True:
        happened = select.select([alive, sys.stdin], [], [], max(give_up_at - time.monotonic(), 0.0))[0]
        if alive not in happened or not os.read(alive, 1):
            return happened


if __name__ == "__main__":
    main()
