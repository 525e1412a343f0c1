"""Shared by the tests of `processes`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE

from clicket.engine.executors.processes.pool import Target, ToolProcess, target_of
from clicket.tools.context import STREAMED

__all__ = ["CONTEXT", "Listener", "all_gone", "run", "running", "start_script"]

CONTEXT: dict[str, Any] = {
    "call_id": "c1",
    "tool": "t",
    "thread": "t1",
    "attempt": 2,
    "idempotency_key": "k1",
    "metadata": {"who": "me"},
}


class Listener:
    """Collects a job's messages, and can be awaited."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.started = 0
        self.first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self.started += 1

    def message(self, kind: str, data: Any) -> None:
        self.heard.append((kind, data))
        if not self.first.done():
            self.first.set_result(data)


async def run(worker: ToolProcess, what: Any, listener: Listener | None = None, /, **arguments: Any) -> Any:
    listener = listener or Listener()
    output = await worker.run(
        target_of(what) if not isinstance(what, Target) else what,
        json.dumps(arguments).encode(),
        context={**CONTEXT, "time_left": 30.0},
        started=listener.start,
        message=listener.message,
    )
    return STREAMED if output is None else json.loads(output)


@contextlib.asynccontextmanager
async def running(worker: ToolProcess, what: Any, **arguments: Any) -> AsyncIterator[tuple[Any, asyncio.Task[Any]]]:
    """A job that has sent its first message (most send their pids), and its task."""
    listener = Listener()
    task = asyncio.create_task(run(worker, what, listener, **arguments))
    await asyncio.wait({task, listener.first}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.result()
    try:
        yield listener.first.result(), task
    finally:
        task.cancel()
        await asyncio.wait({task})


def all_gone(pids: Iterable[int], within: float = PATIENCE) -> bool:
    """Wait for processes to disappear; only a failing test waits for all of it."""
    left = set(pids)
    give_up_at = time.monotonic() + within
    while left and time.monotonic() < give_up_at:
        left = {pid for pid in left if is_running(pid)}
        time.sleep(0.005)
    return not left


def start_script(tmp_path: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
