"""What is spent and reserved of a budget: one document of the store for each account.

An account and the page of the ledger are written in one commit, over the versions that were read. So an account always has what the ledger
has, and on top of it the holds: amounts that are reserved for requests to models that are under way. However many processes reserve at
once, what is spent and reserved never passes the limit of a budget that stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from clicket.engine.spend.budgets import AccountId, Budget
from clicket.engine.spend.ledger import KIND as LEDGER
from clicket.engine.spend.ledger import Ledger, LedgerEntry, LedgerPage, day_of, read_page
from clicket.errors import StoreUnavailable
from clicket.model.ports import DocumentWrite, Records
from clicket.model.spend import NANO, BudgetStatus, Run, Spender, usd
from clicket.system.bridge import fulfil

__all__ = [
    "KIND",
    "Account",
    "Accounts",
    "Books",
    "DamagedAccount",
    "Hold",
    "PageId",
    "Raise",
    "Reached",
    "fits",
    "limits_of",
    "status_of",
]

T = TypeVar("T")
KIND = "budget"
_PAGE = 500
_TRIES = 500


class DamagedAccount(StoreUnavailable):
    """An account cannot be read. A budget that cannot be read must not be taken for an empty one, and no second try helps."""


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An amount that is reserved for a request to a model. `owner`: the process that sends it. The rest is for the ledger, should that
    process die."""

    nano: int
    tokens: int
    at: float
    owner: str = ""
    model: str = ""
    input: int = 0
    """The part of `tokens` that is input."""
    unpriced: bool = False
    caller: str = ""
    runs: tuple[Run, ...] = ()
    step: int = 0


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
    """`nano` and `tokens` are spent, as the ledger has it; holds come on top."""

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

    def charge(self, id: str, before: LedgerEntry | None, after: LedgerEntry | None) -> None:
        """The ledger's entry changes. What was reserved under its id is spent, or released, by that; else the difference is spent."""
        was_reserved = self.holds.pop(id, None) is not None
        counted = None if was_reserved else before
        self.nano = max(self.nano + _nano(after) - _nano(counted), 0)
        self.tokens = max(self.tokens + _tokens(after) - _tokens(counted), 0)


class PageId(msgspec.Struct, frozen=True):
    """The page of the ledger that has a spender's entries."""

    key: str
    spender: Spender


class Books(msgspec.Struct, kw_only=True):
    """A page of the ledger and accounts, as they were read. What is changed in them is written in one commit."""

    entries: dict[str, LedgerEntry]
    accounts: dict[AccountId, Account]

    def put(self, id: str, entry: LedgerEntry | None) -> None:
        """Make this the ledger's entry of an id, and charge the accounts. Done twice, it changes nothing the second time."""
        before = self.entries.get(id)
        after = entry if entry is None or entry.replaces(before) else before
        if after is None:
            self.entries.pop(id, None)
        else:
            self.entries[id] = after
        for account in self.accounts.values():
            account.charge(id, before, after)


def _nano(entry: LedgerEntry | None) -> int:
    return 0 if entry is None else entry.nano or 0


def _tokens(entry: LedgerEntry | None) -> int:
    return 0 if entry is None else entry.all_tokens


_account = msgspec.json.Decoder(Account)


def limits_of(account: Account, budget: Budget) -> tuple[int | None, int | None]:
    """The limits in billionths of a dollar and in tokens, with what people added."""
    nano, tokens = account.raised(budget)
    return (
        None if budget.limit_usd is None else round(budget.limit_usd * NANO) + nano,
        None if budget.limit_tokens is None else budget.limit_tokens + tokens,
    )


def fits(account: Account, budget: Budget, nano: int | None, tokens: int, *, reserved: bool = True) -> bool:
    """Does an amount fit into what is left? `reserved`: what others reserved counts as spent. `nano` None: it is not known."""
    used_nano, used_tokens = account.used() if reserved else (account.nano, account.tokens)
    most_nano, most_tokens = limits_of(account, budget)
    if most_nano is not None and (nano is None or used_nano + nano > most_nano):
        return False
    return most_tokens is None or used_tokens + tokens <= most_tokens


def status_of(account: Account, budget: Budget) -> BudgetStatus:
    most_nano, most_tokens = limits_of(account, budget)
    used_nano, used_tokens = account.used()
    raised_nano, raised_tokens = account.raised(budget)
    reached = account.reached.get(budget.title)
    return BudgetStatus(
        name=budget.title,
        scope=account.scope,
        period=account.period,
        on_reached=budget.on_reached,
        limit_usd=budget.limit_usd,
        limit_tokens=budget.limit_tokens,
        spent_usd=usd(account.nano),
        spent_tokens=account.tokens,
        reserved_usd=usd(used_nano - account.nano),
        reserved_tokens=used_tokens - account.tokens,
        raised_usd=usd(raised_nano),
        raised_tokens=raised_tokens,
        left_usd=None if most_nano is None else usd(max(most_nano - used_nano, 0)),
        left_tokens=None if most_tokens is None else max(most_tokens - used_tokens, 0),
        reached_at=None if reached is None else reached.at,
    )


class Accounts:
    """The only writer of accounts."""

    def __init__(self, records: Records, ledger: Ledger) -> None:
        self._records = records
        self._ledger = ledger
        self._last: dict[str, asyncio.Future[Any]] = {}
        """The change of each document that was asked for last, while it is under way."""
        self._changing: set[asyncio.Future[Any]] = set()
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    async def change(self, id: AccountId, change: Callable[[Account], T]) -> T:
        """Apply a change to one account, once. `change` may be called several times, each time with the account as it is then."""
        return await self.commit((id,), None, lambda books: change(books.accounts[id]))

    async def commit(self, ids: Sequence[AccountId], page: PageId | None, change: Callable[[Books], T]) -> T:
        """Apply a change to accounts and a page of the ledger in one commit, once. `change` may be called several times, each time with
        all of them as they are then; what it changes nothing of is not written."""
        keys = [id.key for id in ids] + ([] if page is None else [f"{LEDGER}/{page.key}"])
        before = [self._last[key] for key in keys if key in self._last]
        # A write that is under way is not abandoned: what follows a cancelled reservation must find it.
        work = asyncio.ensure_future(self._commit_after(before, ids, page, change))
        self._last.update(dict.fromkeys(keys, work))
        self._changing.add(work)
        work.add_done_callback(partial(self._changed, keys))
        return await asyncio.shield(work)

    def _changed(self, keys: Sequence[str], work: asyncio.Future[Any]) -> None:
        self._changing.discard(work)
        for key in keys:
            if self._last.get(key) is work:
                del self._last[key]
        if not work.cancelled():
            work.exception()  # a caller that was cancelled does not take it, and asyncio would report it

    async def _commit_after(
        self,
        before: Sequence[asyncio.Future[Any]],
        ids: Sequence[AccountId],
        page: PageId | None,
        change: Callable[[Books], T],
    ) -> T:
        """One process competes with others once, not with each of its runs. Its changes are made in the order in which they were asked
        for, whichever task the loop begins with: else a release could come before the reservation that was cancelled."""
        for each in before:
            await asyncio.wait([each])
        return await self._commit(ids, page, change)

    async def _commit(self, ids: Sequence[AccountId], page: PageId | None, change: Callable[[Books], T]) -> T:
        for _ in range(_TRIES):
            # Accounts first: while an account has the version that was read, no entry that it was charged with is newer than the page.
            found = {id: await self._records.document(KIND, id.key) for id in ids}
            written = None if page is None else await self._records.document(LEDGER, page.key)
            known = None if written is None else read_page(written.body)
            if page is not None and known is None:
                known = LedgerPage(caller=page.spender.caller, runs=page.spender.runs, entries={})
            accounts = {
                id: await self._new(id) if document is None else _read(document.body) for id, document in found.items()
            }
            before = {id: msgspec.json.encode(account) for id, account in accounts.items()}
            held = {id: set(account.holds) for id, account in accounts.items()}
            entries = {} if known is None else dict(known.entries)
            books = Books(entries=entries, accounts=accounts)
            answer = change(books)
            writes = []
            if page is not None and known is not None and entries != known.entries:
                body = msgspec.json.encode(LedgerPage(caller=known.caller, runs=known.runs, entries=entries))
                version = 0 if written is None else written.version
                writes.append(DocumentWrite(kind=LEDGER, key=page.key, body=body, expect=version))
            for id, document in found.items():
                body = msgspec.json.encode(accounts[id])
                if body != before[id]:
                    version = 0 if document is None else document.version
                    writes.append(DocumentWrite(kind=KIND, key=id.key, body=body, expect=version))
            if not writes or await self._records.put_documents(writes):
                for id in ids:
                    if not held[id] <= accounts[id].holds.keys():
                        self._wake(id.key)
                return answer
        raise StoreUnavailable("the accounts of budgets changed all the time. Try again.", transient=True)

    def settling(self, id: AccountId) -> asyncio.Future[None]:
        """Done when a reservation of the account ends in this process."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(id.key, []).append(future)
        return future

    def _wake(self, key: str) -> None:
        for future in self._waiters.pop(key, ()):
            fulfil(future)

    async def _new(self, id: AccountId) -> Account:
        """A new account begins with what the ledger has of its scope and period, so that a new budget counts what was spent before it.
        Accounts of threads and runs begin with nothing."""
        account = Account(scope=id.scope, period=id.period)
        if id.scope.partition(":")[0] == "thread" or id.period == "run":
            return account
        async for page in self._ledger.pages():
            if not _in_scope(id.scope, page.caller, [run.agent for run in page.runs]):
                continue
            for entry in page.entries.values():
                if id.period == "total" or day_of(entry.at).startswith(id.period):
                    account.nano, account.tokens = account.nano + _nano(entry), account.tokens + entry.all_tokens
        return account

    async def read(self, id: AccountId) -> Account:
        found = await self._records.document(KIND, id.key)
        return Account(scope=id.scope, period=id.period) if found is None else _read(found.body)

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
        raise DamagedAccount(
            "the account of a budget cannot be read: another program wrote into the store, or it is damaged. Remove the document "
            f"of kind {KIND!r} to begin anew. ({error})"
        ) from error


def _in_scope(scope: str, caller: str, agents: list[str]) -> bool:
    kind, _, name = scope.partition(":")
    return kind == "all" or (kind == "caller" and name == caller) or (kind == "agent" and name in agents)
