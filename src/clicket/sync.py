"""The blocking API: the same names, for programs without an event loop. Each runtime has one loop in one thread. The code is in
`clicket.runtime.blocking`."""

from clicket.runtime.blocking import *  # noqa: F403
from clicket.runtime.blocking import __all__ as __all__  # noqa: PLC0414
