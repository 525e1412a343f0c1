"""Failpoints: where a child can kill itself: around every stage, every store operation, every step of recovery.

The product has no code for this. A point is a function named by its module; `arm` wraps it from the outside, and its
n-th call ends the process with SIGKILL: no handler and no `finally` runs, no buffer is flushed.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from tests.crash.tools import append_line

__all__ = ["Point", "arm", "points_of", "resolve"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """`often`: about how many times a child passes it, so that the fatal call can be drawn at random."""

    name: str
    target: str
    """`module:Class.function`; without a module, a method of the store's class."""
    side: str
    often: int
    tool: str | None = None
    """The tool whose calls reach this point."""


_PLACES: dict[str, tuple[str, int]] = {
    "find": ("clicket.engine.stages.find:Find.__call__", 6),
    "authorize": ("clicket.engine.stages.authorize:Authorize.__call__", 6),
    "validate": ("clicket.engine.stages.validate:Validate.__call__", 6),
    "execute": ("clicket.engine.stages.execute:Execute.__call__", 5),
    "process": ("clicket.engine.stages.process:Process.__call__", 5),
    "persist": ("clicket.engine.stages.persist:Persist.__call__", 5),
    "accept": ("clicket.engine.lifecycle.admission:Admission.take", 6),
    "begin": ("clicket.engine.lifecycle.running:Running.start_attempt", 5),
    "launch": ("clicket.engine.lifecycle.running:Running.on_start_durable", 5),
    "ended": ("clicket.engine.lifecycle.ending:Ending.on_outcome_durable", 5),
    "decide": ("clicket.engine.lifecycle.approvals:Approvals.apply", 1),
    "give away": ("clicket.engine.lifecycle.handover:HandOver.give_away", 3),
    "hand back": ("clicket.engine.lifecycle.handover:HandOver.close_started", 1),
    "ask others": ("clicket.engine.records.signals:Signals.write", 1),
    "cancel": ("clicket.engine.lifecycle.stopping:Stopping.cancel", 1),
    "run": ("clicket.engine.lifecycle.runner:Runner.run", 5),
    "next attempt": ("clicket.engine.lifecycle.runner:Runner.begin", 2),
    "thread": ("clicket.engine.executors.thread_lane:ThreadLane.attempt", 2),
    "revive": ("clicket.engine.recovery.recovery:Recovery._revive", 2),
    "take up": ("clicket.engine.recovery.recovery:Recovery._resume", 2),
    "close": ("clicket.engine.drive.closing:Closing.close", 1),
    "store.append": ("append", 15),
    "store.open": ("open", 1),
    "store.close": ("close", 1),
    "store.claim_orphans": ("claim_orphans", 1),
    "store.claim_waiting": ("claim_waiting", 2),
    "store.load": ("load", 1),
    "store.put_artifact": ("put_artifact", 1),
}
_APART = {
    "worker": ("clicket.engine.executors.processes.pool:ProcessPool.acquire", 1),
    "job": ("clicket.engine.executors.processes.handle:ToolProcess.run", 1),
}
_GROUP = {"store.group": ("clicket.stores.remote:GroupWriter._write", 10)}
_INSIDE = {
    "sqlite": {"sqlite.apply": ("clicket.stores.sqlite.appends:Appends.apply", 15)},  # in the middle of a transaction
    "redis": _GROUP,
    "postgresql": _GROUP,
}
"""Points that only one kind of store has."""

_LED_TO_BY = {
    "decide": "approved",
    "next attempt": "flaky",
    "thread": "pay_in_thread",
    "worker": "pay_in_process",
    "job": "pay_in_process",
    "store.put_artifact": "report",
}


def points_of(scheme: str, *, apart: bool) -> list[Point]:
    """Every point that a process over such a store can reach; `apart`: with tools in worker processes."""
    places = {**_PLACES, **(_APART if apart else {}), **_INSIDE.get(scheme, {})}
    return [
        Point(name=f"{name} {side}", target=target, side=side, often=often, tool=_LED_TO_BY.get(name))
        for name, (target, often) in places.items()
        for side in ("before", "after")
    ]


def arm(point: Point, nth: int, log: Path) -> None:
    """Die at the n-th passing of a point."""
    passed = itertools.count(1)

    def hit() -> None:
        if next(passed) == nth:
            append_line(log, point.name)
            os.kill(os.getpid(), signal.SIGKILL)

    if ":" in point.target:
        owner, attribute = resolve(point.target)
        function = getattr(owner, attribute)
        wrapped = _wrapped(function, point.side, hit)
        # Replace the function in every module that imported it by name.
        everywhere = [module for name, module in sys.modules.items() if name.startswith("clicket")]
        for place in everywhere if isinstance(owner, ModuleType) else [owner]:
            if vars(place).get(attribute) is function:
                setattr(place, attribute, wrapped)
    else:
        _arm_store(point.target, point.side, hit)


def resolve(target: str) -> tuple[Any, str]:
    """The module or class that holds the function, and its name there."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    getattr(owner, attribute)
    return owner, attribute


def _wrapped(function: Callable[..., Any], side: str, hit: Callable[[], None]) -> Callable[..., Any]:
    async def awaited(value: Any) -> Any:
        result = await value
        hit()
        return result

    def passing(*given: Any, **named: Any) -> Any:
        if side == "before":
            hit()
            return function(*given, **named)
        value = function(*given, **named)
        if inspect.isawaitable(value):
            return awaited(value)
        hit()
        return value

    return passing


def _arm_store(name: str, side: str, hit: Callable[[], None]) -> None:
    """The store's class is known only when the store is opened."""
    compose: Any = importlib.import_module("clicket.runtime.compose")
    make = compose.open_store

    def made(*given: Any, **named: Any) -> Any:
        store = make(*given, **named)
        kind = type(store)
        original = getattr(kind, name)
        if name != "append":
            setattr(kind, name, _wrapped(original, side, hit))
            return store

        def append(self: Any, change: Any, done: Callable[[Any, Any], None]) -> None:
            def answered(written: Any, error: Any) -> None:
                if error is None and side == "after":
                    hit()  # the write is durable, but the caller has no answer yet
                done(written, error)

            if side == "before":
                hit()
            original(self, change, answered)

        kind.append = append
        return store

    compose.open_store = made
