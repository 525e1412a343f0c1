"""What an agent needs to count what it spends, and to stay within budgets."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from clicket.model.chat import ChatRequest, Usage
from clicket.model.spend import BudgetBusy, BudgetStatus, Refusal, Spender, SpendReport

__all__ = ["Reserved", "Spending"]


class Reserved(Protocol):
    """A reservation."""

    @property
    def request(self) -> ChatRequest:
        """The request with the limit of tokens that was reserved."""
        ...

    @property
    def left(self) -> Sequence[BudgetStatus]:
        """What is left of the budgets that the model is to know of."""
        ...


class Spending(Protocol):
    @property
    def budgets(self) -> Sequence[object]:
        """Without any, nothing needs to be reserved."""
        ...

    async def reserve(
        self, spender: Spender, step: int, model: Any, request: ChatRequest
    ) -> Reserved | Refusal | BudgetBusy | None:
        """Reserve the most that a request can cost. None: no budget counts it."""
        ...

    async def settled(self, busy: BudgetBusy) -> None:
        """Wait until it is worth trying to reserve again."""
        ...

    def note(self, model: Any, usage: Usage, reservation: Any, mark: str) -> dict[str, Any]:
        """What the turn's journal keeps of a reply. `mark` identifies the reply in its run."""
        ...

    def settle(self, spender: Spender, step: int, note: dict[str, Any], usage: Usage) -> Awaitable[None] | None:
        """Count a reply that is on record. A second time changes nothing. Await the result, if there is one."""
        ...

    async def release(self, reservation: Any) -> None:
        """Nothing was spent."""
        ...

    def assume(self, reservation: Any) -> None:
        """The request was stopped: what was reserved counts as spent."""
        ...

    async def flush(self, spender: Spender) -> None:
        """Write what the ledger does not have yet of a run that ends."""
        ...

    async def of_thread(self, spender: Spender) -> SpendReport:
        """What a spender's thread has spent, by run; and what is left for it."""
        ...

    async def left(self, spender: Spender) -> list[BudgetStatus]:
        """The budgets that a request of this spender would be charged to."""
        ...
