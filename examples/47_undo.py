"""An agent books a flight and a hotel, and then fails: both are taken back, the last one first. A person can do the same later."""

from __future__ import annotations

import asyncio

from clicket import Record, Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

booked: list[str] = []


async def cancel_booking(call: Record, ctx: ToolContext) -> str:
    """Gets the record of the call that is undone. `ctx.idempotency_key` is that of the undo."""
    booked.remove(call.output["booking"])
    print(f"cancelled {call.output['booking']}")
    return "cancelled"


@tool(undo=cancel_booking)
async def book(what: str) -> dict[str, str]:
    booked.append(what)
    return {"booking": what}


@tool
async def send_mail(text: str) -> str:
    """Nothing takes a mail back: the report says so."""
    return "sent"


async def main() -> None:
    failing = [[("book", {"what": "flight"})], [("book", {"what": "hotel"})], RuntimeError("the model is gone")]
    good = [[("book", {"what": "train"}), ("send_mail", {"text": "see you"})], "Booked.", "I see, it was cancelled."]
    async with Runtime(tools=[book, send_mail], store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel([*failing, *good]), name="trips", undo_on="failed")
        try:
            await agent.run("Book a trip.", thread="ann")
        except RuntimeError as error:
            print(f"the turn failed: {error}; booked: {booked}")
        print((await agent.run("Then by train.", thread="ann")).text, booked)

        for call in (await rt.undo(thread="ann", turn=2, dry=True)).waiting:
            print(f"would undo {call.tool} {call.id}")
        report = await rt.undo(thread="ann", turn=2)
        print([call.tool for call in report.undone], [call.reason for call in report.impossible])
        again = await rt.undo(thread="ann", turn=2)
        assert again == report, "once, whoever asks again"
        print((await agent.run("Well?", thread="ann")).text)  # the model has read that the booking was undone


if __name__ == "__main__":
    asyncio.run(main())
