"""Programs that nobody has read, in cages: what keeps them apart from the host, how much they may use, how they end."""

from clicket.sandbox.cage import Cage, Exit
from clicket.sandbox.isolation import LAYERS, LEVELS, Isolation, NotIsolated
from clicket.sandbox.limits import Limits, size_of
from clicket.sandbox.sandbox import Sandbox
from clicket.sandbox.start import SandboxFailed

__all__ = [
    "LAYERS",
    "LEVELS",
    "Cage",
    "Exit",
    "Isolation",
    "Limits",
    "NotIsolated",
    "Sandbox",
    "SandboxFailed",
    "size_of",
]
