"""`Runtime.bulk`: one action on many calls, named by their ids or found by a filter. A failure affects no other call.

Calls are read and acted on in batches, so a filter that matches many calls needs little memory. A page of work ends after `limit` calls;
its `cursor` goes on below them, so calls that the action itself makes are not acted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Unpack, get_args

import msgspec

from clicket.engine.live_call import Origin
from clicket.errors import ClicketError, NotFound, PermissionDenied, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import Page, Record
from clicket.runtime.calls.again import AGAIN_OF
from clicket.runtime.calls.approvals import Approver, approve_as, deny_as
from clicket.runtime.calls.history import HistoryOptions

__all__ = [
    "MAX_CALLS",
    "BulkAction",
    "BulkFailure",
    "BulkOrder",
    "BulkResult",
    "CallName",
    "MadeCall",
    "bulk",
    "order_of",
    "perform",
]

BulkAction = Literal["cancel", "again", "approve", "deny"]
MAX_CALLS = 1_000
_BATCH = 100
_AT_ONCE = 10
_IMPLIED: dict[str, dict[str, Any]] = {
    "cancel": {"active": True},
    "again": {},
    "approve": {"waiting_for": "approval"},
    "deny": {"waiting_for": "approval"},
}
"""What a filter finds anyway: only calls to which the action applies."""
_FILTERS = frozenset(HistoryOptions.__annotations__) - {"order"} | {"caller"}


class CallName(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `thread` and `caller` are needed only if several calls have the id."""

    id: str
    thread: str | None = None
    caller: str | None = None


class BulkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A call on which the action failed, and why. Thread and caller are those of the call, or of the request if it was not found."""

    id: str
    thread: str | None = None
    caller: str | None = None
    code: str
    message: str


class MadeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that `again` made."""

    id: str
    thread: str
    caller: str
    again_of: str


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls were found (`matched`), acted on (`done`), left alone because the action no longer applies to them (`skipped`),
    and not acted on because of an error (`failed`). With `dry` nothing was changed. `cursor` goes on with a filter; None: that was all."""

    action: BulkAction
    dry: bool = False
    matched: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    failures: list[BulkFailure] = []
    made: list[MadeCall] = []
    cursor: str | None = None


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and on which calls: `ids` or `filter`."""

    action: BulkAction
    ids: Sequence[CallName] | None = None
    filter: Mapping[str, Any] | None = None
    reason: str = ""
    dry: bool = False
    limit: int = MAX_CALLS
    cursor: str | None = None


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin

    async def get(self, id: str, *, thread: str | None = None) -> Record: ...
    async def history(
        self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]
    ) -> Page: ...
    def acting_for(self, caller: str, scopes: Any = (), requesters: Any = ()) -> Any: ...


OnActed = Callable[[Record], Any]


async def bulk(
    runtime: _Runtime,
    action: BulkAction,
    ids: Iterable[str | Mapping[str, Any] | CallName] | None = None,
    *,
    filter: Mapping[str, Any] | None = None,
    reason: str = "",
    by: str = "",
    dry: bool = False,
    limit: int = MAX_CALLS,
    cursor: str | None = None,
) -> BulkResult:
    """Cancel, run again, approve or deny many calls: up to 1,000 `ids`, or those that a `filter` finds (keywords of `history`, and
    `caller`). Failures are collected in the result.

    A filter finds only calls to which the action applies: active ones for `cancel`, ended ones for `again`, waiting ones for `approve` and
    `deny`. At most `limit` of them are acted on, the newest first; pass the result's `cursor` to go on. `dry`: only count them.
    """
    order = order_of(action, ids, filter, reason=reason, dry=dry, limit=limit, cursor=cursor)
    return await perform(runtime, order, approver=Approver(by or runtime._caller or ""), scopes=runtime._origin.scopes)


def order_of(
    action: str, ids: Iterable[Any] | None, filter: Mapping[str, Any] | None, *, limit: int = MAX_CALLS, **rest: Any
) -> BulkOrder:
    """A checked order; `UsageError` says what is wrong with it."""
    if action not in get_args(BulkAction):
        known = ", ".join(get_args(BulkAction))
        raise UsageError(
            f"action must be one of {known}, not {action!r}.{did_you_mean(str(action), get_args(BulkAction))}"
        )
    if (ids is None) == (filter is None):
        raise UsageError("name the calls by ids or by a filter: one of the two.")
    if type(limit) is not int or not 1 <= limit <= MAX_CALLS:
        raise UsageError(f"limit must be a number from 1 to {MAX_CALLS:,}, not {limit!r}.")
    named = None if ids is None else [_name_of(each) for each in ids]
    if named is not None and len(named) > MAX_CALLS:
        raise UsageError(f"{len(named):,} ids are more than {MAX_CALLS:,}. Send them in several requests.")
    if named is not None and rest.get("cursor") is not None:
        raise UsageError("a cursor goes on with a filter; ids have none. Leave it out.")
    if filter is not None:
        wanted = {name: value for name, value in filter.items() if value is not None}
        if unknown := set(wanted) - _FILTERS:
            name = min(unknown)
            raise UsageError(
                f"a filter has no field {name!r}.{did_you_mean(name, _FILTERS)} Known: {', '.join(sorted(_FILTERS))}."
            )
        if not wanted:
            raise UsageError(
                'the filter is empty and would match all calls. Name a field: {"active": true}, {"tool": "…"}.'
            )
        filter = wanted
    return BulkOrder(action=action, ids=named, filter=filter, limit=limit, **rest)  # type: ignore[arg-type]  # checked above


def _name_of(given: Any) -> CallName:
    if isinstance(given, CallName):
        return given
    if isinstance(given, str):
        return CallName(id=given)
    try:
        return CallName(**given)
    except TypeError:
        raise UsageError(
            f"{given!r:.100} names no call. Write its id, or a mapping of id, thread and caller."
        ) from None


async def perform(
    runtime: _Runtime,
    order: BulkOrder,
    *,
    approver: Approver,
    scopes: Iterable[str] = (),
    sees: Callable[[Record], bool] | None = None,
    on_acted: OnActed | None = None,
) -> BulkResult:
    """Do what is ordered, among the calls of `runtime` for which `sees` is true: others are not found. `approver`: the person who acts;
    `scopes`: of that person, for calls that are made. `on_acted` is awaited with each call that was acted on."""
    work = _Work(runtime, order, approver, frozenset(scopes), on_acted)
    cursor: str | None = None
    if order.ids is not None:
        await work.on_named(list(dict.fromkeys(order.ids)), sees)
    else:
        cursor = await work.on_found(sees)
    return BulkResult(
        action=order.action,
        dry=order.dry,
        matched=work.matched,
        done=work.done,
        skipped=work.skipped,
        failed=len(work.failures),
        failures=work.failures,
        made=work.made,
        cursor=cursor,
    )


class _Work:
    def __init__(
        self, runtime: _Runtime, order: BulkOrder, approver: Approver, scopes: frozenset[str], on_acted: OnActed | None
    ) -> None:
        self._runtime = runtime
        self._order = order
        self._approver = approver
        self._scopes = scopes
        self._on_acted = on_acted
        self.matched = self.done = self.skipped = 0
        self.failures: list[BulkFailure] = []
        self.made: list[MadeCall] = []

    async def on_named(self, names: Sequence[CallName], sees: Callable[[Record], bool] | None) -> None:
        async def find_and_act(name: CallName) -> None:
            try:
                record = await self._find(name, sees)
            except ClicketError as error:
                self._failed(name.id, name.thread, name.caller, error)
                return
            self.matched += 1
            if not self._order.dry:
                await self._act(record)

        await _some_at_once(find_and_act, names)

    async def _find(self, name: CallName, sees: Callable[[Record], bool] | None) -> Record:
        try:
            record: Record = await self._of_caller(name.caller).get(name.id, thread=name.thread)
        except UsageError:
            if sees is None:
                raise
            text = f"several calls have the id {name.id!r}; name its thread and caller, too."  # not which: some may be hidden
            raise UsageError(text) from None
        if sees is not None and not sees(record):
            raise NotFound(f"there is no call {name.id!r}. It may have been swept.")
        return record

    def _of_caller(self, caller: str | None) -> Any:
        """The runtime with that caller's calls. The runtime of one caller finds no others."""
        if caller is None or caller == self._runtime._caller:
            return self._runtime
        if self._runtime._caller is not None:
            raise PermissionDenied("calls of another caller cannot be named here. Leave `caller` out.")
        return self._runtime.acting_for(caller)

    async def on_found(self, sees: Callable[[Record], bool] | None) -> str | None:
        """Act on the calls that the filter finds. Returns the cursor."""
        order = self._order
        which = {**(order.filter or {}), **_IMPLIED[order.action]}
        view = self._of_caller(which.pop("caller", None))
        cursor = order.cursor
        looked = 0
        while looked < order.limit:
            page = await view.history(limit=min(_BATCH, order.limit - looked), cursor=cursor, **which)
            cursor, looked = page.cursor, looked + len(page.items)
            found = [
                record
                for record in page.items
                if record.events and self._applies(record) and (sees is None or sees(record))
            ]
            self.matched += len(found)
            if not order.dry:
                await _some_at_once(self._act, found)
            if cursor is None or page.searched_to is not None:
                break
        return cursor

    def _applies(self, record: Record) -> bool:
        return self._order.action != "again" or (record.state.is_terminal and not record.tool.startswith("agent:"))

    async def _act(self, record: Record) -> None:
        try:
            acted = await self._do(record)
            if acted and self._on_acted is not None:
                await self._on_acted(record)
        except ClicketError as error:
            self._failed(record.id, record.thread, record.caller, error)
            return
        if acted:
            self.done += 1
        else:
            self.skipped += 1

    async def _do(self, record: Record) -> bool:
        order = self._order
        thread = record.thread
        view = self._runtime.acting_for(record.caller, self._scopes, self._approver.names)
        if order.action == "cancel":
            if record.state is State.CANCELLED:
                return False
            return bool(await view.cancel(record.id, thread=thread, reason=order.reason))
        if order.action == "again":
            handle = await view.again(record.id, thread=thread)
            self.made.append(MadeCall(id=handle.id, thread=thread, caller=record.caller, **{AGAIN_OF: record.id}))
            return True
        if record.waiting_for != "approval" or record.approval is None:
            return False
        decide = approve_as if order.action == "approve" else deny_as
        # The hash: the decision is about what was found, and not about a later question of the same call.
        seen = record.approval["hash"]
        return await decide(view, record.id, self._approver, thread=thread, reason=order.reason, seen=seen)

    def _failed(self, id: str, thread: str | None, caller: str | None, error: ClicketError) -> None:
        self.failures.append(BulkFailure(id=id, thread=thread, caller=caller, code=error.code, message=error.message))


async def _some_at_once(work: Callable[[Any], Any], items: Sequence[Any]) -> None:
    rest = iter(items)

    async def go_on() -> None:
        for item in rest:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_AT_ONCE, len(items))):
            group.create_task(go_on())
