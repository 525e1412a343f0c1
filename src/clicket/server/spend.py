"""`/spend`: tokens and money, and what is left of the budgets. A key sees its own spend, an admin that of all."""

from __future__ import annotations

from typing import get_args

import msgspec

from clicket.model.spend import BudgetStatus, By, SpendReport
from clicket.server.call_lookup import CALLER, visible_runtime
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, instant
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["OPERATIONS"]


class BudgetList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BudgetStatus]


async def spend(request: Request) -> Response:
    which = {name: request.query(name) for name in ("since", "until", "thread", "agent")}
    return json_response(await visible_runtime(request).spend.report(request.query("by", "day"), **which))


async def budgets(request: Request) -> Response:
    return json_response(BudgetList(items=await request.principal.sees.spend.budgets()))


OPERATIONS = tagged(
    "figures",
    Operation(
        route="GET /spend",
        description="Tokens and money of agents and tools, by run, thread, agent, caller, day, month or model; and the budgets. A key sees "
        "its own spend, an admin that of all.",
        handler=spend,
        scopes=("read",),
        parameters=(
            Parameter(name="by", description="How it is grouped; `day` if left out.", choices=get_args(By)),
            instant("since", "Only what was spent at or after this time (seconds since 1970)."),
            instant("until", "Only what was spent before this time (seconds since 1970)."),
            Parameter(name="thread", description="Only what was spent for this thread, also by agents that it called."),
            Parameter(name="agent", description="Only what was spent for this agent, also by agents that it called."),
            CALLER,
        ),
        responses={200: ResponseSpec(description="The report.", schema=SpendReport)},
    ),
    Operation(
        route="GET /spend/budgets",
        description="The budgets in their current periods: limits, what is spent, reserved and left.",
        handler=budgets,
        scopes=("read",),
        responses={200: ResponseSpec(description="The budgets.", schema=BudgetList)},
    ),
)
