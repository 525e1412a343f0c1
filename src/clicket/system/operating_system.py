"""What clicket takes from the operating system: time, randomness, threads. No other module of the core asks for them.

So one value replaces them all (`use`): a simulation runs the whole product on time, ids and threads of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from clicket.errors import UsageError

__all__ = [
    "Done",
    "Process",
    "System",
    "Threads",
    "current",
    "monotonic",
    "now",
    "random_bytes",
    "random_generator",
    "random_hex",
    "random_text",
    "uptime",
    "use",
]

Done = Callable[[Any, BaseException | None], None]
_DIGIT_BYTES = 10
_DIGIT_BATCH = 200
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Process(NamedTuple):
    """This process, as other processes can tell it apart."""

    host: str
    """This machine as far as pids are concerned: containers may share a name and not see each other's processes."""
    boot: str
    """The boot of the machine that `uptime` counts from; empty if that is not known."""
    pid: int


class Threads(Protocol):
    """A few threads that run blocking functions and report to the loop that submitted them."""

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        """Run `function` in a thread; `done(value, error)` is called on this loop when it has returned."""
        ...

    def close(self, patience: float) -> None:
        """End the idle threads. A thread that is stuck in a function is left alone; it ends with its function or the process."""
        ...


class System:
    """The real one. Its clocks are the C functions themselves: a call reads them several times."""

    def __init__(self) -> None:
        self.digits: list[str] = []
        """Random digits for ids, each 80 bits, fetched in batches: a system call per id would cost more than the rest of the id."""
        os.register_at_fork(after_in_child=self.digits.clear)  # or parent and child would make the same ids

    now: Callable[[], float] = staticmethod(time.time)
    """Seconds since the epoch."""
    monotonic: Callable[[], float] = staticmethod(time.perf_counter)
    """Seconds that never jump, for measuring inside this process."""
    random_bytes: Callable[[int], bytes] = staticmethod(os.urandom)

    uptime: Callable[[], float] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    """Seconds since this machine started, the same for all its processes. It counts sleep, and no change of the date moves it."""

    def more_digits(self) -> str:
        """When `digits` is empty: it has some again, and one is returned."""
        first, *rest = self.random_bytes(_DIGIT_BYTES * _DIGIT_BATCH).hex(" ", _DIGIT_BYTES).split()
        self.digits.extend(rest)
        return first

    def process(self) -> Process:
        return Process(_host(), _boot(), os.getpid())

    def threads(self, size: int, name: str) -> Threads:
        return _DaemonThreads(size, name)

    def repeat(self, function: Callable[[], bool], every: float, name: str) -> Callable[[], None]:
        """Call `function` every this many seconds, in a thread of its own, until it returns False. The returned function ends that."""
        return _Repeating(function, every, name).close


_system = System()


def current() -> System:
    return _system


def use(system: System) -> System:
    """Take everything from `system` from now on; returns the one before."""
    global _system
    before, _system = _system, system
    return before


def now() -> float:
    """Seconds since the epoch. The engine and its parts have a `Clock` of their own, and ask that."""
    return _system.now()


def monotonic() -> float:
    return _system.monotonic()


def uptime() -> float:
    return _system.uptime()


def random_bytes(count: int) -> bytes:
    """Good enough for secrets."""
    return _system.random_bytes(count)


def random_hex(count: int) -> str:
    """So many random bytes as hexadecimal digits, good enough for secrets."""
    return _system.random_bytes(count).hex()


def random_text(count: int) -> str:
    """So many random bytes as text for a URL, good enough for secrets."""
    return urlsafe_b64encode(_system.random_bytes(count)).rstrip(b"=").decode()


def random_generator() -> random.Random:
    """For jitter, not for secrets."""
    return random.Random(_system.random_bytes(8))


class _DaemonThreads:
    """Python cannot end a thread, so a stuck one must never keep the process from exiting."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[tuple[asyncio.AbstractEventLoop, Callable[[], Any], Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        with self._lock:
            if self._closed:
                raise UsageError("the worker threads are closed")
            if self._idle == 0 and len(self._threads) < self._size:
                self._start_thread()
            else:
                self._idle -= 1
        self._jobs.put((asyncio.get_running_loop(), function, done))

    def close(self, patience: float) -> None:
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join(patience if self._idle >= 0 else 0)

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, function, done = job
            value: Any = None
            error: BaseException | None = None
            try:
                value = function()
            except BaseException as raised:
                error = raised
            with self._lock:
                self._idle += 1
            # The loop may be closed by now; then nothing waits for the value.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done, value, error)
            job = value = error = None  # an idle thread must not keep results alive
            del loop, function, done


class _Repeating:
    def __init__(self, function: Callable[[], bool], every: float, name: str) -> None:
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._repeat, args=(function, every), name=name, daemon=True)
        self._thread.start()

    def _repeat(self, function: Callable[[], bool], every: float) -> None:
        while not self._closed.wait(every) and function():
            pass

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=1.0)  # it wakes at once


@cache
def _host() -> str:
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


@cache
def _boot() -> str:
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""
