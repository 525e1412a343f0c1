"""Evaluations in the store of a server that runs: two runs of two agents, and what fails in the second one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.browser.console_server import HOSTILE

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.evals import Case, RecordedCall, calls_in_order, evaluate, text_contains
from clicket.testing import ScriptedModel

__all__ = ["CASES", "keep_evaluations"]


@tool
async def pay(order: int) -> str:
    """Pay an order; a replay does not run it."""
    raise AssertionError("a replay ran a tool")


CASES = [
    Case(
        f"Pay order {order}.",
        name=f"order-{order}",
        expected=f"Order {order} is paid.",
        calls=(RecordedCall(tool="pay", arguments={"order": order}, content=f"paid {order}"),),
        metadata={"thread": "look-chat"} if order == 2 else {},
    )
    for order in range(1, 12)
]
_TALK = Case(f"Say {HOSTILE}", name=f"says {HOSTILE}", expected="fine")


def keep_evaluations(store: str) -> None:
    """In a thread of its own: Playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(_keep(store))).result()


async def _keep(store: str) -> None:
    async with Runtime(store=store) as rt:
        checks = [calls_in_order(), text_contains()]
        for commit, mistakes in (("a" * 40, ()), ("b" * 40, ("2", "7"))):
            agents = {"current": _agent(()), "candidate": _agent(mistakes)}
            await evaluate([*CASES, _TALK], agents, checks, tools=[pay], rt=rt, name="shop", commit=commit)


def _agent(mistakes: tuple[str, ...]) -> Any:
    """It pays another order than it was told to, for these."""

    def answer(request: Any) -> Any:
        said = [each.content for each in request.messages if each.role == "user"][-1]
        if not said.startswith("Pay"):
            return HOSTILE
        number = said.removeprefix("Pay order ").removesuffix(".")
        if request.messages[-1].role == "tool":
            return f"Order {number} is paid."
        return [("pay", {"order": 999 if number in mistakes else int(number)})]

    return lambda rt: ReActAgent(rt, ScriptedModel([answer] * 100))
