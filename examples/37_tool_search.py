"""With 200 tools, a model is offered a few and finds the others by what they do."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

SERVICES = "slack gmail jira github stripe shopify zoom notion dropbox figma".split()
THINGS = "message file user comment task invoice order event label report".split()


def made(service: str, verb: str, thing: str) -> object:
    @tool(name=f"{service}_{verb}_{thing}", description=f"{verb.title()} a {thing} in {service.title()}.")
    async def act(id: str = "") -> str:
        return f"{service}: {verb} {thing} {id}".strip()

    return act


TOOLS = [made(service, verb, thing) for service in SERVICES for verb in ("create", "delete") for thing in THINGS]


async def main() -> None:
    model = ScriptedModel(
        [
            [("find_tools", {"query": "create an invoice in Stripe"})],
            [("stripe_create_invoice", {"id": "i1"})],
            "The invoice is made.",
            "Still here.",
        ]
    )
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        agent = ReActAgent(rt, model, max_offered=8)
        result = await agent.run("Bill Ms. Park, please.", thread="t1")
        print(result.text)
        for number, request in enumerate(model.requests, start=1):
            print(f"step {number} offers {[offer.name for offer in request.tools]}")

        await agent.run("Thanks!", thread="t1")  # what was found stays for the thread
        assert "stripe_create_invoice" in [offer.name for offer in model.requests[-1].tools]

        # What the hub hides is not found: here an operator has taken the tool out of service.
        await rt.hub("t1").set("stripe_create_invoice", "maintenance", "until noon")
        found = await rt.call("find_tools", {"query": "create an invoice in Stripe"}, thread="t1")
        print(f"now found: {found.output['found']}")
        assert "stripe_create_invoice" not in found.output["found"]


if __name__ == "__main__":
    asyncio.run(main())
