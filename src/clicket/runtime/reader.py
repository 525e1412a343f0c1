"""Reads the calls of a store without an engine, for commands such as `ps` and `show`. It runs, claims and recovers nothing."""

from __future__ import annotations

import asyncio
import copy
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from clicket.engine.phase import Phase
from clicket.engine.records.stored_calls import StoredCalls
from clicket.model import Page, Record, read
from clicket.model.ports import NoBus, Store, SystemClock
from clicket.runtime.calls.history import HistoryOptions, find_calls
from clicket.runtime.compose import open_and_wait, open_store, owner_of
from clicket.runtime.settings import Settings

if TYPE_CHECKING:  # not every command that reads lists threads
    from clicket.runtime.views.threads import ThreadPage

__all__ = ["Reader"]


class Reader:
    """`async with Reader(settings) as reader`. Its methods are those of `Runtime` with the same names."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store: Store = open_store(settings)
        self._caller: str | None = None
        self._calls = StoredCalls(self.store, SystemClock(), Phase(), NoBus(), spawn=asyncio.ensure_future)

    async def __aenter__(self) -> Self:
        await open_and_wait(self.store, owner_of(self.settings), self.settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.close()

    def acting_for(self, caller: str) -> Reader:
        view = copy.copy(self)
        view._caller = caller
        return view

    async def get(self, id: str, *, thread: str | None = None) -> Record:
        stored = await self._calls.find_named(id, thread, self._caller)
        return read(stored.id, stored.events)

    async def history(self, *, limit: int = 100, cursor: str | None = None, **which: Unpack[HistoryOptions]) -> Page:
        return await find_calls(self.store, self._caller, limit, cursor, **which)

    async def threads(self, *, limit: int = 100, cursor: str | None = None) -> ThreadPage:
        from clicket.runtime.views.threads import list_threads

        return await list_threads(self.store, self._caller, limit, cursor)
