"""What a seed spends: budgets that are reached, tools that cost money, and the books as anybody reads them when everything has ended."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.simulation.scene import Scene, work

from clicket import ToolContext, tool
from clicket.model.chat import ChatRequest, Usage
from clicket.model.spend import Amount, BudgetStatus, SpendRow

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["COSTS", "PRICES", "WHOLE", "Books", "budgets_of", "costly", "usage_of"]

PRICES = tuple(
    {"model": name, "input": 3.0, "output": 15.0, "max_output": 20}
    for name in ("simulated", "first", "second", "expert")
)
WHOLE: dict[str, Any] = {"scope": "all", "period": "total", "limit_tokens": 1_000_000, "name": "whole"}
"""A budget that nothing reaches: its account is what the ledger has."""
COSTS = (0.25, 0.5)
"""US dollars that a run of `costly` reports, before and after its work."""


@tool(idempotent=True, timeout=3, max_retries=2, retry_delay=0.1)
async def costly(before: float, after: float, fails: int, ctx: ToolContext) -> dict[str, Any]:
    """Reports what it costs, in each attempt anew."""
    ctx.spend(usd=COSTS[0])
    done = await work(ctx, before, after, fails)
    ctx.spend(usd=COSTS[1])
    return done


def budgets_of(seed: int) -> tuple[dict[str, Any], ...]:
    """One small budget or two, of one that stops and one that asks."""
    chance = random.Random(f"budgets of {seed}")
    scope = chance.choice(("all", "thread", "agent:boss", "agent:helper", "caller"))
    small = {
        "scope": scope,
        "period": chance.choice(("total", "total", "run")),
        "limit_tokens": chance.randint(900, 3_000),
    }
    found = [{**small, "on_reached": chance.choice(("stop", "ask", "ask")), "name": "small"}]
    if chance.random() < 0.3:
        found.append({**small, "limit_tokens": 2 * small["limit_tokens"], "on_reached": "stop", "name": "last"})
    return (WHOLE, *found)


def usage_of(here: Scene, request: ChatRequest) -> Usage:
    """Of a reply where budgets are small: never more than a vendor could bill for the request."""
    sent = sum(len(message.content) for message in request.messages) + sum(
        len(each.description) + 100 for each in request.tools
    )
    return Usage(input_tokens=10 + sent // 4, output_tokens=here.world.chance.randint(1, 20))


class Books:
    """What the ledger and the accounts say at rest."""

    def __init__(self, total: Amount, rows: dict[str, list[SpendRow]], budgets: list[BudgetStatus]) -> None:
        self.total, self.rows, self.budgets = total, rows, budgets

    @classmethod
    async def read(cls, cluster: Cluster, member: Member) -> Books:
        assert member.runtime is not None
        spend = member.runtime.spend
        rows = {by: list((await spend.report(by)).items) for by in ("run", "thread", "agent", "caller")}  # type: ignore[arg-type]
        return cls((await spend.report("run")).total, rows, await spend.budgets())
