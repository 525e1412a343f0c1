"""`clicket spend`: tokens and money of agents and tools, and what is left of the budgets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clicket.cli.columns import Column, fitted
from clicket.cli.context import Context
from clicket.cli.formatting import parse_duration
from clicket.cli.options import CallerOption
from clicket.cli.terminal import Terminal, clean
from clicket.engine.spend import SpendReader
from clicket.model.spend import Amount, BudgetStatus, SpendReport

__all__ = ["spend"]

_GREY = "bright_black"


async def spend(
    context: Context,
    by: Annotated[
        str, typer.Option(metavar="GROUP", help="run, thread, agent, caller, day, month (UTC) or model.")
    ] = "day",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was spent in the last 24h, 30d, …")
    ] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread, with the agents that it called.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent, with the agents that it called.")] = None,
    caller: CallerOption = None,
) -> None:
    """Show what agents and tools spent, and what is left of the budgets.

    The prices of models are those of the setting `prices`; where it has none, those of a table of November 2025.
    """
    begin = None if since is None else time.time() - parse_duration(since)
    found = SpendReport(by="day")
    if context.store_exists:
        async with context.reader() as reader:
            book = SpendReader.over(reader.store, context.settings.budgets)
            found = await book.report(by, since=begin, caller=caller, thread=thread, agent=agent)  # type: ignore[arg-type]  # it is checked there
    terminal = context.terminal
    if terminal.json:
        terminal.print_json(msgspec.to_builtins(found))
        return
    if not found.items:
        terminal.say(
            "nothing was spent yet." if since is None else f"nothing was spent in the last {since}.", style=_GREY
        )
    else:
        _print(terminal, found)
    if found.budgets:
        terminal.out.print(Text("\nBudgets", style="bold"))
        terminal.out.print(fitted(_budgets(found.budgets), terminal.out.width))


def _print(terminal: Terminal, found: SpendReport) -> None:
    rows: list[tuple[str, Amount]] = [(clean(row.key), row) for row in found.items]
    if len(rows) > 1:
        rows.append(("total", found.total))
    amounts = [amount for _, amount in rows]
    columns = [
        Column(found.by.upper(), [name for name, _ in rows], keep=True),
        Column("USD", [_money(amount) for amount in amounts], keep=True, right=True),
        Column("TOKENS", [f"{amount.tokens:,}" for amount in amounts], rank=9, right=True),
        Column("INPUT", [f"{amount.input_tokens:,}" for amount in amounts], rank=5, right=True),
        Column("OUTPUT", [f"{amount.output_tokens:,}" for amount in amounts], rank=6, right=True),
        Column("CACHED", [f"{amount.cached_tokens:,}" for amount in amounts], rank=2, right=True),
        Column("CACHE WRITES", [f"{amount.cache_write_tokens:,}" for amount in amounts], rank=1, right=True),
        Column("ENTRIES", [f"{amount.entries:,}" for amount in amounts], rank=1, right=True),
    ]
    terminal.out.print(fitted(columns, terminal.out.width))
    if found.total.unpriced_tokens:
        terminal.say(
            f"{found.total.unpriced_tokens:,} tokens are of models without a price: what they cost is not known. Add [[prices]].",
            style="yellow",
        )
    if found.total.assumed_usd:
        terminal.say(
            f"{found.total.assumed_usd:.6f} USD are assumed: they were reserved for requests whose outcome is not known.",
            style="yellow",
        )


def _money(amount: Amount) -> str:
    text = f"{amount.usd:,.6f}"
    return f"{text}+?" if amount.unpriced_tokens else text


def _budgets(budgets: Sequence[BudgetStatus]) -> list[Column]:
    return [
        Column("BUDGET", [clean(each.name) for each in budgets], keep=True),
        Column("SCOPE", [clean(each.scope) for each in budgets], rank=8, least=12),
        Column("PERIOD", [each.period for each in budgets], rank=7),
        Column("SPENT", [_pair(each.spent_usd, each.spent_tokens, each) for each in budgets], rank=9, right=True),
        Column("RESERVED", [_pair(each.reserved_usd, each.reserved_tokens, each) for each in budgets], rank=3, right=True),
        Column("LIMIT", [_limit(each) for each in budgets], rank=6, right=True),
        Column("LEFT", [_pair(each.left_usd or 0.0, each.left_tokens or 0, each) for each in budgets], rank=10, right=True),
    ]  # fmt: skip


def _limit(budget: BudgetStatus) -> str:
    usd, tokens = budget.limit_usd or 0.0, budget.limit_tokens or 0
    return _pair(usd + budget.raised_usd, tokens + budget.raised_tokens, budget)


def _pair(usd: float, tokens: int, budget: BudgetStatus) -> str:
    parts = [] if budget.limit_usd is None else [f"{usd:,.4f} USD"]
    return " ".join([*parts, f"{tokens:,} tok"] if budget.limit_tokens is not None else parts)
