"""A reader in another process gets an answer while it is written, and one that comes back continues in the middle of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable

from clicket import Runtime
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, Delta

TEXT = "An answer that takes a second, word by word, is worth reading before its end."


class Typist:
    """Stands for a model that takes its time."""

    name = "typist"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return ChatReply(text=TEXT)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        for word in TEXT.split(" "):
            await asyncio.sleep(0.07)
            tell(Delta("text", word if word == "An" else f" {word}"))
        return ChatReply(text=TEXT)


async def read(agent: ReActAgent, most: int, after: str = "") -> tuple[str, str]:
    """Up to so many pieces; the text, and the id from which to read on."""
    text, pieces = "", 0
    async for event in agent.events("ann", after=after):
        after = event.id or after
        if event.type == "delta":
            text, pieces = text + event.data["text"], pieces + 1
            print(f"  {event.id:<12} {event.data['text']!r}")
        elif event.type == "message" and event.data["role"] == "assistant":
            return event.data["text"], after
        if pieces == most:
            break
    return text, after


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/calls.db"
        async with Runtime(store=store) as one, Runtime(store=store) as two:  # as two processes would have it
            writer, reader = (ReActAgent(rt, Typist(), deltas="stored") for rt in (one, two))
            await writer.begin("Is it?", thread="ann")
            _, last = await read(reader, most=1)
            print(f"it left, and comes back after {last}:")
            print("on record:", (await read(reader, most=100, after=last))[0])


if __name__ == "__main__":
    asyncio.run(main())
