"""What does a sync tool cost against an async one, for each kind of tool, and for async and sync callers?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question

__all__ = ["QUESTION"]

_ROWS = (
    ("to-thread", "no clicket: asyncio.to_thread of a function"),
    ("http", "no clicket: httpx2 GET, loopback"),
    ("function-async", "function tool, async"),
    ("function-sync", "function tool, sync (worker thread)"),
    ("native-async", "NativeTool, async run"),
    ("native-sync", "NativeTool, sync run (worker thread)"),
    ("both", "tool with run and run_sync"),
    ("rest", "RestTool, loopback"),
    ("process-async", "process isolation, async function"),
    ("process-sync", "process isolation, sync function"),
)

QUESTION = Question(
    name="sync_async",
    title="Sync and async, each kind of tool",
    about=(
        "Memory store. Sync bodies run in a worker thread, and the hop there and back is in the figure; they are never run "
        "on the loop. A sync caller uses clicket.sync, which hands each call to a loop in a thread of its own and waits. "
        "Process isolation runs the body in a warm child process. The REST server is a process of its own on loopback."
    ),
    contenders=tuple(
        Contender(name=name, title=title, environment="clicket", module="benchmarks.ours.kinds", variant=name)
        for name, title in _ROWS
    ),
    columns=(
        Column(figure="p50_us", title="async caller, p50", show=show.micro),
        Column(figure="sync_us", title="sync caller, p50", show=show.micro),
        Column(figure="per_second", title="100 async callers", show=show.per_second),
    ),
    max_rounds=3,
)
