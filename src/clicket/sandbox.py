"""Runs untrusted programs in sandbox processes: isolation layers, resource limits, and a complete clean-up. The code is in
`clicket.interpreter.sandbox`."""

from clicket.interpreter.sandbox import *  # noqa: F403
from clicket.interpreter.sandbox import __all__ as __all__  # noqa: PLC0414
