"""The path of one plain call: every Python function on it, in order, and how many functions, files, SQL statements, transactions
and encodes it takes. With `--crowd`: what a call takes on average while 100 callers make calls. With `--step`: what a step of an
agent takes, the request to the model and one tool call, on average over a turn.

    python scripts/call_path.py [memory|sqlite] [--json|--crowd|--step]

Counts, not times: they are the same on every machine, however busy it is, because the clock is not the machine's. No timer fires
while functions are counted, so no chore that is due every so often adds its own. `tests/test_call_path.py` checks the counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import clicket
from clicket import Runtime, Settings, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage
from clicket.ports import Store, Timer
from clicket.testing import StepClock, with_clock

PACKAGE = Path(clicket.__file__).parent
_WARM, _TRIES = 50, 15
_CALLERS, _CALLS_EACH, _AGAIN = 100, 5, 3
_STEPS, _EARLIER_TURNS = 20, 3
_TICK = 20e-6
"""Seconds between two looks at the clock in a crowd, about what they are on a quiet machine."""


class CallPath:
    """What one call did."""

    def __init__(self) -> None:
        self.functions: list[tuple[str, str]] = []
        """File, below the package, and name of each function, in the order of the calls."""
        self.foreign = 0
        """Functions of other packages: the loop's, mostly."""
        self.callbacks = 0
        """Those of the loop that run a callback, as for each task that goes on."""
        self.encodes = 0
        self.decodes = 0
        self.statements: list[str] = []

    @property
    def files(self) -> list[str]:
        return sorted({file for file, _ in self.functions})

    @property
    def transactions(self) -> int:
        """A write outside of BEGIN and COMMIT is its own transaction."""
        count, inside = 0, False
        for sql in self.statements:
            if sql.startswith("BEGIN"):
                count, inside = count + 1, True
            elif sql.startswith("COMMIT"):
                inside = False
            elif not inside and not sql.startswith(("PRAGMA", "SELECT")):
                count += 1
        return count

    def counts(self) -> dict[str, int]:
        return {
            "functions": len(self.functions),
            "files": len(self.files),
            "foreign functions": self.foreign,
            "encodes": self.encodes,
            "decodes": self.decodes,
            "statements": len(self.statements),
            "transactions": self.transactions,
        }


class _CountedClock(StepClock):
    """Its time passes by a fixed amount each time it is read. Timers never fire: they belong to chores, not to a call."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self._tick = tick
        self._time = 0.0

    def now(self) -> float:
        return 1_700_000_000.0 + self._time

    def monotonic(self) -> float:
        self._time += self._tick
        return self._time

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return _NoTimer()


class _NoTimer:
    def cancel(self) -> None:
        pass


@asynccontextmanager
async def _opened(store: str, *, tick: float = 0.0, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime that decides about time as in every other run. SQLite has a clock of its own, to notice slow disks: it stands still."""
    with patch("clicket.system.uptime", lambda: 0.0):
        async with with_clock(Runtime(tools=[noop], store=store, **options), _CountedClock(tick)) as runtime:
            yield runtime


@tool(name="noop")
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def path_of(store: str) -> CallPath:
    """The path of a single call whose caller waits for it."""
    async with _opened(store) as runtime:
        for _ in range(_WARM):
            await runtime.call("noop", {"a": 1}, thread="t")
        runtime.engine.share.over_at = float("inf")  # a call that yields to the loop runs other tasks' functions, too
        paths = []
        for _ in range(_TRIES):  # sometimes a call opens a new row of figures, or a chore of the store runs in between
            path = CallPath()
            with _sql_of(runtime.store, path), _functions_of(path):
                await runtime.call("noop", {"a": 1}, thread="t")
            paths.append(path)
        return min(paths, key=lambda path: (len(path.functions) + path.foreign, len(path.statements)))


async def crowd_of(store: str) -> dict[str, float]:
    """What one call takes, on average, while many callers make calls."""
    async with _opened(store, tick=_TICK, settings=Settings(max_concurrency=_CALLERS)) as runtime:

        async def caller() -> None:
            for _ in range(_CALLS_EACH):
                await runtime.call("noop", {"a": 1}, thread="t")

        async def crowd() -> None:
            await asyncio.gather(*(caller() for _ in range(_CALLERS)))

        await crowd()
        tries = []
        for _ in range(_AGAIN):  # the store may write its log back in between
            path, prepared = CallPath(), _prepared(runtime.store)
            with _functions_of(path):
                await crowd()
            prepared = _prepared(runtime.store) - prepared
            with _sql_of(runtime.store, path):
                await crowd()
            tries.append(
                {
                    "functions": len(path.functions),
                    "foreign functions": path.foreign,
                    "callbacks of the loop": path.callbacks,
                    "transactions": path.transactions,
                    "prepared statements": prepared,
                }
            )
    calls = _CALLERS * _CALLS_EACH
    return {what: min(counts[what] for counts in tries) / calls for what in tries[0]}


class _OneCallAStep:
    """A model that asks for one tool call in each reply, and answers in the last."""

    name = "one-call-a-step"

    async def chat(self, request: ChatRequest) -> ChatReply:
        step = sum(message.role == "assistant" for message in request.messages) % _STEPS
        uses = () if step == _STEPS - 1 else (ToolUse(id=f"c{step}", name="noop", arguments=f'{{"a": {step}}}'),)
        return ChatReply(text="" if uses else "done", uses=uses, usage=Usage(input_tokens=1, output_tokens=1))


async def step_of(store: str) -> dict[str, float]:
    """What one step of an agent takes, on average over the steps of a turn in a thread that has some others."""
    async with _opened(store) as runtime:
        runtime.engine.share.over_at = float("inf")
        agent = ReActAgent(runtime, _OneCallAStep(), name="counted")
        for _ in range(_EARLIER_TURNS):
            await agent.run("go", thread="t")
        tries = []
        for _ in range(_AGAIN):  # the ledger or a chore may write in between
            path = CallPath()
            with _functions_of(path):
                await agent.run("go", thread="t")
            with _sql_of(runtime.store, path):
                assert (await agent.run("go", thread="t")).steps == _STEPS
            tries.append(path.counts())
    counted = ("functions", "encodes", "decodes", "statements", "transactions")
    return {what: min(counts[what] for counts in tries) / _STEPS for what in counted}


def _prepared(store: Store) -> int:
    """How often SQLite has prepared a statement."""
    writer = getattr(store, "_writer", None)
    return 0 if writer is None else int(writer.connection.cache_stats()["misses"])


@contextmanager
def _functions_of(path: CallPath) -> Iterator[None]:
    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(PACKAGE):
                path.functions.append((str(file.relative_to(PACKAGE)), frame.f_code.co_qualname))
            elif file != Path(__file__) and file.suffix == ".py":
                path.foreign += 1
                path.callbacks += frame.f_code.co_qualname == "Handle._run"
        elif event == "c_call" and type(getattr(argument, "__self__", None)).__module__ == "msgspec.json":
            path.encodes += argument.__name__ == "encode"
            path.decodes += argument.__name__ == "decode"

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def _sql_of(store: Store, path: CallPath) -> Iterator[None]:
    """SQLite's trace of executed statements, on every connection that a call may use."""
    writer = getattr(store, "_writer", None)
    if writer is None:
        yield
        return
    connections = [writer.connection, store._peek]  # type: ignore[attr-defined]  # SQLite's

    def trace(_: Any, sql: str, __: Any) -> bool:
        path.statements.append(" ".join(sql.split()))
        return True

    for connection in connections:
        connection.exec_trace = trace
    try:
        yield
    finally:
        for connection in connections:
            connection.exec_trace = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", default="memory", choices=["memory", "sqlite"])
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    parser.add_argument("--crowd", action="store_true", help="the counts for a call, on average, with many callers")
    parser.add_argument("--step", action="store_true", help="the counts for a step of an agent, on average over a turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = "memory://" if options.store == "memory" else f"sqlite:///{folder}/calls.db"
        if options.crowd or options.step:
            averages = asyncio.run(crowd_of(store) if options.crowd else step_of(store))
            print(", ".join(f"{count:.2f} {what}" for what, count in averages.items()))
            return
        path = asyncio.run(path_of(store))
    if options.json:
        print(json.dumps({**path.counts(), "path": path.functions, "sql": path.statements}, indent=1))
        return
    for number, (file, name) in enumerate(path.functions, start=1):
        print(f"{number:3}  {file:32} {name}")
    for sql in path.statements:
        print(f"     {sql[:110]}")
    print(", ".join(f"{count} {what}" for what, count in path.counts().items()))


if __name__ == "__main__":
    main()
