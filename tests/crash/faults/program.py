"""A runtime in its own process that reads requests as JSON lines. Faults may hit the tools that it runs.

`python -m tests.crash.faults.program SETTINGS`; a line in is `{"n": 1, "do": "submit", ...}`, the line out for it
`{"n": 1, "value": ...}` or `{"n": 1, "error": {"type": ..., "code": ..., "message": ...}}`. Several may be under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import resource
import sys
import time
from typing import Any

import msgspec
from tests.scenarios.kit import Lag, measured_lag

from clicket import Policy, RetryableError, Runtime, Settings, ToolContext, tool

gates: dict[str, asyncio.Event] = {}
runs: dict[str, list[float]] = {}
"""When each call's body was entered, on the monotonic clock."""


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


def entered(ctx: ToolContext) -> None:
    runs.setdefault(ctx.call_id, []).append(time.monotonic())


@tool
async def echo(text: str, ctx: ToolContext) -> str:
    entered(ctx)
    return text


@tool(timeout=600)
async def held(ctx: ToolContext, size: int = 10) -> str:
    """Returns when its gate, named like the call, is opened."""
    entered(ctx)
    await gate(ctx.call_id).wait()
    return "x" * size


@tool(timeout=600)
async def talking(ctx: ToolContext) -> str:
    """Emits until its gate is opened."""
    entered(ctx)
    for n in range(10_000):
        ctx.emit(f"{n} ")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gate(ctx.call_id).wait(), 0.01)
            return "done"
    return "too long"


@tool(timeout=600, idempotent=True)
async def again(ctx: ToolContext) -> str:
    """Like `held`, and may be repeated."""
    entered(ctx)
    await gate(ctx.call_id).wait()
    return "x"


@tool
async def asked(ctx: ToolContext) -> str:
    entered(ctx)
    return "approved"


@tool(idle_timeout=1.5, timeout=600)
async def silent(ctx: ToolContext) -> str:
    entered(ctx)
    await gate(ctx.call_id).wait()
    return "not reached"


@tool(max_retries=1)
async def flaky(ctx: ToolContext, wait: float = 1.5) -> int:
    entered(ctx)
    if ctx.attempt == 1:
        raise RetryableError("once more", retry_after=wait)
    return ctx.attempt


@tool(max_result_size=1_000)
async def big(size: int, ctx: ToolContext) -> str:
    entered(ctx)
    return (
        random.Random(ctx.call_id).randbytes(size // 2).hex()
    )  # a name, and so a folder, of the artifact that a test can rely on


@tool(isolation="process", timeout=1.5)
def apart(ctx: ToolContext) -> str:
    time.sleep(600)
    return "not reached"


@tool(isolation="thread", timeout=1.5)
def threaded(ctx: ToolContext) -> str:
    """A thread cannot be stopped: this one returns by itself, after its call has ended."""
    time.sleep(2.0)
    return "too late"


@tool(max_result_size=1_000)
async def same(size: int) -> str:
    """As big, and the same every time."""
    return "ab" * (size // 2)


TOOLS = [echo, held, talking, again, asked, silent, flaky, big, apart, threaded, same]


class Program:
    """`do_NAME` for each request."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._lag = Lag()
        self._spare: list[int] = []
        self.done = asyncio.Event()

    async def watch_lag(self) -> None:
        async with measured_lag(0.005) as self._lag:
            await asyncio.Event().wait()

    async def do_submit(self, tool: str, arguments: Any = None, **options: Any) -> str:
        return (await self._rt.submit(tool, arguments, **options)).id

    async def do_call(self, tool: str, arguments: Any = None, **options: Any) -> Any:
        return msgspec.to_builtins(await self._rt.call(tool, arguments, **options))

    async def do_result(self, id: str) -> Any:
        return msgspec.to_builtins(await (await self._rt.handle(id)).result())

    async def do_timed(self, tool: str, arguments: Any = None, **options: Any) -> Any:
        """Run a call; returns its result and the seconds that passed."""
        begun = time.monotonic()
        result = await self._rt.call(tool, arguments, **options)
        return {"result": msgspec.to_builtins(result), "took": time.monotonic() - begun}

    async def do_get(self, id: str) -> Any:
        return msgspec.to_builtins(await self._rt.get(id))

    async def do_state(self, id: str) -> str:
        return (await self._rt.state(id)).value

    async def do_history(self, **query: Any) -> Any:
        page = await self._rt.history(**{"limit": 1_000, **query})
        return [msgspec.to_builtins(record) for record in page.items]

    async def do_cancel(self, id: str) -> bool:
        return await self._rt.cancel(id)

    async def do_approve(self, id: str) -> bool:
        return await self._rt.approve(id)

    async def do_artifact(self, name: str) -> Any:
        data = await self._rt.artifact(name)
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    async def do_recover(self) -> int:
        return (await self._rt.recover()).total

    async def do_release(self, id: str) -> None:
        gate(id).set()

    async def do_runs(self, id: str) -> list[float]:
        return runs.get(id, [])

    async def do_lag(self) -> float:
        """The longest time that the event loop was blocked since the last request."""
        worst, self._lag.worst = self._lag.worst, 0.0
        return worst

    async def do_clocks(self) -> dict[str, float]:
        return {"date": time.time(), "monotonic": time.monotonic()}

    async def do_spend_descriptors(self) -> int:
        """Open every file descriptor that this process may have; returns how many."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        with contextlib.suppress(OSError):
            while True:
                self._spare.append(os.open("/dev/null", os.O_RDONLY))
        return len(self._spare)

    async def do_return_descriptors(self) -> None:
        while self._spare:
            os.close(self._spare.pop())

    async def do_open_another(self, store: str) -> int:
        """Open a second runtime over a store; returns how many calls it sees."""
        async with Runtime([], settings=Settings(store=store, cancel_grace=0.1)) as other:
            return len((await other.history(limit=1_000)).items)

    async def do_unsaved(self) -> int:
        return self._rt.activity().unsaved

    async def do_close(self) -> None:
        self.done.set()


async def serve(given: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    policy = Policy(ask=["asked"], approval_timeout=given.pop("approval_timeout", 600.0))
    patience = given.pop("patience", None)
    try:
        rt = await Runtime(TOOLS, policy=policy, settings=Settings(**given)).open()
    except Exception as error:
        answer(0, error=error)
        return
    if patience is not None:
        rt.engine.journal.patience = patience
    program = Program(rt)
    answer(0, "open")
    tasks = [asyncio.create_task(program.watch_lag()), asyncio.create_task(take(program, lines))]
    await program.done.wait()
    try:
        await rt.close()
        answer(-1, "closed")
    except Exception as error:
        answer(-1, error=error)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def take(program: Program, lines: asyncio.StreamReader) -> None:
    async with asyncio.TaskGroup() as group:
        while line := await lines.readline():
            group.create_task(do(program, json.loads(line)))
    program.done.set()  # the parent has closed the pipe


async def do(program: Program, line: dict[str, Any]) -> None:
    n = line.pop("n")
    try:
        answer(n, await getattr(program, f"do_{line.pop('do')}")(**line))
    except Exception as error:
        answer(n, error=error)


def answer(n: int, value: Any = None, error: Exception | None = None) -> None:
    out: dict[str, Any] = {"n": n, "value": value}
    if error is not None:
        code = getattr(error, "code", None)
        out = {"n": n, "error": {"type": type(error).__name__, "code": code, "message": str(error)}}
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
