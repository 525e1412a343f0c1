"""Durable events of all calls as one stream. A reader that is too slow misses events, and gets a `Gap` in their place. The code is in
`clicket.runtime.calls.subscription`."""

from clicket.runtime.calls.subscription import *  # noqa: F403
from clicket.runtime.calls.subscription import __all__ as __all__  # noqa: PLC0414
