"""Sample tools, a policy over them, and a chat model that follows fixed rules, so that no key is needed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from clicket import Condition, Policy, RetryableError, Rule, ToolContext, tool
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolUse, Usage
from clicket.tools import DidNotHappen, Happened, Unknown
from clicket.tools.rest import OutcomeUnknown

randomness = random.Random(7)  # for how long tools take, and which of them fail
tokens: dict[str, str] = {}
"""Of calls that end elsewhere, by their ids: what the signing service of a real program would have."""


async def _work(least: float, most: float) -> None:
    await asyncio.sleep(randomness.uniform(least, most))


@tool(read_only=True, cache=60, tags=["public"])
async def weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, Any]:
    """Current weather of a city."""
    await _work(0.05, 0.6)
    return {"city": city, "temperature": 21 if unit == "c" else 70, "unit": unit, "sky": "clear"}


@tool(max_retries=3, retry_delay=0.8)
async def exchange_rate(pair: str, ctx: ToolContext) -> float:
    """A rate from a service that is often busy."""
    await _work(0.1, 0.4)
    if ctx.attempt <= 2 and randomness.random() < 0.6:
        raise RetryableError("the rate service answered 503: try again later")
    return 1.0834


@tool(read_only=True, timeout=120, idle_timeout=20)
async def crawl(url: str, ctx: ToolContext, pages: Annotated[int, Field(ge=1, le=200)] = 12) -> dict[str, Any]:
    """Visit the pages of a site, and report each."""
    for page in range(1, pages + 1):
        await _work(0.15, 0.5)
        ctx.progress(page, pages, f"page {page} of {pages}")
        ctx.emit(f"GET {url}/page/{page} 200 {randomness.randint(2, 90)} KiB\n")
    return {"url": url, "pages": pages, "links": pages * 17}


@tool
async def write_summary(topic: str) -> AsyncIterator[str]:
    """A short text, word by word."""
    text = (
        f"Notes on {topic}. Each call is stored before it runs, and each event before it is shown. After a crash, the next "
        "process that opens the store knows which calls ended, which never began, and which may have had their effect."
    )
    for word in text.split(" "):
        await asyncio.sleep(0.06)
        yield word + " "


@tool(depends_on="crawl", tags=["report"])
async def publish_report(title: str, audience: Literal["team", "customers"] = "team") -> str:
    """Publish what was crawled in this thread."""
    return f"{title!r} is published for the {audience}"


@tool(failure_threshold=3, cooldown=900, max_retries=0)
async def stock_level(sku: str) -> int:
    """How many pieces are in stock. The service behind it is not reliable."""
    await _work(0.05, 0.3)
    if sku.startswith("X") or randomness.random() < 0.15:
        raise LookupError(f"the warehouse does not know {sku!r}: its index is being rebuilt")
    return 42


@tool(tags=["money"], timeout=20)
async def refund(order: str, amount: Annotated[float, Field(gt=0, le=5000)], reason: str, notify: bool = True) -> str:
    """Pay money back to a customer."""
    await _work(0.5, 1.0)
    return f"{amount:.2f} EUR paid back for order {order}" + (", customer notified" if notify else "")


@tool(tags=["money"])
async def transfer(amount: float, to: str) -> str:
    """Send money. The connection to the bank breaks, so a person must find out what happened."""
    await _work(0.3, 0.6)
    raise OutcomeUnknown(f"the connection to the bank broke after {amount} was sent to {to}")


@tool(timeout=2, max_retries=0)
async def legacy_export(month: str) -> str:
    """An export that takes longer than it is allowed to."""
    await asyncio.sleep(10)
    return month


@tool(tags=["money"], read_only=True)
async def company_lookup(name: str, ctx: ToolContext) -> dict[str, Any]:
    """Look a company up in a directory that charges for each answer."""
    await _work(0.1, 0.5)
    ctx.spend(usd=0.02)
    return {"name": name, "employees": 12 + len(name), "country": "PT"}


@tool(external=True, timeout=48 * 3600, idle_timeout=24 * 3600)
async def sign_contract(customer: str, ctx: ToolContext) -> None:
    """Have a document signed by a customer. The call ends when the customer has signed."""
    tokens[ctx.call_id] = ctx.pending("signing service").token


_asked: set[str] = set()


async def _was_charged(call: Any, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
    """Ask the bank for the payment. At the first time the bank is busy."""
    await _work(0.3, 0.5)
    if call.id not in _asked:
        _asked.add(call.id)
        raise RetryableError("the bank answered 503: try again later")
    return Happened(f"{call.arguments['cents'] / 100:.2f} EUR charged to {call.arguments['customer']}")


@tool(tags=["money"], reconcile=_was_charged, max_retries=2, retry_delay=1.0)
async def charge_card(customer: str, cents: Annotated[int, Field(gt=0, le=100_000)]) -> str:
    """Charge a card. The connection breaks after the request was sent, so the tool's own check asks the bank."""
    await _work(0.2, 0.4)
    raise OutcomeUnknown("the connection to the bank broke after the request was sent")


@tool(tags=["customers"])
async def close_account(customer: str, keep_data: bool = True) -> str:
    """Close a customer's account. Two people must approve it."""
    return f"the account of {customer} is closed" + ("" if keep_data else ", its data removed")


TOOLS = [
    weather,
    exchange_rate,
    crawl,
    write_summary,
    publish_report,
    stock_level,
    refund,
    transfer,
    legacy_export,
    company_lookup,
    sign_contract,
    charge_card,
    close_account,
]
_TWO = "closing an account needs two people"
POLICY = Policy(
    rules=[
        Rule(verdict="allow", tools=["refund"], when=[Condition(path="/amount", op="<=", value=20)]),
        Rule(verdict="ask", tools=["refund"], reason="refunds above 20 EUR need a person", timeout=1800),
        Rule(verdict="ask", tools=["close_account"], reason=_TWO, timeout=7200, approvers=2),
        Rule(verdict="deny", tools=["transfer"], when=[Condition(path="/amount", op=">", value=10_000)]),
    ]
)

PLOT = """```python
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
    "I follow fixed rules. Ask me about the **weather** in a city, an exchange **rate**, a **refund** (it needs your "
    "approval), to **crawl** a site, to **plot** the ferry's passengers, or *who* runs the ferry."
)
_RULES: tuple[tuple[str, str, Callable[[str], dict[str, Any]]], ...] = (
    ("weather", "weather", lambda text: {"city": text.rpartition(" in ")[2].strip(" ?.!") or "Lisbon"}),
    ("refund", "refund", lambda text: {"order": "A-1009", "amount": 80.0, "reason": text[:80]}),
    ("rate", "exchange_rate", lambda _: {"pair": "EURUSD"}),
    ("crawl", "crawl", lambda _: {"url": "https://example.com", "pages": 8}),
    ("plot", "code_interpreter", lambda _: {"task": PLOT, "file_names": ["passengers.csv"]}),
    ("who", "deep_search", lambda text: {"query": text}),
)


class Rules:
    """A chat model: calls the one tool that fits the user's words, and says what the tool returned."""

    name = "rules"

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        last = request.messages[-1]
        asked = sum(len(message.content) for message in request.messages) // 4
        usage = Usage(input_tokens=asked, output_tokens=40, cost=0.0004)
        if last.role == "tool":
            text = _said(last)
        else:
            text = _HELP
            for word, tool_name, arguments in _RULES:
                if word in last.content.lower():
                    use = ToolUse(
                        id=f"use_{len(request.messages)}", name=tool_name, arguments=json.dumps(arguments(last.content))
                    )
                    return ChatReply(text="", uses=(use,), usage=usage)
        for piece in text.split(" "):
            tell(Delta("text", piece + " "))
            await asyncio.sleep(0.02)
        return ChatReply(text=text, usage=usage)


def _said(message: ChatMessage) -> str:
    """The answer or the printed text of a tool's result, or the result."""
    try:
        found = json.loads(message.content)
    except ValueError:
        return message.content[:600]
    if isinstance(found, dict):
        return str(found.get("answer") or found.get("stdout") or message.content)[:1_500].strip()
    return message.content[:600]
