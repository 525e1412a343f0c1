"""Every kind of tool, called from async and from sync code, on the memory store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2

import clicket.sync
from benchmarks import timing
from benchmarks.loopback import serving
from benchmarks.ours.opening import runtime, settings
from benchmarks.ours.tools import TOOLS, rest

_ARGUMENTS = {"a": 1}


def function() -> dict[str, int]:
    return {"a": 1}


async def bare(call: Callable[[], Awaitable[object]], seconds: float) -> dict[str, float]:
    return await timing.at_once(call, seconds=seconds)


async def bare_http(url: str, seconds: float) -> dict[str, float]:
    async with httpx2.AsyncClient() as client:

        async def get() -> Any:
            return (await client.get(f"{url}/item", params={"a": 1})).json()

        return await bare(get, seconds)


async def from_async(tool: Any, name: str, seconds: float) -> dict[str, float]:
    async with runtime("memory", Path(), [tool]) as rt:

        async def call() -> None:
            result = await rt.call(name, _ARGUMENTS, thread="t")
            assert result.success, result.error

        await call()
        return await timing.at_once(call, seconds=seconds)


def from_sync(tool: Any, name: str, seconds: float) -> dict[str, float]:
    with clicket.sync.Runtime(tools=[tool], store="memory://", settings=settings()) as rt:

        def call() -> None:
            result = rt.call(name, _ARGUMENTS, thread="t")
            assert result.success, result.error

        call()
        return {"sync_us": timing.p50_sync(call, seconds=seconds)}


def main() -> None:
    arguments = timing.budget()
    variant, seconds = arguments.variant, arguments.seconds
    if variant == "to-thread":
        figures = asyncio.run(bare(lambda: asyncio.to_thread(function), seconds))
    else:
        with serving() if variant in {"http", "rest"} else nullcontext("") as url:
            if variant == "http":
                figures = asyncio.run(bare_http(url, seconds))
            else:

                def fresh() -> Any:
                    # A tool belongs to the loop that first ran it, so each caller gets its own.
                    return rest(url) if variant == "rest" else TOOLS[variant]()

                name = fresh().name
                figures = asyncio.run(from_async(fresh(), name, seconds)) | from_sync(fresh(), name, seconds)
    timing.report(figures, timing.versions("clicket", "httpx2"))


if __name__ == "__main__":
    main()
