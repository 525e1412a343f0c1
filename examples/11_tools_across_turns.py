"""Which tools a conversation may use now. The hub reads this from the store, so the next process gives the same answer."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from clicket import Policy, Runtime, tool

OUTAGE = [True]


@tool
async def find_flight(to: str) -> str:
    """Find a flight."""
    return f"SK 7 to {to}"


@tool(failure_threshold=2, max_retries=0)
async def find_hotel(city: str) -> str:
    """Find a hotel."""
    if OUTAGE:
        raise ConnectionError("the hotel service does not answer")
    return f"Hotel {city}"


@tool(depends_on={"any": ["find_flight", "find_hotel"]}, tags=["money"])
async def book(what: str, seats: int) -> str:
    """Book what was found."""
    return f"{seats} seats on {what}"


TOOLS = [find_flight, find_hotel, book]


async def first_turn(store: str) -> None:
    async with Runtime(tools=TOOLS, store=store) as rt:
        result = await rt.call("book", {"what": "SK 7", "seats": 2}, thread="chat-1")
        print("too early:", result.error)
        await rt.call("find_flight", {"to": "Rome"}, thread="chat-1")
        for _ in range(2):
            await rt.call("find_hotel", {"city": "Rome"}, thread="chat-1")
        print(await rt.hub("chat-1").prompt())


async def second_turn(store: str) -> None:
    """Later, in another process. Calls that cost money now need approval."""
    async with Runtime(tools=TOOLS, store=store, policy=Policy(ask=["tag:money"])) as rt:
        hub = rt.hub("chat-1")
        assert await hub.available() == ["find_flight", "book"]
        assert await rt.hub("chat-2").available() == ["find_flight", "find_hotel"]  # another conversation

        OUTAGE.clear()
        print("reset:", await hub.reset("find_hotel", by="ann"))
        print((await rt.call("find_hotel", {"city": "Rome"}, thread="chat-1")).output)

        handle = await rt.submit("book", {"what": "SK 7", "seats": 20}, thread="chat-1")
        await rt.approve(handle.id, by="ann", reason="two will do", arguments={"what": "SK 7", "seats": 2})
        print((await handle.result()).output)
        for entry in await rt.audit():
            print("audit:", entry.what, "by", entry.who)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'calls.db'}"
        await first_turn(store)
        await second_turn(store)


if __name__ == "__main__":
    asyncio.run(main())
