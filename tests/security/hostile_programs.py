"""All hostile programs. Each must be held by the tiers that it names."""

from __future__ import annotations

from tests.security.hostile_escapes import FILES, NETWORK, POWERS, PROCESSES, SECRETS
from tests.security.hostile_exhaustion import DISK, ENDINGS, MEMORY, STREAMS, TIME, TRICKS
from tests.security.hostile_program import Hostile

__all__ = ["FENCES", "PROGRAMS", "Hostile"]

FENCES: list[Hostile] = [*FILES, *SECRETS, *NETWORK, *POWERS, *PROCESSES]
"""Those whose outcome depends on the layers."""

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
