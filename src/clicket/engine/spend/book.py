"""Reserves before a model is asked, and settles when it has answered.

A reservation is one commit: a hold in every account. So is a settlement: the entry of the ledger, and the hold replaced by its amount. In
between the model is asked, and its reply recorded in the turn's journal. A process that dies there leaves a reservation, which counts as
spent. The turn that continues settles it if the reply is on record; else `sweep` turns it into an assumed entry of the ledger, because the
model may have been asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from clicket.engine.spend.accounts import (
    Account,
    Accounts,
    Books,
    DamagedAccount,
    Hold,
    PageId,
    Raise,
    status_of,
)
from clicket.engine.spend.budget_notices import BudgetNotices
from clicket.engine.spend.budgets import AccountId, Budget, accounts_of
from clicket.engine.spend.ledger import Ledger, LedgerEntry, page_key
from clicket.engine.spend.lineage import spender_of_call
from clicket.engine.spend.prices import PriceTable, nano_of
from clicket.engine.spend.prompt_size import prompt_tokens
from clicket.engine.spend.reader import SpendReader
from clicket.engine.spend.report import spend_report
from clicket.engine.spend.reserving import busy_of, refusal_of, take
from clicket.errors import ClicketError
from clicket.model.chat import ChatRequest, Usage
from clicket.model.ids import new_id
from clicket.model.ports import Clock, Owner, Store, Unstorable, sleep
from clicket.model.spend import BudgetBusy, BudgetStatus, Refusal, Spender, SpendReport
from clicket.system.bridge import fulfil
from clicket.tools.costs import Cost

__all__ = ["Reservation", "SpendBook"]

logger = logging.getLogger("clicket.spend")
_ANSWER = 4_096
"""Tokens of an answer, where neither the request nor the price says how long it may be. Such a request is sent with this limit."""
_MAX_UNPRICED = 100
_LOOK_EVERY = 1.0
"""Seconds between two looks whether reservations of other processes have ended, while a request waits for that."""
_RETRY_FIRST = 0.2
_RETRY_MOST = 10.0
_DAY = 86_400.0
_KEEP_DAYS = {"day": 40 * _DAY, "month": 400 * _DAY, "run": 30 * _DAY}


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """`request` has the limit of tokens that was reserved."""

    id: str
    at: float
    spender: Spender
    step: int
    hold: Hold
    page: PageId
    accounts: tuple[AccountId, ...]
    request: ChatRequest
    left: tuple[BudgetStatus, ...] = ()
    """What is left of the budgets whose setting is `tell_model`, this request not counted."""


class SpendBook:
    """One per runtime. Without budgets it reserves nothing. `notices.listeners` are called when a budget is reached."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        owner: Owner,
        prices: PriceTable,
        budgets: Sequence[Budget],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner = _identity(owner)
        self._prices = prices
        self._spawn = spawn
        self.budgets = tuple(budgets)
        self.ledger = Ledger(store, clock, spawn)
        self.accounts = Accounts(store, self.ledger)
        self.notices = BudgetNotices(self.accounts, clock, spawn)
        self.reader = SpendReader(self.ledger, self.accounts, self.budgets, clock.now)
        self.closed = False
        self._looked_at = -_LOOK_EVERY
        self._unpriced: set[str] = set()
        """Models without a price that the log has named."""

    # Requests to models.

    async def reserve(
        self, spender: Spender, step: int, model: Any, request: ChatRequest
    ) -> Reservation | Refusal | BudgetBusy | None:
        """Reserve the most that a request can cost in every account that it is charged to. None: there are no budgets. `BudgetBusy`: await
        `settled`, and try again."""
        if not self.budgets:
            return None
        at = self._clock.now()
        charged = accounts_of(self.budgets, spender, at)
        if not charged:
            return None
        name = _name(model)
        price = self._prices.find(name)
        most = request.max_tokens or (None if price is None else price.max_output) or _ANSWER
        usage = Usage(input_tokens=prompt_tokens(request), output_tokens=most)
        # The vendor may write all of the input to its prompt cache, which may cost more.
        nano = self._nano(model, name, msgspec.structs.replace(usage, cache_write_tokens=usage.input_tokens))
        if nano is None:
            self._warn_unpriced(name, charged)
        hold = Hold(
            nano=nano or 0,
            tokens=usage.total,
            at=at,
            owner=self._owner,
            model=name,
            input=usage.input_tokens,
            unpriced=nano is None,
            caller=spender.caller,
            runs=spender.runs,
            step=step,
        )
        id = f"{step}:{new_id()}"
        page = PageId(page_key(spender, step, at), spender)
        try:
            taken = await self.accounts.commit(tuple(charged), page, lambda books: take(books, charged, id, hold, nano))
        except BaseException:
            self._spawn(self._surely(lambda: self._release(id, page, tuple(charged))))
            raise
        for account, new in taken.reached.items():
            self.notices.tell(account, new, spender, at)
        if taken.short is not None:
            return refusal_of(taken.short)
        if taken.busy is not None:
            return busy_of(taken.busy)
        request = msgspec.structs.replace(request, max_tokens=most)
        return Reservation(
            id=id,
            at=at,
            spender=spender,
            step=step,
            hold=hold,
            page=page,
            accounts=tuple(charged),
            request=request,
            left=tuple(taken.left),
        )

    async def settled(self, busy: BudgetBusy) -> None:
        """Wait until a reservation of the account may have ended: one of this process did, or some time has passed. Reservations of dead
        processes are ended here, as `sweep` does."""
        id = AccountId(busy.scope, busy.period, busy.key)
        ended = self.accounts.settling(id)
        timer = self._clock.call_later(_LOOK_EVERY, fulfil, ended)
        try:
            if self._clock.monotonic() - self._looked_at >= _LOOK_EVERY:
                self._looked_at = self._clock.monotonic()
                account = await self.accounts.read(id)
                await self._end_lost(id, account, await self._alive())
            await ended
        finally:
            timer.cancel()

    def _warn_unpriced(self, model: str, charged: dict[AccountId, list[Budget]]) -> None:
        """Say once that a model's requests cannot be counted in money, though a budget is in money."""
        named = [budget.title for budgets in charged.values() for budget in budgets if budget.limit_usd is not None]
        if named and model not in self._unpriced and len(self._unpriced) < _MAX_UNPRICED:
            self._unpriced.add(model)
            logger.warning(
                "model %r has no price, so the budgets in money cannot count it: %s. Add it to [[prices]].",
                model[:200],
                ", ".join(named),
            )

    def _nano(self, model: Any, name: str, usage: Usage) -> int | None:
        """The cost in billionths of a dollar: by the model's own prices, else by the table; None: there is no price."""
        if usage.cost:
            return nano_of(usage.cost)
        own = getattr(model, "prices", None)
        cost = own.priced(usage).cost if own is not None and hasattr(own, "priced") else 0.0
        if cost:
            return nano_of(cost)
        price = self._prices.find(name)
        return None if price is None else price.nano(usage)

    def note(self, model: Any, usage: Usage, reservation: Reservation | None, mark: str) -> dict[str, Any]:
        """What the turn's journal keeps of a reply, so that the reply is counted after a crash, too."""
        name = _name(model)
        now = self._clock.now
        note = {
            "id": f"{mark}:{new_id()}",
            "at": now(),
            "model": name,
            "nano": self._nano(model, name, usage),
        }
        if reservation is not None:
            note |= {"id": reservation.id, "at": reservation.at, "reserved": True}
            if not usage.total:  # the server reports no usage: what was reserved counts
                hold = reservation.hold
                note |= {
                    "nano": None if hold.unpriced else hold.nano,
                    "assumed": [hold.input, hold.tokens - hold.input],
                }
        return note

    def settle(self, spender: Spender, step: int, note: dict[str, Any], usage: Usage) -> Awaitable[None] | None:
        """Count a reply that is on record. A second time changes nothing. Await the result, if there is one: the reply's reservation
        is settled then."""
        try:
            at = float(note["at"])
            nano = note.get("nano")
            guessed = note.get("assumed")
            into, out = guessed or (usage.input_tokens, usage.output_tokens)
            entry = LedgerEntry(
                at=at,
                kind="model",
                name=str(note["model"]),
                input=int(into),
                output=int(out),
                cached=usage.cached_tokens,
                cache_write=usage.cache_write_tokens,
                nano=None if nano is None else int(nano),
                assumed=False,
            )
            id = str(note["id"])
        except (KeyError, TypeError, ValueError):  # another program wrote into the store
            logger.warning("a reply of run %s has no readable spend, and is not counted", spender.run.name)
            return None
        accounts = tuple(accounts_of(self.budgets, spender, at)) if self.budgets else ()
        if not accounts:
            self.ledger.add(spender, step, id, entry)
            return None
        page = PageId(page_key(spender, step, at), spender)
        return self._surely(lambda: self.accounts.commit(accounts, page, lambda books: books.put(id, entry)))

    async def release(self, reservation: Reservation) -> None:
        """The model refused the request, or could not be reached: nothing was spent."""
        await self._surely(lambda: self._release(reservation.id, reservation.page, reservation.accounts))

    async def _release(self, id: str, page: PageId, accounts: Sequence[AccountId]) -> None:
        def drop(books: Books) -> None:
            known = books.entries.get(id)  # after a pause, another process may have assumed that it was spent
            books.put(id, known if known is not None and not known.assumed else None)

        await self.accounts.commit(accounts, page, drop)

    def assume(self, reservation: Reservation) -> None:
        """Count what was reserved as spent: the request was stopped, and it is unknown whether the model was asked."""
        id = reservation.id
        page = reservation.page
        entry = _assumed(reservation.hold)
        put = partial(self.accounts.commit, reservation.accounts, page, lambda books: books.put(id, entry))
        self._spawn(self._surely(put))

    async def _surely(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it, as soon as the store can be reached: a run does not end before the ledger has what it spent. A caller that is stopped
        leaves the rest to a task, and so does one whose account is damaged."""
        try:
            await self._retry(work, final=(DamagedAccount, Unstorable))
        except asyncio.CancelledError:
            self._spawn(self._retry(work))
            raise
        except ClicketError:
            self._spawn(self._retry(work))

    async def _retry(self, work: Callable[[], Awaitable[None]], final: tuple[type[ClicketError], ...] = ()) -> None:
        """`final`: errors that are raised."""
        delay = _RETRY_FIRST
        while True:
            try:
                await work()
            except ClicketError as error:
                if delay == _RETRY_FIRST:
                    logger.warning("spend could not be written yet: %s", error)
                if isinstance(error, final):
                    raise
                if self.closed:  # what is reserved counts as spent; the turn that continues settles it
                    return
            else:
                return
            await sleep(self._clock, delay)
            delay = min(delay * 2, _RETRY_MOST)

    async def flush(self, spender: Spender) -> None:
        """Write what the ledger does not have yet of a run that ends."""
        for key in self.ledger.pending_of(spender):
            await self._surely(lambda key=key: self.ledger.flush(key))  # type: ignore[misc]

    # What tools report.

    async def count_call(
        self, caller: str, thread: str, call_id: str, tool: str, created_at: float, cost: Cost
    ) -> None:
        """Count the cost that a call has on record. It replaces what was counted of the same call before; an older report, or the same
        one again, changes nothing."""
        spender, page, id, entry = _of_call(caller, thread, call_id, tool, created_at, cost)
        accounts = tuple(accounts_of(self.budgets, spender, created_at))
        await self.accounts.commit(accounts, page, lambda books: books.put(id, entry))

    async def keep_call(self, caller: str, thread: str, call_id: str, tool: str, created_at: float, cost: Cost) -> None:
        """As `count_call`, for a call that is about to be removed, and whose cost was counted long ago as a rule."""
        _, page, id, entry = _of_call(caller, thread, call_id, tool, created_at, cost)
        if not await self.ledger.has(page.key, id, entry):
            await self.count_call(caller, thread, call_id, tool, created_at, cost)

    # Budgets.

    async def raise_budget(
        self, title: str, account_key: str, call_id: str, nano: int, tokens: int
    ) -> BudgetStatus | None:
        """Add to a budget for its period, once for a call. None: there is no such budget any more."""
        budget = next((each for each in self.budgets if each.title == title), None)
        if budget is None:
            return None
        period = account_key.partition("/")[0]

        def add(found: Account) -> BudgetStatus:
            found.raises.setdefault(call_id, Raise(title, nano, tokens))
            return status_of(found, budget)

        return await self.accounts.change(AccountId(budget.scope, period, account_key), add)

    async def left(self, spender: Spender) -> list[BudgetStatus]:
        """The budgets that a request of this spender would be charged to."""
        found: list[BudgetStatus] = []
        for account, budgets in accounts_of(self.budgets, spender, self._clock.now()).items():
            known = await self.accounts.read(account)
            found += [status_of(known, budget) for budget in budgets]
        return found

    async def of_thread(self, spender: Spender) -> SpendReport:
        """What a spender's thread has spent, by run; and what is left for it."""
        run = spender.run
        found = await spend_report(self.ledger.pages(), "run", caller=spender.caller, thread=run.thread)
        return msgspec.structs.replace(found, budgets=await self.left(spender))

    async def sweep(self, retention: float) -> int:
        """Reservations of dead processes become assumed entries, listeners that were not told are told, old accounts and pages of the
        ledger are removed. Returns how many reservations there were."""
        now = self._clock.now()
        lost = 0
        await self.ledger.sweep(now - retention)
        if not self.budgets:
            return 0
        found = [(id, account, updated) async for id, account, updated in self.accounts.listed()]
        alive = await self._alive()
        for id, account, updated in found:
            lost += await self._end_lost(id, account, alive)
            self.notices.tell_again(id, account, self.budgets)
            kind = "run" if id.period == "run" else {7: "month", 10: "day"}.get(len(id.period), "")
            if kind in _KEEP_DAYS and updated < now - _KEEP_DAYS[kind]:
                await self.accounts.remove(id)
        return lost

    async def _alive(self) -> set[str]:
        return {self._owner, *(_identity(each.owner) for each in await self._store.owners() if each.alive)}

    async def _end_lost(self, id: AccountId, account: Account, alive: set[str]) -> int:
        """End the reservations of dead processes; returns how many there were. `alive` was read after the account."""
        lost = [(hold_id, hold) for hold_id, hold in account.holds.items() if hold.owner not in alive]
        for hold_id, hold in lost:
            await self._end_reservation(id, hold_id, hold)
        return len(lost)

    async def _end_reservation(self, account: AccountId, id: str, hold: Hold) -> None:
        """The process that reserved it is dead. It counts as spent, unless it was settled or released meanwhile."""
        spender = Spender(hold.caller, hold.runs)
        accounts = tuple({account: None, **accounts_of(self.budgets, spender, hold.at)})

        def end(books: Books) -> None:
            if id in books.accounts[account].holds:
                books.put(id, _assumed(hold))

        await self.accounts.commit(accounts, PageId(page_key(spender, hold.step, hold.at), spender), end)

    async def close(self) -> None:
        self.closed = True
        await self.ledger.close()


def _assumed(hold: Hold) -> LedgerEntry:
    return LedgerEntry(
        at=hold.at,
        kind="model",
        name=hold.model,
        input=hold.input,
        output=hold.tokens - hold.input,
        nano=None if hold.unpriced else hold.nano,
        assumed=True,
    )


def _of_call(
    caller: str, thread: str, call_id: str, tool: str, created_at: float, cost: Cost
) -> tuple[Spender, PageId, str, LedgerEntry]:
    spender, step = spender_of_call(caller, thread, call_id)
    entry = LedgerEntry(at=created_at, kind="tool", name=tool, tokens=cost.tokens, nano=cost.nano, seq=cost.seq)
    return spender, PageId(page_key(spender, step, created_at), spender), f"call:{call_id}", entry


def _name(model: Any) -> str:
    return str(getattr(model, "name", "") or type(model).__name__)


def _identity(owner: Owner) -> str:
    return f"{owner.host}|{owner.boot}|{owner.pid}|{owner.started}"
