"""A runtime in memory whose timing and randomness a test controls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from clicket.pipeline import Policy
from clicket.runtime import Runtime
from clicket.settings import Settings
from clicket.testing.clock import StepClock

__all__ = ["memory_runtime"]


@asynccontextmanager
async def memory_runtime(
    tools: Iterable[Any] = (),
    *,
    clock: StepClock | None = None,
    seed: int = 0,
    policy: Policy | None = None,
    **settings: Any,
) -> AsyncIterator[Runtime]:
    """A runtime on `memory://` that reads no file and no environment; jitter comes from `seed`, time from `clock`."""
    runtime = Runtime(tools, policy=policy, settings=Settings(store="memory://", **settings))
    runtime._clock = clock
    runtime._chance = Random(seed)  # jitter that repeats, not secrets
    async with runtime:
        yield runtime
