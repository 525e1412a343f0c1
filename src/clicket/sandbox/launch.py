"""Starts a program in a cage as a plan says, and comes back when its first word is there to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from clicket.sandbox import frames
from clicket.sandbox.boot_config import order
from clicket.sandbox.isolation import Isolation
from clicket.sandbox.launch_resources import LaunchResources, Plan, SandboxFailed, SandboxResources
from clicket.sandbox.launchers import LAUNCHERS
from clicket.sandbox.limits import Limits
from clicket.sandbox.process import SandboxProcess
from clicket.sandbox.process_tree import NamespaceTree

__all__ = ["launch"]

_PATIENCE = 60.0
"""Seconds from the start of a process to the first word of its program, on a machine that is very busy."""


async def launch(
    ground: SandboxResources,
    plan: Plan,
    *,
    program: str,
    settings: dict[str, Any],
    limits: Limits,
    isolation: Isolation,
    forget: Callable[[SandboxProcess], None],
) -> SandboxProcess:
    """What was taken for a start that failed, or was cancelled, is given back before anybody hears of it."""
    try:
        start = LaunchResources(ground, plan, limits)
    except OSError as error:
        raise SandboxFailed(f"a cage could not be made: {error}.") from error
    try:
        async with asyncio.timeout(_PATIENCE):
            start.make_group()
            await LAUNCHERS[plan.launcher](start)
            await start.first_word(frames.pack(_order(start, program, settings)))
        return _process(start, isolation, forget)
    except BaseException as error:
        await asyncio.shield(asyncio.ensure_future(start.undo()))
        if isinstance(error, TimeoutError):
            words = f"the program said nothing within {_PATIENCE:g} s of its start; is the machine overloaded?"
            raise SandboxFailed(words) from None
        if isinstance(error, OSError):
            raise SandboxFailed(f"a cage could not be made: {error}.") from error
        raise


def _order(start: LaunchResources, program: str, settings: dict[str, Any]) -> dict[str, Any]:
    return order(
        program=program,
        settings=settings,
        home=start.home,
        scratch=start.scratch,
        layers=start.plan.layers,
        limits=start.limits,
        uid=start.uid,
        python=start.ground.python,
        library=str(start.ground.library),
        readable=[str(folder) for folder in start.ground.readable],
        path=[str(folder) for folder in start.ground.path],
    )


def _process(start: LaunchResources, isolation: Isolation, forget: Callable[[SandboxProcess], None]) -> SandboxProcess:
    assert start.tree is not None
    if isinstance(start.tree, NamespaceTree):
        start.tree.settle()
    return SandboxProcess(
        tree=start.tree,
        pipes=start.pipes,
        folder=start.folder,
        home=start.home,
        uid=start.uid,
        isolation=isolation,
        limits=start.limits,
        group=start.group,
        exited=start.exited,
        workers=start.ground.workers,
        forget=forget,
    )
