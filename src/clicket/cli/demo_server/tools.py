"""The tools of the demonstration. Each behaves as one kind of real tool: quick, slow, streaming, unreliable, or with an effect."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from clicket.engine.stages import Condition, Policy, Rule
from clicket.errors import RetryableError
from clicket.interpreter import code_interpreter
from clicket.tools import DidNotHappen, Happened, ToolContext, Unknown, tool
from clicket.tools.response import OutcomeUnknown

__all__ = ["POLICY", "SAMPLES", "TOOLS", "interpreter", "tokens", "transfer"]

SAMPLES = Path(__file__).parent.parent / "demo" / "sample_documents"
tokens: dict[str, str] = {}
"""Of calls that end elsewhere, by their ids: what the signing service of a real program would have."""
_random = random.Random(7)  # only for how long tools take and which of them fail


@tool(read_only=True, cache=60, tags=["public"])
async def weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, Any]:
    """Current weather of a city."""
    await asyncio.sleep(_random.uniform(0.05, 0.6))
    return {"city": city, "temperature": 21 if unit == "c" else 70, "unit": unit, "sky": "clear"}


@tool(max_retries=3, retry_delay=0.8)
async def exchange_rate(pair: str, ctx: ToolContext) -> float:
    """A rate from a service that is often busy."""
    await asyncio.sleep(_random.uniform(0.1, 0.4))
    if ctx.attempt <= 2 and _random.random() < 0.6:
        raise RetryableError("the rate service answered 503: try again later")
    return 1.0834


@tool(read_only=True, timeout=120, idle_timeout=20)
async def crawl(url: str, ctx: ToolContext, pages: Annotated[int, Field(ge=1, le=200)] = 12) -> dict[str, Any]:
    """Visit the pages of a site, and report each."""
    for page in range(1, pages + 1):
        await asyncio.sleep(_random.uniform(0.15, 0.5))
        ctx.progress(page, pages, f"page {page} of {pages}")
        ctx.emit(f"GET {url}/page/{page} 200 {_random.randint(2, 90)} KiB\n")
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
    await asyncio.sleep(0.4)
    return f"{title!r} is published for the {audience}"


@tool(failure_threshold=3, cooldown=900, max_retries=0)
async def stock_level(sku: str) -> int:
    """How many pieces are in stock. The service behind it is not reliable."""
    await asyncio.sleep(_random.uniform(0.05, 0.3))
    if sku.startswith("X") or _random.random() < 0.15:
        raise LookupError(f"the warehouse does not know {sku!r}: its index is being rebuilt")
    return 42


@tool(tags=["money"], timeout=20)
async def refund(order: str, amount: Annotated[float, Field(gt=0, le=5000)], reason: str, notify: bool = True) -> str:
    """Pay money back to a customer."""
    await asyncio.sleep(0.8)
    return f"{amount:.2f} EUR paid back for order {order}" + (", customer notified" if notify else "")


@tool(tags=["money"])
async def transfer(amount: float, to: str) -> str:
    """Send money. Repeating it would send it twice, so it is not repeated after a crash."""
    await asyncio.sleep(30)
    return f"{amount} sent to {to}"


@tool(timeout=2, max_retries=0)
async def legacy_export(month: str) -> str:
    """An export that takes longer than it is allowed to."""
    await asyncio.sleep(10)
    return month


@tool(tags=["money"], read_only=True)
async def company_lookup(name: str, ctx: ToolContext) -> dict[str, Any]:
    """Look a company up in a directory that charges for each answer."""
    await asyncio.sleep(_random.uniform(0.1, 0.5))
    ctx.spend(usd=0.02)
    return {"name": name, "employees": 12 + len(name), "country": "PT"}


@tool(external=True, timeout=48 * 3600, idle_timeout=24 * 3600)
async def sign_contract(customer: str, ctx: ToolContext) -> None:
    """Have a document signed by a customer. The call ends when the customer has signed."""
    tokens[ctx.call_id] = ctx.pending("signing service").token


async def _was_charged(call: Any, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
    """Asks the bank for the payment, by the idempotency key. At the first time the bank is busy."""
    _asked[call.id] = _asked.get(call.id, 0) + 1
    await asyncio.sleep(0.4)
    if _asked[call.id] == 1:
        raise RetryableError("the bank answered 503: try again later")
    return Happened(f"{call.arguments['cents'] / 100:.2f} EUR charged to {call.arguments['customer']}")


_asked: dict[str, int] = {}


@tool(tags=["money"], reconcile=_was_charged, max_retries=2, retry_delay=1.0)
async def charge_card(customer: str, cents: Annotated[int, Field(gt=0, le=100_000)]) -> str:
    """Charge a card. The connection breaks after the request was sent, so the tool's own check asks the bank."""
    await asyncio.sleep(0.3)
    raise OutcomeUnknown("the connection to the bank broke after the request was sent")


@tool(tags=["customers"])
async def close_account(customer: str, keep_data: bool = True) -> str:
    """Close a customer's account. Two people must approve it."""
    await asyncio.sleep(0.5)
    return f"the account of {customer} is closed" + ("" if keep_data else ", its data removed")


def interpreter() -> Any:
    """The strongest sandbox that this machine has."""
    return code_interpreter(require="process", timeout=30, warm=False, files=str(SAMPLES))


POLICY = Policy(
    rules=[
        Rule(verdict="allow", tools=["refund"], when=[Condition(path="/amount", op="<=", value=20)]),
        Rule(verdict="ask", tools=["refund"], reason="refunds above 20 EUR need a person", timeout=1800),
        Rule(
            verdict="ask",
            tools=["close_account"],
            reason="closing an account needs two people",
            timeout=7200,
            approvers=2,
        ),
        Rule(verdict="deny", tools=["transfer"], when=[Condition(path="/amount", op=">", value=10_000)]),
    ]
)
TOOLS = [
    weather, exchange_rate, crawl, write_summary, publish_report, stock_level, refund, transfer, legacy_export, company_lookup,
    sign_contract, charge_card, close_account,
]  # fmt: skip
