"""Which tools a thread may use now: dependencies, the circuit breaker, and statuses that a person set. All processes share it. The code is
in `clicket.engine.hub`."""

from clicket.engine.hub import *  # noqa: F403
from clicket.engine.hub import __all__ as __all__  # noqa: PLC0414
