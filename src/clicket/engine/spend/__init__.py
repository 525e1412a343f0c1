"""Spend: what agents and tools use, in tokens and money, and budgets for it.

- `lineage`: who spends: runs, and the runs that called them
- `prices`: prices of models, as data
- `ledger`: one entry for each reply of a model and for each call with a cost, in documents of the store
- `budgets`: the settings `[[budgets]]`, and the accounts that a request is charged to
- `accounts`: what is spent and reserved of a budget; changed only over the version that was read
- `reserving`: does a request fit, and what is said if not; `prompt_size` estimates its tokens
- `budget_notices`: tells listeners that a budget is reached
- `book`: reserve, settle, count: what agents and tools use
- `raise_tool`: the tool `raise_budget`: its calls wait for a person
- `report`: sums of the ledger; `reader` reads them without an engine
"""

from clicket.engine.spend.book import Reservation, SpendBook
from clicket.engine.spend.budget_notices import BudgetReached, OnBudgetReached
from clicket.engine.spend.budgets import Budget, declared_budgets
from clicket.engine.spend.lineage import spender_of_call, spender_of_turn
from clicket.engine.spend.prices import PriceTable, declared_prices
from clicket.engine.spend.raise_tool import RAISE_BUDGET
from clicket.engine.spend.reader import SpendReader
from clicket.engine.spend.report import spend_report

__all__ = [
    "RAISE_BUDGET",
    "Budget",
    "BudgetReached",
    "OnBudgetReached",
    "PriceTable",
    "Reservation",
    "SpendBook",
    "SpendReader",
    "declared_budgets",
    "declared_prices",
    "spend_report",
    "spender_of_call",
    "spender_of_turn",
]
