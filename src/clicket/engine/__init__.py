"""Where attempts are placed: in this process."""

from __future__ import annotations

from clicket.engine.housekeeping import Housekeeping, sweep
from clicket.engine.local import Limits, LocalEngine
from clicket.engine.recovery import Recovered, recover
from clicket.engine.shutdown import close

__all__ = ["Housekeeping", "Limits", "LocalEngine", "Recovered", "close", "recover", "sweep"]
