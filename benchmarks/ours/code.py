"""The code interpreter with all of its layers.

`session`: a worker in the sandbox, blocks sent to it. `interpreter`: the same through `Interpreter.run`, with parsing, the states
of the machine, variables and files. `warm`: the same in a pool that keeps a spare session ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from benchmarks import sessions, timing
from clicket.interpreter import Interpreter
from clicket.interpreter.session.session import BlockEnd, OutputItem, Session
from clicket.interpreter.setup.session_factory import SessionFactory
from clicket.interpreter.tool.pool import Pool
from clicket.sandbox import Sandbox
from clicket.system.bridge import ThreadPool

GRACE = 0.2
STUBBORN = """
import signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("runs", flush=True)
while True:
    try:
        while True: pass
    except BaseException:
        pass
"""
OUTPUT = """
import os
line = b"%s\\n" % (b"x" * 65_535)
for _ in range({times}):
    os.write(1, line)
"""


async def ended(session: Session) -> tuple[str, BlockEnd]:
    output = ""
    async for item in session.watch():
        if isinstance(item, OutputItem):
            output += item.text
        elif isinstance(item, BlockEnd):
            return output, item
    raise AssertionError("a block without an end")


class Sessions:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def open(self) -> Session:
        return await Session.start(self.sandbox, grace=GRACE)

    async def run(self, session: Session, code: str) -> str:
        session.begin(code, name="<block>", timeout=30)
        said, end = await ended(session)
        assert end.status == "ok", end
        return said

    async def close(self, session: Session) -> None:
        await session.close()


class Interpreters:
    async def open(self) -> Interpreter:
        interpreter = Interpreter(require="full")
        await interpreter.open()
        return interpreter

    async def run(self, interpreter: Interpreter, code: str) -> str:
        result = await interpreter.run(code)
        assert result.ok, result
        interpreter.history.clear()
        return result.stdout

    async def close(self, interpreter: Interpreter) -> None:
        await interpreter.close()


class Pooled:
    """Each session has a new key and is found warm: the benchmark waits for the spare before the clock starts."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._opened = 0

    async def open(self) -> int:
        self._opened += 1
        return self._opened

    async def run(self, key: int, code: str) -> str:
        async with self._pool.lend(key) as pooled:
            result = await pooled.interpreter.run(code)
        assert result.ok, result
        return result.stdout

    async def close(self, key: int) -> None:
        await self._pool.interpreters.pop(key).interpreter.close()
        if self._pool._spare is not None:
            await self._pool._spare


async def endless(session: Session, times: int) -> float:
    """An interrupt of `while True: pass`; the session survives."""

    async def begin() -> None:
        await started(session, "print('runs', flush=True)\nwhile True: pass")

    async def stop() -> None:
        await session.stop("cancel")
        _, end = await ended(session)
        assert end.status == "interrupted", end

    figure = await sessions.interrupts(begin, stop, times)
    assert session.alive
    return figure


async def stubborn(engine: Sessions, times: int) -> float:
    """The time to end a program that ignores all signals and swallows every exception, without its grace period."""
    session: Session

    async def begin() -> None:
        nonlocal session
        session = await engine.open()
        await started(session, STUBBORN)

    async def stop() -> None:
        await session.stop("cancel")
        _, end = await ended(session)
        assert end.status == "killed", end

    try:
        return await sessions.interrupts(begin, stop, times) - sessions.ms(GRACE)
    finally:
        await engine.sandbox.close()


async def started(session: Session, code: str) -> None:
    session.begin(code, name="<block>", timeout=60)
    async for item in session.watch():
        if isinstance(item, OutputItem):
            return


async def flood(sandbox: Sandbox) -> dict[str, float]:
    """1 GB of stdout, all of it read: seconds, the growth of this process's memory, and the longest stall of its loop."""
    times = 1_000 if timing.quick() else 16_000
    session = await Session.start(sandbox, max_output=4 * 1024**3)
    before, highest, latest = sessions.rss(), 0, 0.0

    async def look() -> None:
        nonlocal highest, latest
        while True:
            start = perf_counter()
            await asyncio.sleep(0.002)
            latest = max(latest, perf_counter() - start - 0.002)
            highest = max(highest, sessions.rss())

    looking = asyncio.create_task(look())
    start, size = perf_counter(), 0
    session.begin(OUTPUT.format(times=times), name="<flood>", timeout=120)
    async for item in session.watch():
        if isinstance(item, OutputItem):
            size += len(item.text)
        elif isinstance(item, BlockEnd):
            assert item.status == "ok", item
            assert item.stdout.size == times * 65_536, item.stdout.size
    took = perf_counter() - start
    looking.cancel()
    await session.close()
    return {"out_s": took, "out_grown": max(0, highest - before), "out_stall_ms": sessions.ms(latest)}


async def of_sessions(seconds: float) -> dict[str, float]:
    starts, stops, many = sessions.sizes()
    sandbox = Sandbox(require="full")
    engine = Sessions(sandbox)
    figures = {"start_ms": await sessions.first_results(engine, starts)}
    session = await engine.open()
    figures |= await sessions.blocks(engine, session, seconds)
    figures["interrupt_ms"] = await endless(session, stops)
    await engine.close(session)
    figures["memory"] = await sessions.at_rest(engine)
    figures |= await flood(sandbox)
    figures |= await sessions.side_by_side(engine, many)
    await sandbox.close()
    figures["kill_ms"] = await stubborn(Sessions(Sandbox(require="full")), stops)
    return figures


async def of_interpreters(seconds: float) -> dict[str, float]:
    starts, _, many = sessions.sizes()
    engine = Interpreters()
    figures = {"start_ms": await sessions.first_results(engine, starts)}
    interpreter = await engine.open()
    figures |= await sessions.blocks(engine, interpreter, seconds)
    await engine.close(interpreter)
    figures["memory"] = await sessions.at_rest(engine)
    return figures | await sessions.side_by_side(engine, many)


@asynccontextmanager
async def pool() -> AsyncIterator[Pool]:
    starter = SessionFactory(require="full")

    def make(start: Callable[[], Awaitable[Session]], thread_pool: ThreadPool) -> Interpreter:
        return Interpreter(start=start, thread_pool=thread_pool)

    made = Pool(starter, make, warm=True)
    try:
        yield made
    finally:
        await made.close()


async def of_guests() -> dict[str, float]:
    starts, _, _ = sessions.sizes()
    async with pool() as made:
        engine = Pooled(made)
        return {"start_ms": await sessions.first_results(engine, starts)}


async def main() -> None:
    arguments = timing.budget()
    if arguments.variant == "session":
        figures = await of_sessions(arguments.seconds)
    elif arguments.variant == "interpreter":
        figures = await of_interpreters(arguments.seconds)
    else:
        figures = await of_guests()
    timing.report(figures, timing.versions("clicket", "markdown-it-py", "msgspec"))


if __name__ == "__main__":
    asyncio.run(main())
