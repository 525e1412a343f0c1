"""The tool `raise_budget`. Every call of it waits for a person, whatever the policy says; when it runs, a person has approved it.

An agent's turn that a budget with `on_reached = "ask"` holds up calls it, and goes on when it has completed. It is internal: no caller can
ask a person to raise a budget that is not reached. The approver may change the amount, as any argument. What was added counts for all
runs of that account, until its period is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clicket.engine.spend.book import SpendBook
from clicket.engine.spend.prices import nano_of
from clicket.engine.spend.reserving import in_words
from clicket.errors import InvalidInput, ProgramFailed
from clicket.tools import Options, ToolContext, Traits
from clicket.tools.defaults import ToolDefaults

__all__ = ["RAISE_BUDGET", "RaiseBudget"]

RAISE_BUDGET = "raise_budget"
SPEND_EVERY = 300.0
"""Seconds between two sweeps of the book."""
_TEXT = {"type": "string"}


class RaiseBudget(ToolDefaults):
    """It may always run again: an amount is added once for a call."""

    name = RAISE_BUDGET
    description = "Adds money or tokens to a budget that is reached. A person decides."
    traits = Traits(internal=True, holds_slot=False, listed=False, asks="a budget is reached")
    is_async = True
    options = Options(timeout=30, max_retries=3, recovery="rerun", idempotent=True)
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "budget": {**_TEXT, "description": "The name of the budget."},
            "account": {**_TEXT, "description": "The account: its period, and what identifies it."},
            "scope": _TEXT,
            "period": _TEXT,
            "now": {**_TEXT, "description": "What is spent and reserved."},
            "add_usd": {"type": "number", "minimum": 0, "maximum": 1e9, "description": "US dollars to add for this period."},
            "add_tokens": {"type": "integer", "minimum": 0, "maximum": 1 << 53, "description": "Tokens to add for this period."},
        },
        "required": ["budget", "account"],
        "additionalProperties": False,
    }  # fmt: skip

    def __init__(self, book: SpendBook) -> None:
        self._book = book

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Refuses a budget that does not exist before a person is asked, and when an approver names it."""
        titles = [budget.title for budget in self._book.budgets]
        if arguments["budget"] not in titles:
            known = ", ".join(map(repr, titles))
            raise InvalidInput(
                [{"path": "/budget", "message": f"there is no such budget. Declared in [[budgets]]: {known}"}]
            )
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> str:
        nano = nano_of(bound.get("add_usd", 0.0))
        tokens = int(bound.get("add_tokens", 0))
        key = f"{ctx.caller}/{ctx.thread}/{ctx.call_id}"
        status = await self._book.raise_budget(bound["budget"], bound["account"], key, nano, tokens)
        if status is None:
            raise ProgramFailed(f"there is no budget {bound['budget']!r} any more; look at [[budgets]]")
        return in_words(status)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"
