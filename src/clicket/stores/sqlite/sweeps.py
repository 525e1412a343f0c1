"""Sweeps of a store: what breaks a bound is announced, and removed in steps; artifacts that nothing names, and old tool health, go last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import apsw

from clicket import system
from clicket.model.ports import Keep, OnRemove, Sweep
from clicket.stores.sqlite import records, retention
from clicket.stores.sqlite.files import ArtifactFiles
from clicket.stores.sqlite.rows import select
from clicket.system.bridge import ThreadPool

__all__ = ["Sweeps"]

T = TypeVar("T")
_REMOVE_STEP = 20
"""Calls, which carry their whole results, that are read at once before they are removed."""
_FORGET_STEP = 500
_RELEASE_STEP = 200
_PLAN_FRESH = 60.0
"""Seconds for which a sweep removes what it has counted."""


class _Run(Protocol):
    def __call__(self, job: Callable[[apsw.Connection], T]) -> Awaitable[T]: ...


class Sweeps:
    """`read` and `write` run a job with the connection that reads, or writes; `filing` are the threads for files."""

    def __init__(self, read: _Run, write: _Run, filing: ThreadPool, files: ArtifactFiles) -> None:
        self._read = read
        self._write = write
        self._filing = filing
        self._files = files
        self._sweep_plan: retention.SweepPlan | None = None

    async def sweep(self, keep: Keep, limit: int, *, dry: bool, on_remove: OnRemove | None) -> Sweep:
        artifacts, size = await self._end_pins(system.now() if keep.now is None else keep.now, dry=dry)
        if dry:
            swept = await self._read(lambda c: retention.count_over(c, keep))
        else:
            plan = self._plan_of(keep)
            going = await self._read(lambda c: retention.next_over(c, plan, limit))
            kept = set[int]() if on_remove is None else await self._announce(list(going), on_remove)
            swept = await self._write(lambda c: retention.sweep(c, going, kept, more=len(going) == limit))
            swept.more = swept.more or await self._write(retention.give_back)
        swept.artifacts += artifacts
        swept.bytes += size
        if not swept.more and not dry:
            self._sweep_plan = None
            named = await self._read(retention.kept_artifacts)
            swept.artifacts += (await self._filing.run(lambda: self._files.sweep(named)))[0]
            if keep.health_since is not None:
                await self._forget_health(keep.health_since)
        return swept

    def _plan_of(self, keep: Keep) -> retention.SweepPlan:
        now = system.monotonic()
        if self._sweep_plan is None or not self._sweep_plan.is_for(keep, now):
            self._sweep_plan = retention.SweepPlan(keep, now + _PLAN_FRESH)
        return self._sweep_plan

    async def _announce(self, keys: list[int], on_remove: OnRemove) -> set[int]:
        kept = set[int]()
        for at in range(0, len(keys), _REMOVE_STEP):
            few = keys[at : at + _REMOVE_STEP]
            clause = f"WHERE key IN ({','.join('?' * len(few))})"
            calls = await self._read(lambda c, few=few, clause=clause: select(c, clause, few))  # type: ignore[misc]
            kept.update(await on_remove(calls) or ())
        return kept

    async def release(self, caller: str, thread: str) -> None:
        while await self._write(lambda c: retention.release(c, caller, thread, _RELEASE_STEP)):
            pass

    async def _end_pins(self, now: float, *, dry: bool) -> tuple[int, int]:
        """What no call names goes with its pin, counted with its bytes; the rest goes with its last call."""
        over, loose = await self._read(lambda c: retention.loose_pins(c, now))
        if over and not dry:  # looking costs no writer anything
            loose = await self._write(lambda c: retention.end_pins(c, now))
        return await self._filing.run(lambda: self._files.remove(loose, dry=dry)) if loose else (0, 0)

    async def _forget_health(self, since: float) -> None:
        places = [("", "", "")]
        while places := await self._read(lambda c, after=places[-1]: records.idle(c, since, after, _FORGET_STEP)):  # type: ignore[misc]
            await self._write(lambda c, places=places: records.forget(c, since, places))  # type: ignore[misc]
