"""What is spent and reserved of a budget: one document of the store for each account, changed only over the version that was read. So
however many processes reserve at once, what is spent and reserved never passes the limit of a budget that stops.

A hold is an amount with an id. `reserved`: a request to a model is under way. `assumed`: nothing is known of that request, because its
process died or it was stopped; the model may have been asked, so the amount counts as spent. `counted`: a call that has not ended
reported it; a later report replaces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from clicket.errors import StoreUnavailable
from clicket.model.spend import NANO, BudgetStatus, Run, usd
from clicket.ports import Records
from clicket.spend.budgets import AccountId, Budget

__all__ = ["KIND", "Account", "Accounts", "Hold", "Raise", "Reached", "Short", "fits", "limits_of", "status_of"]

T = TypeVar("T")
KIND = "budget"
_PAGE = 500
_TRIES = 500
_MAX_HOLDS = 2_000
"""Of holds that are not reserved. Older ones become spent for good."""
HoldKind = Literal["reserved", "assumed", "counted"]


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`owner`: the process that reserved it. The rest is for the ledger, should that process die."""

    nano: int
    tokens: int
    at: float
    kind: HoldKind = "reserved"
    owner: str = ""
    model: str = ""
    input: int = 0
    """The part of `tokens` that is input."""
    unpriced: bool = False
    caller: str = ""
    runs: tuple[Run, ...] = ()
    step: int = 0
    last: str = ""
    """The key of the account in which it was reserved last. While that one does not have it, the model was not asked."""


class Raise(msgspec.Struct, frozen=True, array_like=True):
    budget: str
    nano: int
    tokens: int


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """`limits`: those that were reached. With others the budget is reached anew."""

    at: float
    told: bool = False
    limits: tuple[int | None, int | None] = (None, None)


class Account(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`nano` and `tokens` are settled; holds come on top."""

    scope: str
    period: str
    nano: int = 0
    tokens: int = 0
    holds: dict[str, Hold] = {}
    raises: dict[str, Raise] = {}
    """What people added to a budget, by the id of the call that asked for it."""
    reached: dict[str, Reached] = {}
    """When each budget was reached first, and whether listeners were told."""

    def used(self) -> tuple[int, int]:
        holds = self.holds.values()
        return self.nano + sum(hold.nano for hold in holds), self.tokens + sum(hold.tokens for hold in holds)

    def raised(self, budget: Budget) -> tuple[int, int]:
        own = [each for each in self.raises.values() if each.budget == budget.title]
        return sum(each.nano for each in own), sum(each.tokens for each in own)

    def settle(self, id: str, nano: int, tokens: int) -> None:
        """Replace a hold by what was really used. Without a hold it was settled before: nothing changes."""
        if self.holds.pop(id, None) is not None:
            self.nano += nano
            self.tokens += tokens

    def fold_old(self) -> None:
        """Bound the document: the oldest holds that no process will settle become spent for good."""
        old = [id for id, hold in self.holds.items() if hold.kind != "reserved"]
        for id in old[: max(len(old) - _MAX_HOLDS, 0)]:
            hold = self.holds[id]
            self.settle(id, hold.nano, hold.tokens)


class Short(msgspec.Struct, frozen=True):
    """A budget that a request does not fit into."""

    budget: Budget
    account: AccountId
    status: BudgetStatus
    wanted_nano: int | None
    """None: the model has no price, so nobody can tell whether the request fits."""
    wanted_tokens: int


_account = msgspec.json.Decoder(Account)


def limits_of(account: Account, budget: Budget) -> tuple[int | None, int | None]:
    """The limits in billionths of a dollar and in tokens, with what people added."""
    nano, tokens = account.raised(budget)
    return (
        None if budget.limit_usd is None else round(budget.limit_usd * NANO) + nano,
        None if budget.limit_tokens is None else budget.limit_tokens + tokens,
    )


def fits(account: Account, budget: Budget, nano: int | None, tokens: int) -> bool:
    used_nano, used_tokens = account.used()
    most_nano, most_tokens = limits_of(account, budget)
    if most_nano is not None and (nano is None or used_nano + nano > most_nano):
        return False
    return most_tokens is None or used_tokens + tokens <= most_tokens


def status_of(account: Account, budget: Budget) -> BudgetStatus:
    most_nano, most_tokens = limits_of(account, budget)
    used_nano, used_tokens = account.used()
    raised_nano, raised_tokens = account.raised(budget)
    held = [hold for hold in account.holds.values() if hold.kind == "reserved"]
    reserved_nano, reserved_tokens = sum(hold.nano for hold in held), sum(hold.tokens for hold in held)
    reached = account.reached.get(budget.title)
    return BudgetStatus(
        name=budget.title, scope=account.scope, period=account.period, on_reached=budget.on_reached,
        limit_usd=budget.limit_usd, limit_tokens=budget.limit_tokens,
        spent_usd=usd(used_nano - reserved_nano), spent_tokens=used_tokens - reserved_tokens,
        reserved_usd=usd(reserved_nano), reserved_tokens=reserved_tokens,
        raised_usd=usd(raised_nano), raised_tokens=raised_tokens,
        left_usd=None if most_nano is None else usd(max(most_nano - used_nano, 0)),
        left_tokens=None if most_tokens is None else max(most_tokens - used_tokens, 0),
        reached_at=None if reached is None else reached.at,
    )  # fmt: skip


class Accounts:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._changing: set[asyncio.Future[Any]] = set()

    async def change(self, id: AccountId, change: Callable[[Account], T]) -> T:
        """Apply a change to an account, once. `change` may be called several times, each time with the account as it is then."""
        # A write that is under way is not abandoned: what follows a cancelled reservation must find it.
        work = asyncio.ensure_future(self._alone(id, change))
        self._changing.add(work)
        work.add_done_callback(self._changing.discard)
        return await asyncio.shield(work)

    async def _alone(self, id: AccountId, change: Callable[[Account], T]) -> T:
        lock, users = self._locks.get(id.key) or (asyncio.Lock(), 0)
        self._locks[id.key] = (lock, users + 1)
        try:
            async with lock:  # one process competes with others once, not with each of its runs
                return await self._change(id, change)
        finally:
            lock, users = self._locks[id.key]
            if users == 1:
                del self._locks[id.key]
            else:
                self._locks[id.key] = (lock, users - 1)

    async def _change(self, id: AccountId, change: Callable[[Account], T]) -> T:
        for _ in range(_TRIES):
            found = await self._records.document(KIND, id.key)
            account = Account(scope=id.scope, period=id.period) if found is None else _read(found.body)
            before = msgspec.json.encode(account)
            answer = change(account)
            account.fold_old()
            body = msgspec.json.encode(account)
            if body == before:
                return answer
            if await self._records.put_document(KIND, id.key, body, 0 if found is None else found.version):
                return answer
        raise StoreUnavailable(f"the budget account {id.scope!r} changed all the time. Try again.", transient=True)

    async def read(self, id: AccountId) -> Account:
        found = await self._records.document(KIND, id.key)
        return Account(scope=id.scope, period=id.period) if found is None else _read(found.body)

    async def exists(self, id: AccountId) -> bool:
        return await self._records.document(KIND, id.key) is not None

    async def create(self, id: AccountId, account: Account) -> bool:
        """False: another process was faster."""
        return await self._records.put_document(KIND, id.key, msgspec.json.encode(account), 0)

    async def listed(self, periods: Sequence[str] = ("",)) -> AsyncIterator[tuple[AccountId, Account, float]]:
        """Every account, or those of some periods, and when each was written last."""
        for start in (f"{period}/" if period else "" for period in periods):
            after = start
            while True:
                page = await self._records.documents(KIND, after=after, limit=_PAGE)
                for document in page:
                    if not document.key.startswith(start):
                        break
                    account = _read(document.body)
                    yield AccountId(account.scope, account.period, document.key), account, document.updated_at
                if len(page) < _PAGE or not page[-1].key.startswith(start):
                    break
                after = page[-1].key

    async def remove(self, id: AccountId) -> None:
        await self._records.delete_document(KIND, id.key)


def _read(body: bytes) -> Account:
    try:
        return _account.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        # A budget that cannot be read must not be taken for an empty one.
        raise StoreUnavailable(
            "the account of a budget cannot be read: another program wrote into the store, or it is damaged. Remove the document "
            f"of kind {KIND!r} to begin anew. ({error})"
        ) from error
