"""Load for a disk that will lose power: calls from many callers, with a log of every acknowledgement and effect.

`python -m tests.crash.faults.load SETTINGS ACKS ROUNDS CALLS`: opens a runtime ROUNDS times, makes CALLS calls each time, and
appends a line to ACKS for everything that a caller has seen, at the moment when the caller sees it:

    submitted ID        submit has returned
    refused ID          the runtime refused the call
    effect ID           the tool's body has been entered
    ended ID STATE OUTPUT [ARTIFACT]

With "beside" in SETTINGS a second runtime works on the same store in process mode; its calls are not logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from typing import Any

from clicket import Runtime, Settings, StoreUnavailable, ToolContext, ToolResult, tool
from clicket.stores.sqlite import writer

acks = -1


def log(*fields: object) -> None:
    os.write(acks, (" ".join(map(str, fields)) + "\n").encode())


@tool
async def pay(amount: int, ctx: ToolContext) -> str:
    """Must not happen twice."""
    log("effect", ctx.call_id)
    await asyncio.sleep(0.0005 * (amount % 3))
    return f"paid-{ctx.call_id}"


@tool(read_only=True)
async def look(amount: int, ctx: ToolContext) -> str:
    log("effect", ctx.call_id)
    return f"seen-{ctx.call_id}"


@tool(max_result_size=500)
async def report(amount: int, ctx: ToolContext) -> str:
    """Too big for the journal: kept as an artifact."""
    log("effect", ctx.call_id)
    return f"report-{ctx.call_id} " + random.Random(ctx.call_id).randbytes(600 + 40 * (amount % 50)).hex()


@tool
async def talk(amount: int, ctx: ToolContext) -> str:
    log("effect", ctx.call_id)
    for n in range(3):
        ctx.emit(f"{n} of {ctx.call_id}")
        await asyncio.sleep(0)
    return f"said-{ctx.call_id}"


@tool
async def idle(amount: int) -> int:
    return amount


TOOLS = [pay, look, report, talk]


def ended(result: ToolResult) -> None:
    fields = result.content.split()
    log("ended", result.call_id, result.state.value, fields[0] if fields else "-", result.artifact or "")


async def one(rt: Runtime, id: str, chance: random.Random) -> None:
    name = chance.choices([tool.name for tool in TOOLS], [5, 3, 2, 2])[0]
    amount = chance.randrange(1_000)
    try:
        if chance.random() < 0.5:
            handle = await rt.submit(name, {"amount": amount}, id=id, thread=f"t{amount % 4}")
            log("submitted", id)
            ended(await handle.result())
        else:
            ended(await rt.call(name, {"amount": amount}, id=id, thread=f"t{amount % 4}"))
    except StoreUnavailable:
        log("refused", id)


async def opened(given: dict[str, Any]) -> Runtime:
    """A runtime, also over a disk that fails now and then: opening is retried."""
    for _ in range(20):
        with contextlib.suppress(StoreUnavailable):
            return await Runtime([*TOOLS, idle], settings=Settings(**given)).open()
    raise AssertionError("the store could not be opened in 20 tries")


async def main(given: dict[str, Any], rounds: int, calls: int) -> None:
    beside = None
    if given.pop("beside", False):
        beside = await opened({**given, "durability": "process"})
    for number in range(rounds):
        rt = await opened(given)
        log("open", number)
        numbers = iter(range(calls))

        async def work(rt: Runtime = rt, number: int = number, numbers: Any = numbers) -> None:
            for n in numbers:
                id = f"c{number}-{n:04}"
                await one(rt, id, random.Random(id))
                if beside is not None:
                    await beside.call("idle", {"amount": n})

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(work())
        log("closing", number)
        await rt.close()
        log("closed", number)
    if beside is not None:
        await beside.close()


if __name__ == "__main__":
    settings, path, rounds, calls = sys.argv[1:]
    writer._CHECKPOINT_PAGES = 20  # small, so that a short run has many checkpoints
    acks = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asyncio.run(main(json.loads(settings), int(rounds), int(calls)))
