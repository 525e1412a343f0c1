"""Public fakes and checks: a clock that is stepped, a runtime in memory, a model with a script, one that is recorded and
replayed, and every store's laws.

Tests that use them neither sleep nor depend on the speed of the machine.
"""

from __future__ import annotations

from clicket.testing.clock import StepClock
from clicket.testing.model import ScriptedModel
from clicket.testing.recording import RecordingModel, ReplayModel
from clicket.testing.runtime import memory_runtime
from clicket.testing.stores import Check, shared_store_contract, store_contract

__all__ = [
    "Check",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "StepClock",
    "memory_runtime",
    "shared_store_contract",
    "store_contract",
]
