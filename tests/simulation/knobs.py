"""Intervals of the product that a seed turns: how often a process looks for what no message told it.

Rare looks leave more to messages, and a seed has fewer steps in which nothing happens.
"""

from __future__ import annotations

import random
from types import ModuleType

from clicket.engine.drive import chore_schedule
from clicket.stores.sqlite import store as sqlite_store

__all__ = ["turn"]

KNOBS: tuple[tuple[ModuleType, str, tuple[float, ...]], ...] = (
    (chore_schedule, "LISTEN_EVERY", (0.25, 0.5, 1.0, 1.0)),
    (chore_schedule, "LOOK_EVERY", (1.0, 2.0)),
    (chore_schedule, "CREDENTIALS_EVERY", (1.0, 2.0)),
    (sqlite_store, "_LOOK_EVERY", (0.025, 0.1, 0.25, 0.25)),
)


def turn(seed: int) -> None:
    chance = random.Random(f"{seed} knobs")
    for module, name, values in KNOBS:
        setattr(module, name, chance.choice(values))
