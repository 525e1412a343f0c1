"""Yesterday's turn is replayed with another model: no tool runs, and the checks say what changed."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.evals import calls_in_order, cases_of, evaluate, markdown, no_call, text_contains
from clicket.testing import ScriptedModel

paid: list[int] = []


@tool
async def pay(order: int) -> str:
    """Pays an order."""
    paid.append(order)
    return f"Order {order} is paid."


def model(*answers: object) -> ScriptedModel:
    return ScriptedModel(answers, position="transcript")


async def main() -> None:
    async with Runtime(tools=[pay], store="memory://") as rt:
        shop = ReActAgent(rt, model([("pay", {"order": 7})], "I paid order 7."))
        await shop.run("Pay order 7.", thread="yesterday")

        report = await evaluate(
            await cases_of(rt),
            {
                "same": lambda rt: ReActAgent(rt, model([("pay", {"order": 7})], "Order 7 is paid.")),
                "wrong": lambda rt: ReActAgent(rt, model([("pay", {"order": 77})], "I could not pay.")),
            },
            [calls_in_order(), text_contains("paid"), no_call("refund")],
            tools=[pay],
        )
        print(markdown(report))
        assert [trial.agent for trial in report.failed] == ["wrong"]
        assert paid == [7], "a replay has no effect"


if __name__ == "__main__":
    asyncio.run(main())
