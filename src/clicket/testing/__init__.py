"""Public fakes and checks for tests. Tests that use them neither sleep nor depend on the speed of the machine.

`memory_runtime` is a runtime in memory whose time and randomness a test controls. The modules:

- `clock`: `StepClock`, time that a test advances
- `scripted_model`: `ScriptedModel`, a language model with prepared answers
- `recording`: `RecordingModel` and `ReplayModel`, answers of a real model, written to a file and read from it
- `store_calls`, `store_documents`, `store_retention`, `store_stats`, `store_threads`: `store_contract`, the laws of `model.ports.store` as
  checks, for the stores that ship here and for yours
- `store_queues`: laws of both, about waiting calls and rates
- `store_ownership`, `store_series`, `store_stats_shared`: `shared_store_contract`, the laws of a store that several processes share
- `store_kit`: helpers of these checks

A check takes a factory of stores. For `store_contract` each store may be empty; for `shared_store_contract` all must open the
same data, as several processes do.

    @pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
    async def test_my_store(check):
        await check(MyStore)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from clicket.engine.stages import Policy
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.testing import (
    store_calls,
    store_documents,
    store_ownership,
    store_queues,
    store_retention,
    store_series,
    store_stats,
    store_stats_shared,
    store_threads,
)
from clicket.testing.clock import StepClock
from clicket.testing.recording import RecordingModel, ReplayModel
from clicket.testing.scripted_model import ScriptedModel
from clicket.testing.store_kit import Check

__all__ = [
    "Check",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "StepClock",
    "memory_runtime",
    "shared_store_contract",
    "store_contract",
    "with_clock",
]

store_contract: Sequence[Check] = (
    *store_calls.laws,
    *store_threads.laws,
    *store_retention.laws,
    *store_stats.laws,
    *store_documents.laws,
    *store_queues.laws,
)
shared_store_contract: Sequence[Check] = (
    *store_ownership.laws,
    *store_stats_shared.laws,
    *store_series.laws,
    *store_queues.shared_laws,
)


def with_clock(runtime: Runtime, clock: StepClock | None, *, seed: int = 0) -> Runtime:
    """The runtime, which is not open yet, with its time from `clock` and its jitter from `seed`."""
    runtime._clock = clock
    runtime._chance = Random(seed)  # jitter that repeats, not secrets
    return runtime


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
    async with with_clock(runtime, clock, seed=seed):
        yield runtime
