"""The server of the AI SDK's tests: `python -m tests.browser.ai_sdk_server STORE PORT FOLDER`. Its model types an answer in pieces; at a
`^` it waits until a file of the folder exists, `go-1` at the first one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kit.waiting import file_exists

from clicket import Policy, Runtime, Settings, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse
from clicket.server import Options, serving

_PIECE = 6


class Typist:
    """A message `ask: X` is answered by a call of `pay` first, then by X; any other one by itself."""

    name = "typist"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda piece: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        last = max(place for place, each in enumerate(request.messages) if each.role == "user")
        text = request.messages[last].content
        if text.startswith("ask: ") and last == len(request.messages) - 1:
            tell(Delta("thought", "It costs something."))
            tell(Delta("text", "I ask first."))
            use = ToolUse(id=f"pay_{last}", name="pay", arguments='{"amount": 5}')
            return ChatReply(text="I ask first.", thought="It costs something.", uses=(use,))
        said = text.removeprefix("ask: ").replace("^", "")
        at = 0
        for number, part in enumerate(text.removeprefix("ask: ").split("^")):
            if number:
                await file_exists(self._folder / f"go-{number}")
            for place in range(0, len(part), _PIECE):
                await asyncio.sleep(0.005)
                tell(Delta("text", part[place : place + _PIECE]))
            at += len(part)
        return ChatReply(text=said)


@tool
async def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


async def main(store: str, port: str, folder: str) -> None:
    rt = Runtime([pay], policy=Policy(ask=["pay"], self_approval=True), settings=Settings(store=store))
    agent = ReActAgent(rt, Typist(Path(folder)), name="typist", deltas="stored")
    async with rt, serving(rt, port=int(port), options=Options(stop_timeout=2.0), agents=[agent]) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
