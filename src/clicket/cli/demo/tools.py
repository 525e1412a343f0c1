"""The tools of the tour. Each stands for a real tool that is fast, slow, stuck or unreliable, as its step needs it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from clicket.errors import RetryableError
from clicket.interpreter import code_interpreter
from clicket.tools import CallInDoubt, DidNotHappen, Happened, ToolContext, tool

__all__ = ["CRASH_TOOLS", "TOUR_TOOLS"]

_STORY = (
    "Every call is stored before it runs, and every event before it is shown. So after a power cut, the next process "
    "that opens the store knows which calls were done, which were not, and which may have been."
)


@tool(read_only=True)
async def weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, Any]:
    """Current weather of a city."""
    await asyncio.sleep(0.25)
    return {"city": city, "temperature": 21 if unit == "c" else 70, "unit": unit}


@tool
async def tell_story() -> AsyncIterator[str]:
    """A story, word by word."""
    for word in _STORY.split(" "):
        await asyncio.sleep(0.02)
        yield word + " "


@tool(max_retries=3, retry_delay=0.2)
async def exchange_rate(pair: str, ctx: ToolContext) -> float:
    """A rate from a service that is busy at first."""
    await asyncio.sleep(0.1)
    if ctx.attempt < 3:
        raise RetryableError("the rate service answered 503")
    return 1.0834


@tool(isolation="process", timeout=1.0)
def read_scan(file: str, ctx: ToolContext) -> str:
    """Never returns, and has started a program of its own. A thread could not be stopped."""
    helper = subprocess.Popen(["sleep", "3600"])  # noqa: S607  # any `sleep` will do
    ctx.note("stuck", pid=os.getpid(), child=helper.pid)
    while True:
        time.sleep(60)


@tool
async def crawl(pages: int, ctx: ToolContext) -> int:
    """Visits pages, and reports its progress."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.12)
        ctx.progress(page, pages, f"page {page}")
    return pages


@tool(max_result_size=600)
async def read_log(lines: int) -> str:
    """A log that is too long for a model."""
    return "".join(f"{number:06d} GET /orders/{number} 200\n" for number in range(lines))


@tool(idempotent=True)
async def index_site(pages: int, ctx: ToolContext) -> dict[str, Any]:
    """Indexes pages. Repeating it does no harm. The first attempt is slow, the next one reads from a cache."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.3 if ctx.attempt == 1 else 0.03)
        ctx.progress(page, pages, f"page {page}")
    return {"indexed": pages, "idempotency_key": ctx.idempotency_key}


@tool
async def send_payment(amount: float, to: str) -> str:
    """Pays. Repeating it would pay twice."""
    await asyncio.sleep(15)
    return f"paid {amount} to {to}"


def _was_charged(call: CallInDoubt, ctx: ToolContext) -> Happened | DidNotHappen:
    """The check of `charge_card`: asks the bank, by the idempotency key, and changes nothing there."""
    receipt = Path(call.arguments["bank"], call.idempotency_key)
    return Happened({"receipt": receipt.read_text()}) if receipt.exists() else DidNotHappen()


def _charge(bank: str, key: str, cents: int) -> None:
    Path(bank, key).write_text(f"{cents} cents")


@tool(reconcile=_was_charged)
async def charge_card(cents: int, bank: str, ctx: ToolContext) -> dict[str, Any]:
    """Charges a card. Repeating it would charge twice, so the bank is asked. A folder stands for the bank."""
    _charge(bank, ctx.idempotency_key, cents)
    await asyncio.sleep(15)
    return {"receipt": f"{cents} cents"}


# The strongest sandbox that this machine has; the step shows which one that is.
interpreter = code_interpreter(require="process", timeout=1, warm=False)

TOUR_TOOLS = [weather, tell_story, exchange_rate, read_scan, crawl, read_log, interpreter]
CRASH_TOOLS = [index_site, send_payment, charge_card]
