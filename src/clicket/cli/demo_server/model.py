"""A chat model that follows fixed rules: it reads the user's message, calls one tool that fits, and tells the result."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, Usage

__all__ = ["DemoModel"]

_PLOT = """```python
import csv
rows = list(csv.DictReader(open("passengers.csv")))
for row in rows:
    print(row["year"], row["ferry_passengers"])
```
```python
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(5, 2.5))
axes.bar([row["year"] for row in rows], [int(row["ferry_passengers"]) for row in rows])
axes.set_title("Ferry passengers")
plt.show()
```"""
_HELP = (
    "I follow fixed rules, so that this demonstration needs no key. Ask me about the **weather** in a city, an exchange **rate**, "
    "a **refund** (it needs your approval), to **crawl** a site, to **plot** the ferry's passengers, or *who* runs the ferry."
)
_RULES: tuple[tuple[str, str, Callable[[str], dict[str, Any]]], ...] = (
    ("weather", "weather", lambda text: {"city": _after(text, "in", "Lisbon")}),
    ("refund", "refund", lambda text: {"order": "A-1009", "amount": _number(text, 80.0), "reason": text[:80]}),
    ("rate|exchange", "exchange_rate", lambda _: {"pair": "EURUSD"}),
    ("crawl|site", "crawl", lambda text: {"url": "https://example.com", "pages": int(_number(text, 8))}),
    ("plot|draw|chart", "code_interpreter", lambda _: {"task": _PLOT, "file_names": ["passengers.csv"]}),
    ("search|who|which|find", "deep_search", lambda text: {"query": text}),
)


class DemoModel:
    """Has no state: what it answers depends on the request alone."""

    name = "rules"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        await asyncio.sleep(0.3)
        last = request.messages[-1]
        usage = Usage(
            input_tokens=sum(len(one.content) for one in request.messages) // 4, output_tokens=40, cost=0.0004
        )
        if last.role == "tool":
            text = _told(last)
        else:
            question = last.content
            for pattern, tool, arguments in _RULES:
                offered = any(offer.name == tool for offer in request.tools)
                if offered and re.search(rf"\b({pattern})", question, re.IGNORECASE):
                    use = ToolUse(
                        id=f"toolu_{len(request.messages)}", name=tool, arguments=json.dumps(arguments(question))
                    )
                    return ChatReply(text="", uses=(use,), usage=usage)
            text = _HELP
        for word in re.findall(r"\S+\s*", text):
            tell(Delta("text", word))
            await asyncio.sleep(0.02)
        return ChatReply(text=text, usage=usage)


def _told(message: ChatMessage) -> str:
    if message.failed:
        return f"That did not work: {message.content[:300]}"
    try:
        found = json.loads(message.content)
    except ValueError:
        return message.content[:600]
    if isinstance(found, dict):
        for name in ("answer", "stdout"):
            if isinstance(found.get(name), str) and found[name].strip():
                return str(found[name]).strip()[:1_500]
    return f"The tool returned `{message.content[:300]}`."


def _after(text: str, word: str, default: str) -> str:
    found = re.search(rf"\b{word}\s+([A-Z][\w' -]*)", text)
    return found.group(1).strip() if found else default


def _number(text: str, default: float) -> float:
    found = re.search(r"\d+(\.\d+)?", text)
    return float(found.group()) if found else default
