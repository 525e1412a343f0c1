"""History: stages, attempts, events and large results, found by thread, tool, state and time, in pages."""

from __future__ import annotations

import asyncio
import tempfile
import time

from clicket import Runtime, State, tool


@tool(max_result_size=200)
def report(lines: int) -> str:
    """A long text. The model reads the beginning; the store keeps the whole."""
    return "".join(f"line {number}\n" for number in range(lines))


@tool
def half(number: int) -> float:
    """Divide by two."""
    return number / 2


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/calls.db"
        async with Runtime(tools=[report, half], store=store) as rt:
            began = time.time()
            for number in range(5):
                await rt.call("half", {"number": number}, thread="anna")
            await rt.call("half", {"number": "ten"}, thread="ben")
            big = await rt.call("report", {"lines": 10_000}, thread="ben")

            # A cut result: the text that the model reads, and a range of the whole.
            assert big.artifact is not None
            print(f"the model reads {len(big.content)} bytes; the last line says {big.content.splitlines()[-1][:40]}…")
            print("bytes 88,880 on:", (await rt.artifact(big.artifact, 88_880, 88_900)).decode().split())

        # Later, another runtime over the same store.
        async with Runtime(store=store) as rt:
            page = await rt.history(thread="anna", limit=3)
            print("newest of anna:", [record.output for record in page.items])
            page = await rt.history(thread="anna", limit=3, cursor=page.cursor)
            print("and before:", [record.output for record in page.items])

            failed = await rt.history(state=State.FAILED, since=began)
            record = failed.items[0]
            print("failed:", record.tool, record.error)
            print("stages:", {name: stage.outcome for name, stage in record.stages.items()})

            whole = await rt.get(page.items[0].id)
            for event in whole.events:
                print(f"  {event.seq:>2} {event.type:<16} {event.state}")


if __name__ == "__main__":
    asyncio.run(main())
