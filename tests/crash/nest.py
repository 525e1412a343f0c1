"""Where children come from: a process that has everything imported, and forks a child for each line it reads.

Starting Python takes longer than all that a child lives for. A forked child is a process like any other, with its own pid,
its own files and its own end; its parent, here, is the one that kills it, so that no pid is ever mistaken for another.

`python -m tests.crash.nest` reads `{"target": "module:function", "given": {…}, "signals": [[seconds, signal], …], "ready": bool}`,
calls the function in a child, sends it the signals, each so many seconds after the one before, and answers with its `Ending`.
`ready`: the first one is counted from the child's own word (`say_ready`), not from its birth. When its input ends, the child
ends, and so does it.
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

__all__ = ["Ending", "Nest", "say_ready"]

_IMPORTED = ("tests.crash.scenes", "clicket.compose", "clicket.stores.redis", "clicket.stores.postgres")
_LINE = "CRASH_TEST_LINE"
_HUNG = 90.0
"""Seconds after which a child that does not end by itself is called hung."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended: killed (`signal`), here by its parent or by itself; or in order, with a code."""

    signal: int
    by_parent: bool = False
    hung: bool = False
    code: int = 0


class Nest:
    """The parent's half: one child at a time. It is bound to no event loop, so that many tests can share it."""

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
        """Its child, if there is one, is killed."""
        self._line.close()
        self._process.wait()

    def tidy(self) -> None:
        """Begin anew if somebody left while a child lived."""
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
        """Let a child live; returns when it is dead."""
        assert not self._busy, "one child at a time"
        self._busy = True
        name = f"{target.__module__}:{target.__name__}"
        order = {"target": name, "given": given, "signals": signals, "ready": ready}
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._line, json.dumps(order).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = await loop.sock_recv(self._line, 4096)
            assert part, "the nest is gone"
            answer += part
        self._busy = False
        return msgspec.json.decode(answer, type=Ending)


def main() -> None:
    for name in _IMPORTED:
        with suppress(ImportError):
            importlib.import_module(name)  # before the fork, not after each
    assert threading.active_count() == 1, "a fork takes one thread along, and the locks of all others"
    while line := sys.stdin.readline():
        order = json.loads(line)
        module, _, name = order["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        ending = _raise(function, order["given"], order["signals"], ready=order["ready"])
        print(json.dumps(msgspec.to_builtins(ending)), flush=True)


def say_ready() -> None:
    """For a child: the time until the first signal begins now."""
    os.write(int(os.environ[_LINE]), b".")


def _raise(function: Callable[[Any], None], given: Any, signals: Sequence[tuple[float, int]], *, ready: bool) -> Ending:
    alive, held_by_child = os.pipe()  # closed by the kernel when the child ends, however it ends
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
    sent = 0
    for seconds, number in [*signals, (_HUNG, signal.SIGKILL)]:
        # Input that ends means that nobody waits for the child any more; an order cannot come while there is one.
        happened = _until_end(alive, seconds)
        if alive in happened:
            break
        sent = signal.SIGKILL if happened else number
        os.kill(pid, sent)
        if sent == signal.SIGKILL:
            break
    _, status = os.waitpid(pid, 0)
    os.close(alive)
    return Ending(
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        by_parent=sent == signal.SIGKILL,
        hung=sent == signal.SIGKILL and not any(number == sent for _, number in signals),
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
    )


def _until_end(alive: int, seconds: float) -> list[Any]:
    """What ended within that time: the child, or our input."""
    give_up_at = time.monotonic() + seconds
    while True:
        happened = select.select([alive, sys.stdin], [], [], max(give_up_at - time.monotonic(), 0.0))[0]
        if alive not in happened or not os.read(alive, 1):
            return happened


if __name__ == "__main__":
    main()
