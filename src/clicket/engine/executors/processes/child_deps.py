"""Deps in a child process: each factory runs once there. They are made, used by async tools, and closed on one loop, which is kept between
jobs: a pool of connections belongs to its loop."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from clicket.engine.executors.processes.target import Target, resolve_factory
from clicket.tools.deps import DepValues, factory_failed, make_dep

__all__ = ["made_here", "on_own_loop"]

_made: dict[Target, Any] = {}
_exits = AsyncExitStack()


def made_here(factories: Mapping[str, Target], needed: tuple[str, ...]) -> DepValues:
    """The deps of a job. Raises the error of a factory whose value the tool needs."""
    values: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    for name, target in factories.items():
        try:
            if target not in _made:
                _made[target] = on_own_loop(make_dep(resolve_factory(target), _exits, _here))
            values[name] = _made[target]
        except Exception as error:
            failed[name] = factory_failed(name, error)
    found = DepValues(values, failed)
    for name in needed:
        found[name]
    return found


def on_own_loop(work: Coroutine[Any, Any, Any]) -> Any:
    return _runner().run(work)


@cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(_close, runner)
    return runner


def _close(runner: asyncio.Runner) -> None:
    with runner:
        runner.run(_exits.aclose())


async def _here(function: Callable[[], Any]) -> Any:
    return function()
