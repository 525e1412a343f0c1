"""All hostile programs. The tiers that a program names must stop it."""

from __future__ import annotations

from tests.security.hostile_escapes import FILES, NETWORK, POWERS, PROCESSES, SECRETS
from tests.security.hostile_exhaustion import DISK, ENDINGS, MEMORY, STREAMS, TIME, TRICKS
from tests.security.hostile_program import Hostile

__all__ = ["FENCES", "PROGRAMS", "Hostile"]

FENCES: list[Hostile] = [*FILES, *SECRETS, *NETWORK, *POWERS, *PROCESSES]
"""Programs whose outcome depends on the layers."""

PROGRAMS: list[Hostile] = [
    *FILES,
    *SECRETS,
    *NETWORK,
    *POWERS,
    *TIME,
    *MEMORY,
    *PROCESSES,
    *ENDINGS,
    *STREAMS,
    *TRICKS,
    *DISK,
]
