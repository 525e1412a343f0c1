"""Where attempts are placed: in this process."""

from __future__ import annotations

from clicket.engine.housekeeping import Housekeeping, sweep
from clicket.engine.identity import same_or_conflict
from clicket.engine.limits import Limits
from clicket.engine.local import LocalEngine
from clicket.engine.recovery import Recovered, recover
from clicket.engine.shutdown import close

__all__ = ["Housekeeping", "Limits", "LocalEngine", "Recovered", "close", "recover", "same_or_conflict", "sweep"]
