"""How a contender measures itself. Standard library only: this module is imported into every peer's environment.

These functions alone time both sides of every comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import TypeVar

__all__ = [
    "AT_ONCE",
    "at_once",
    "await_ready",
    "budget",
    "p50_async",
    "p50_sync",
    "per_second",
    "per_second_kept_busy",
    "quick",
    "report",
    "said",
    "scratch",
    "server",
    "versions",
    "worker",
]

T = TypeVar("T")

AT_ONCE = 100
_MICRO = 1_000


def budget(argv: list[str] | None = None) -> argparse.Namespace:
    """The arguments that every contender takes: which variant, and how many seconds for one figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", nargs="?", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    return parser.parse_args(argv)


@contextmanager
def worker(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A child process of this interpreter, while it is needed: `python -m words`. Its processes end with our process group."""
    command = [sys.executable, "-P", "-m", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def await_ready(process: subprocess.Popen[str]) -> None:
    """Until a worker prints "ready". If it exits instead, its reason is the last output on stderr."""
    if said(process) != "ready":
        raise SystemExit(process.wait() or 1)


def said(process: subprocess.Popen[str]) -> str:
    """The next line that a worker prints. If it exits instead, its reason is on stderr."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise SystemExit(process.wait() or 1)
    return line


def quick() -> bool:
    """A trial run that only shows that everything works: sizes that are not given in seconds are small in it."""
    return bool(os.environ.get("BENCH_QUICK"))


def server(variable: str) -> str:
    """The URL of the server that this contender requested."""
    if not os.environ.get(variable):
        raise SystemExit(f"{variable} is not set: start this through benchmarks/run.py, which starts its server")
    return os.environ[variable]


@contextmanager
def scratch() -> Iterator[Path]:
    """A fresh directory on the disk that all contenders share (never a RAM disk by accident)."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_SCRATCH"), ignore_cleanup_errors=True) as name:
        yield Path(name)


async def p50_async(call: Callable[[], Awaitable[object]], *, seconds: float, batch: int = 1) -> float:
    """Microseconds of one call, awaited one at a time: the median. `batch` is for calls shorter than the clock's own cost."""
    for _ in range(20):
        await call()
    samples: list[int] = []
    end = perf_counter() + seconds
    while perf_counter() < end:
        start = perf_counter_ns()
        for _ in range(batch):
            await call()
        samples.append(perf_counter_ns() - start)
    return statistics.median(samples) / batch / _MICRO


def p50_sync(call: Callable[[], object], *, seconds: float, batch: int = 1) -> float:
    """The same for a plain function."""
    for _ in range(20):
        call()
    samples: list[int] = []
    end = perf_counter() + seconds
    while perf_counter() < end:
        start = perf_counter_ns()
        for _ in range(batch):
            call()
        samples.append(perf_counter_ns() - start)
    return statistics.median(samples) / batch / _MICRO


async def per_second(
    call: Callable[[], Awaitable[object]], *, seconds: float, at_once: int = AT_ONCE, batch: int = 1
) -> float:
    """Calls per second with `at_once` callers, each starting its next call when its last one has ended."""
    done = 0

    async def caller(end: float) -> None:
        nonlocal done
        while perf_counter() < end:
            for _ in range(batch):
                await call()
            done += batch

    await asyncio.gather(*(caller(perf_counter() + seconds / 10) for _ in range(at_once)))
    done = 0
    start = perf_counter()
    await asyncio.gather(*(caller(start + seconds) for _ in range(at_once)))
    return done / (perf_counter() - start)


def per_second_kept_busy(
    send: Callable[[], T], wait: Callable[[T], object], *, seconds: float, at_once: int = AT_ONCE
) -> float:
    """The same for a blocking client: `at_once` requests are always open, and it waits for the oldest first."""
    under_way = deque(send() for _ in range(at_once))

    def keep_busy(seconds: float) -> float:
        done, start = 0, perf_counter()
        while perf_counter() < start + seconds:
            wait(under_way.popleft())
            under_way.append(send())
            done += 1
        return done / (perf_counter() - start)

    keep_busy(seconds / 10)
    rate = keep_busy(seconds)
    for sent in under_way:
        wait(sent)
    return rate


async def at_once(call: Callable[[], Awaitable[object]], *, seconds: float, batch: int = 1) -> dict[str, float]:
    """The two figures of every overhead row."""
    return {
        "p50_us": await p50_async(call, seconds=seconds, batch=batch),
        "per_second": await per_second(call, seconds=seconds, batch=batch),
    }


def versions(*packages: str) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def report(figures: dict[str, float], used: dict[str, str]) -> None:
    """The contender's last line: other output on stdout is ignored."""
    servers = json.loads(os.environ.get("BENCH_SERVERS") or "{}")
    told = {"python": sys.version.split()[0], **used, **servers}
    print()
    print(json.dumps({"figures": figures, "versions": told}), flush=True)
