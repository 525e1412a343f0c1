"""kill -9 during an agent's turn. Another process finishes the turn without repeating recorded answers or calls."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest
from clicket.testing import ScriptedModel

SCRIPT = [[("book", {"what": "flight"})], [("pack", {"bags": 2})], "Booked and packed."]


@tool
async def book(what: str) -> str:
    """Must not run twice: it would cost twice."""
    log(f"booked a {what}")
    return "booked"


@tool(idempotent=True)
async def pack(bags: int) -> str:
    """May run twice. The first process is killed here."""
    log("packing")
    if os.environ.get("DOOMED"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{bags} bags"


class Paid(ScriptedModel):
    """Logs every request, which a vendor would charge for."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        log("asked the model")
        return await super().chat(request)


def log(text: str) -> None:
    with Path("log.txt").open("a") as file:
        file.write(f"{text}\n")


async def travel(store: str) -> str:
    async with Runtime(tools=[book, pack], store=store) as rt:
        agent = ReActAgent(rt, Paid(SCRIPT, position="transcript"))
        # The same message resumes the interrupted turn; `await agent.resume("ann")` needs no message.
        result = await agent.run("Get me ready.", thread="ann")
        return result.text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if os.fork() == 0:  # a child process, which kills itself
            os.environ["DOOMED"] = "yes"
            asyncio.run(travel("sqlite:///calls.db"))
        os.wait()
        log("(kill -9, and a new process)")
        print(asyncio.run(travel("sqlite:///calls.db")))
        lines = Path("log.txt").read_text().splitlines()
        print(*lines, sep="\n  ")
        assert lines.count("asked the model") == 3, "no answer is paid twice"
        assert lines.count("booked a flight") == 1, "nothing is booked twice"
        os.chdir("/")
