"""Sync functions as tools: they run in worker threads and do not block the event loop. Sync programs can call them, too."""

from __future__ import annotations

import asyncio
import time

import clicket.sync
from clicket import Runtime, tool


@tool
def count_words(text: str) -> int:
    """Count the words of a text."""
    time.sleep(0.2)  # blocks only its worker thread
    return len(text.split())


async def from_async() -> None:
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    async with Runtime(tools=[count_words], store="memory://") as rt:
        beating = asyncio.create_task(heart())
        results = await asyncio.gather(*(rt.call("count_words", {"text": "a b c " * n}) for n in range(1, 5)))
        beating.cancel()
    print("words:", [result.output for result in results])
    print(f"four blocking calls at once; the event loop ran {beats} other steps meanwhile")


def from_sync() -> None:
    with clicket.sync.Runtime(tools=[count_words], store="memory://") as rt:
        result = rt.call("count_words", {"text": "no event loop in sight"})
        print(result.state, result.output)


if __name__ == "__main__":
    asyncio.run(from_async())
    from_sync()
