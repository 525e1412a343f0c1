"""A dep of a run: a value of this process for its tools, which no model sees and no store keeps. After a crash the turn waits for it.

Run it: python examples/39_deps.py
"""

import asyncio
import tempfile
from typing import Annotated

from clicket import Depends, Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


class Bank:
    """Stands for a connection in the name of one user."""

    def __init__(self, user: str) -> None:
        self.user = user


paying = asyncio.Event()
late = asyncio.Event()


@tool(idempotent=True)
async def pay(cents: int, bank: Annotated[Bank, Depends("bank")]) -> str:
    """Pay a bill."""
    paying.set()
    await late.wait()
    return f"{bank.user} paid {cents} cents"


async def main() -> None:
    print("the model sees:", list(pay.input_schema["properties"]))
    replies = [[("pay", {"cents": 995})], "Paid."]
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/calls.db"
        async with Runtime(tools=[pay], store=store, close_timeout=0) as rt:
            agent = ReActAgent(rt, ScriptedModel(replies))
            await agent.begin("Pay my bill.", thread="t1", deps={"bank": Bank("ann")})
            await paying.wait()
        late.set()  # the first process is gone, in the middle of the call

        async with Runtime(tools=[pay], store=store) as rt:
            agent = ReActAgent(rt, ScriptedModel(replies[1:]))
            await rt.recover()
            while not (waits := (await agent.look("t1")).waiting_for):  # noqa: ASYNC110  # another process would have to tell
                await asyncio.sleep(0.01)
            print("the second process waits for:", waits)
            result = await agent.resume("t1", deps={"bank": Bank("ann, connected again")})
            assert result is not None
            print(result.messages[2].content, "->", result.text)


asyncio.run(main())
