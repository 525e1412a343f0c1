"""kill -9 during a payment. The tool's own check asks the bank whether it was made, and the agent goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

from clicket import DidNotHappen, Happened, Runtime, ToolContext, Unknown, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel
from clicket.tools import CallInDoubt

SCRIPT = [[("pay", {"cents": 250})], "Paid, once."]


class Bank:
    """Another company's system: it keeps its payments in a file, by idempotency key."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def payments(self) -> list[list[str]]:
        return [line.split() for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def pay(self, key: str, cents: int) -> str:
        with self.file.open("a") as file:
            file.write(f"{key} {cents}\n")
        return f"receipt {len(self.payments())}"

    def receipt(self, key: str) -> str | None:
        numbers = [number for number, payment in enumerate(self.payments(), 1) if payment[0] == key]
        return f"receipt {numbers[0]}" if numbers else None


bank = Bank(Path("bank.txt"))


async def was_paid(call: CallInDoubt, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
    """Asks the bank, and changes nothing there."""
    receipt = bank.receipt(call.idempotency_key)
    print(f"check of attempt {call.attempt}: the bank has {receipt}")
    return DidNotHappen() if receipt is None else Happened(receipt)


@tool(reconcile=was_paid)
async def pay(cents: int, ctx: ToolContext) -> str:
    """Must not run twice: it would pay twice."""
    receipt = bank.pay(ctx.idempotency_key, cents)
    if os.environ.get("DOOMED"):
        os.kill(os.getpid(), signal.SIGKILL)  # paid, and no process knows
    return receipt


async def shop(store: str) -> str:
    async with Runtime(tools=[pay], store=store) as rt:
        result = await ReActAgent(rt, ScriptedModel(SCRIPT, position="transcript")).run("Pay 2.50.", thread="ann")
        (payment,) = (await rt.history(tool="pay")).items
        print(f"{payment.state}: {payment.output}, {payment.reconciliation}")
        return result.text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if os.fork() == 0:  # a child process, which is killed after it has paid
            os.environ["DOOMED"] = "yes"
            asyncio.run(shop("sqlite:///calls.db"))
        os.wait()
        print(asyncio.run(shop("sqlite:///calls.db")))
        assert len(bank.payments()) == 1, "it is paid once"
        os.chdir("/")
