"""Each caller acts with its own account: a call waits until its caller's credential is there, and gets no other one."""

from __future__ import annotations

import asyncio

from clicket import Runtime, ToolContext, tool

ACCOUNTS = {"ghp_0123456789abcdefANN1": "ann", "ghp_0123456789abcdefBOB2": "bob"}
"""Stands for a service that knows people by their tokens."""


@tool(credentials=["github"], cache=60, read_only=True)
async def whoami(ctx: ToolContext) -> dict[str, str]:
    """Asks the service whose token this is."""
    token = ctx.credential("github")
    return {"account": ACCOUNTS[token], "used": token}


async def main() -> None:
    async with Runtime(tools=[whoami], store="memory://") as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        await bob.credentials.put("github", "ghp_0123456789abcdefBOB2")

        waiting = await ann.submit("whoami", id="first")
        async for event in waiting.events():
            if event.data.get("waiting_for") == "credential":
                print(f"ann's call: {event.data['text']}")
                print(f"bob's call: {(await bob.call('whoami')).output}")
                await ann.credentials.put("github", "ghp_0123456789abcdefANN1")
        result = await waiting.result()
        print(f"ann's call: {result.output}")
        assert result.output == {"account": "ann", "used": "[secret]"}

        await ann.credentials.revoke("github")
        next_one = await ann.submit("whoami", id="second")
        assert (await ann.get("second")).waiting_for == "credential"
        print("revoked: the next call waits")
        await next_one.cancel()
        for credential in await rt.credentials.list():
            print(credential.caller, credential.provider, credential.status)


asyncio.run(main())
