"""Where attempts are placed: in this process, or in whichever process over the same store claims the call."""

from __future__ import annotations

from clicket.engine.caching import CacheOptions
from clicket.engine.housekeeping import Housekeeping, keep_of, kept_until, sweep
from clicket.engine.identity import same_or_conflict
from clicket.engine.limits import Limits
from clicket.engine.local import LocalEngine
from clicket.engine.recovery import Progress, Recovered, recover
from clicket.engine.shutdown import close

__all__ = [
    "CacheOptions",
    "Housekeeping",
    "Limits",
    "LocalEngine",
    "Progress",
    "Recovered",
    "close",
    "keep_of",
    "kept_until",
    "recover",
    "same_or_conflict",
    "sweep",
]
